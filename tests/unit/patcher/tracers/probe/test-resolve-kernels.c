/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parameters and chains of members, resolved with the types of real Debian kernels: the steps that
 * they become, and what is said of wrong ones. Needs tests/testbed/fetch-kernel to have run;
 * $KERNELS_DIR names another directory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "patcher/tracers/probe/probe.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static const struct btf_types *btf;

static int64_t offset(const char *structure, const char *member)
{
	struct btf_field field;

	if (btf_field(btf, structure, member, &field, NULL))
		abort();
	return field.offset;
}

static bool op_is(const struct fetch_op *op, enum fetch_op_kind kind, int64_t at)
{
	return op->kind == kind && op->at == at;
}

static bool resolve(const struct kernel *kernel, const char *args, struct fetch_probe *probe,
		    struct error *err)
{
	char text[200];

	snprintf(text, sizeof(text), "p vfs_read %s", args);
	*err = (struct error){0};
	if (fetch_parse(text, probe, err))
		abort();
	return !probe_resolve(probe, "vfs_read", btf, kernel, err);
}

/* file, buf, count, pos */
static void test_parameters(const struct kernel *kernel)
{
	struct fetch_probe probe;
	struct error err;
	const struct fetch_arg *arg = probe.args;

	ok(resolve(kernel, "file count:u32 s=\\7 $arg*", &probe, &err) && probe.nr_args == 7,
	   "parameters by name, and all of them: %s", err.text);
	ok(!strcmp(arg[0].name, "file") && arg[0].ops[0].reg == FETCH_DI && arg[0].nr_ops == 1 &&
		   arg[0].show == FETCH_HEX && arg[0].size == 8,
	   "a pointer is shown in hexadecimal");
	ok(arg[1].ops[0].reg == FETCH_DX && arg[1].size == 4, "a type that is given counts");
	ok(!strcmp(arg[3].name, "file_") && !strcmp(arg[4].name, "buf") &&
		   !strcmp(arg[5].name, "count_") && !strcmp(arg[6].name, "pos"),
	   "all parameters have names of their own");
	ok(arg[5].show == FETCH_UNSIGNED && arg[5].size == 8 && arg[6].ops[0].reg == FETCH_CX &&
		   probe.bytes == 56 && probe.nr_fields == 7,
	   "and their types");
}

static void test_chains(const struct kernel *kernel)
{
	const int64_t dentry = offset("file", "f_path.dentry"),
		      name = offset("dentry", "d_name.name"), inode = offset("dentry", "d_inode"),
		      iname = offset("dentry", "d_iname"), mode = offset("inode", "i_mode");
	struct fetch_probe probe;
	struct error err;
	const struct fetch_op *ops = probe.args[0].ops;

	ok(resolve(kernel, "file->f_path.dentry->d_inode->i_mode", &probe, &err) &&
		   probe.args[0].nr_ops == 4 && ops[0].reg == FETCH_DI &&
		   op_is(&ops[1], FETCH_DEREF, dentry) && op_is(&ops[2], FETCH_DEREF, inode) &&
		   op_is(&ops[3], FETCH_MEMORY, mode) && probe.args[0].size == 2 &&
		   probe.args[0].show == FETCH_UNSIGNED && !strcmp(probe.args[0].name, "i_mode"),
	   "a chain of members: %s", err.text);
	ok(resolve(kernel, "n=file->f_path.dentry->d_name.name:string", &probe, &err) &&
		   probe.args[0].nr_ops == 4 && op_is(&ops[1], FETCH_DEREF, dentry) &&
		   op_is(&ops[2], FETCH_DEREF, name) && op_is(&ops[3], FETCH_TEXT, 0),
	   "a pointer to a string: %s", err.text);
	ok(resolve(kernel, "file->f_path.dentry->d_iname:string", &probe, &err) &&
		   probe.args[0].nr_ops == 3 && op_is(&ops[2], FETCH_TEXT, iname),
	   "a string in a struct: %s", err.text);
	ok(resolve(kernel, "+8(file->f_path.dentry):u16 buf:ustring", &probe, &err) &&
		   probe.args[0].nr_ops == 3 && op_is(&ops[1], FETCH_DEREF, dentry) &&
		   op_is(&ops[2], FETCH_MEMORY, 8) && probe.args[1].nr_ops == 2 &&
		   op_is(&probe.args[1].ops[1], FETCH_TEXT, 0),
	   "steps around a chain, and a parameter that is a string: %s", err.text);
	ok(resolve(kernel, "@linux_banner:string", &probe, &err) && ops[0].kind == FETCH_CONSTANT &&
		   (uint64_t)ops[0].at == kernel_symbol(kernel, "linux_banner"),
	   "a symbol: %s", err.text);
}

static void test_numbers(const struct kernel *kernel)
{
	const int64_t dentry = offset("file", "f_path.dentry"), mode = offset("file", "f_mode"),
		      inode = offset("dentry", "d_inode");
	struct fetch_probe probe;
	struct error err;
	const struct fetch_op *ops = probe.args[0].ops;

	ok(resolve(kernel, "$arg1->f_mode", &probe, &err) && probe.args[0].nr_ops == 2 &&
		   ops[0].reg == FETCH_DI && op_is(&ops[1], FETCH_MEMORY, mode) &&
		   probe.args[0].size == 4 && probe.args[0].show == FETCH_UNSIGNED &&
		   !strcmp(probe.args[0].name, "f_mode"),
	   "a member of the first argument: %s", err.text);
	ok(resolve(kernel, "+8($arg1->f_path.dentry->d_inode):u16 $arg3", &probe, &err) &&
		   probe.args[0].nr_ops == 4 && op_is(&ops[1], FETCH_DEREF, dentry) &&
		   op_is(&ops[2], FETCH_DEREF, inode) && op_is(&ops[3], FETCH_MEMORY, 8) &&
		   probe.args[1].ops[0].reg == FETCH_DX,
	   "a chain from there on: %s", err.text);
	ok(resolve(kernel, "file $arg2:ustring", &probe, &err) &&
		   !strcmp(probe.args[1].name, "arg2") && probe.args[1].nr_ops == 2 &&
		   probe.args[1].ops[0].reg == FETCH_SI &&
		   op_is(&probe.args[1].ops[1], FETCH_TEXT, 0),
	   "the second argument, which is a string: %s", err.text);
	ok(!resolve(kernel, "%di $arg3:string", &probe, &err) &&
		   strstr(err.text, "argument 'arg2': a string lies in memory") && err.column == 16,
	   "a number is none: %s", err.text);
	ok(!resolve(kernel, "%di x=$arg5:string", &probe, &err) &&
		   strstr(err.text, "vfs_read has 4 parameters only") && err.column == 18,
	   "nor is an argument that the function does not have: %s", err.text);
	ok(!resolve(kernel, "%di x=$arg5->f_mode", &probe, &err) &&
		   strstr(err.text, "argument 'x': vfs_read has 4 parameters only") &&
		   err.column == 18,
	   "an argument that the function does not have: %s", err.text);
	ok(!resolve(kernel, "%di x=$arg1->f_mod", &probe, &err) &&
		   strstr(err.text, "struct file has no member 'f_mod'") && err.column == 25,
	   "a wrong member is refused at its place: %s", err.text);
	ok(!resolve(kernel, "%di x=$arg3->f_mode", &probe, &err) &&
		   strstr(err.text, "no pointer to a struct is in front of 'f_mode'"),
	   "and a member of a number: %s", err.text);
}

/* An array begins where the member does, whatever that is. */
static void test_arrays(const struct kernel *kernel)
{
	const int64_t dentry = offset("file", "f_path.dentry"), iname = offset("dentry", "d_iname"),
		      inode = offset("file", "f_inode"), sb = offset("inode", "i_sb"),
		      uuid = offset("super_block", "s_uuid.b"), op = offset("file", "f_op");
	struct fetch_probe probe;
	struct error err;
	const struct fetch_arg *arg = &probe.args[0];
	const struct fetch_op *ops = arg->ops;

	ok(resolve(kernel, "file->f_path.dentry->d_iname:char[32]", &probe, &err) &&
		   arg->nr_ops == 3 && op_is(&ops[1], FETCH_DEREF, dentry) &&
		   op_is(&ops[2], FETCH_MEMORY, iname) && arg->show == FETCH_CHARACTER &&
		   arg->size == 1 && arg->count == 32 && probe.bytes == 32,
	   "characters that a member is: %s", err.text);
	ok(resolve(kernel, "$arg1->f_inode->i_sb->s_uuid.b:x8[16] count", &probe, &err) &&
		   arg->nr_ops == 4 && op_is(&ops[1], FETCH_DEREF, inode) &&
		   op_is(&ops[2], FETCH_DEREF, sb) && op_is(&ops[3], FETCH_MEMORY, uuid) &&
		   arg->size == 1 && arg->count == 16 && probe.nr_fields == 17,
	   "an array in a struct: %s", err.text);
	ok(resolve(kernel, "file->f_path:x64[2]", &probe, &err) && arg->nr_ops == 2 &&
		   op_is(&ops[1], FETCH_MEMORY, offset("file", "f_path")) && arg->count == 2,
	   "a struct: %s", err.text);
	ok(resolve(kernel, "file->f_op:x32[2]", &probe, &err) && arg->nr_ops == 2 &&
		   op_is(&ops[1], FETCH_MEMORY, op) && arg->size == 4 && arg->count == 2,
	   "a pointer is not followed: %s", err.text);
}

static bool resolve_result(const struct kernel *kernel, const char *text, struct fetch_probe *probe,
			   struct error *err)
{
	*err = (struct error){0};
	if (fetch_parse(text, probe, err))
		abort();
	return !probe_resolve(probe, probe->symbol, btf, kernel, err);
}

static void test_results(const struct kernel *kernel)
{
	const int64_t mode = offset("file", "f_mode"), dentry = offset("file", "f_path.dentry"),
		      inode = offset("dentry", "d_inode");
	struct fetch_probe probe;
	struct error err;
	const struct fetch_op *ops = probe.args[0].ops;

	ok(resolve_result(kernel, "r do_filp_open $retval->f_mode", &probe, &err) &&
		   probe.args[0].nr_ops == 2 && ops[0].reg == FETCH_AX &&
		   op_is(&ops[1], FETCH_MEMORY, mode) && probe.args[0].size == 4 &&
		   probe.args[0].show == FETCH_UNSIGNED,
	   "a member of what a function returns: %s", err.text);
	ok(resolve_result(kernel, "r do_filp_open +8($retval->f_path.dentry->d_inode):u16", &probe,
			  &err) &&
		   probe.args[0].nr_ops == 4 && op_is(&ops[1], FETCH_DEREF, dentry) &&
		   op_is(&ops[2], FETCH_DEREF, inode) && op_is(&ops[3], FETCH_MEMORY, 8),
	   "a chain from there on: %s", err.text);
	ok(resolve_result(kernel, "r d_path $retval:string", &probe, &err) &&
		   probe.args[0].nr_ops == 2 && ops[0].reg == FETCH_AX &&
		   op_is(&ops[1], FETCH_TEXT, 0),
	   "a string that a function returns: %s", err.text);
	ok(!resolve_result(kernel, "r vfs_read $retval:string", &probe, &err) &&
		   strstr(err.text, "this is no pointer"),
	   "a number that one returns is none: %s", err.text);
	ok(!resolve_result(kernel, "r do_filp_open %bx a=$retval->f_mod", &probe, &err) &&
		   strstr(err.text, "struct file has no member 'f_mod'") && err.column == 31,
	   "a wrong member is refused at its place: %s", err.text);
	ok(!resolve_result(kernel, "r do_filp_open $retval.f_mode", &probe, &err) &&
		   strstr(err.text, "'.' follows a pointer") && err.column == 23,
	   "and so is a '.': %s", err.text);
	ok(!resolve_result(kernel, "r vfs_read $retval->f_mode", &probe, &err) &&
		   strstr(err.text, "no pointer to a struct is in front of 'f_mode'"),
	   "the result of vfs_read() is no pointer: %s", err.text);
}

/* Its second parameter is a kuid_t. */
static void test_passed(const struct kernel *kernel)
{
	struct fetch_probe probe;
	struct error err;
	const struct fetch_arg *arg = &probe.args[1];

	ok(resolve_result(kernel, "p from_kuid $arg*", &probe, &err) && probe.nr_args == 2 &&
		   arg->ops[0].reg == FETCH_SI && arg->size == 4 && arg->show == FETCH_HEX,
	   "a struct of one number: %s", err.text);
	ok(resolve_result(kernel, "p from_kuid %di kuid.val", &probe, &err) && arg->nr_ops == 1 &&
		   arg->ops[0].reg == FETCH_SI && arg->size == 4 && arg->show == FETCH_UNSIGNED,
	   "its member: %s", err.text);
	ok(!resolve_result(kernel, "p from_kuid kuid->val", &probe, &err) &&
		   strstr(err.text, "'->' follows a struct: write '.'"),
	   "which is no pointer's: %s", err.text);
}

static void test_file_names(const struct kernel *kernel)
{
	const int64_t dentry = offset("file", "f_path.dentry"),
		      name = offset("dentry", "d_name.name");
	struct fetch_probe probe;
	struct error err;
	const struct fetch_op *ops = probe.args[0].ops;

	ok(resolve(kernel, "%di:%pD", &probe, &err) && probe.args[0].nr_ops == 4 &&
		   op_is(&ops[1], FETCH_DEREF, dentry) && op_is(&ops[2], FETCH_DEREF, name) &&
		   op_is(&ops[3], FETCH_TEXT, 0) && !ops[1].member && !ops[2].member,
	   "the name of a file: %s", err.text);
	ok(resolve(kernel, "file->f_path.dentry:%pd", &probe, &err) && probe.args[0].nr_ops == 4 &&
		   op_is(&ops[1], FETCH_DEREF, dentry) && op_is(&ops[2], FETCH_DEREF, name) &&
		   op_is(&ops[3], FETCH_TEXT, 0),
	   "of a dentry that a chain leads to: %s", err.text);
	ok(resolve(kernel, "+0(pos):%pd file:%pD", &probe, &err) && probe.args[0].nr_ops == 4 &&
		   probe.args[1].nr_ops == 4 && op_is(&probe.args[1].ops[2], FETCH_DEREF, name),
	   "of one in memory, and of a parameter: %s", err.text);
}

static const struct {
	const char *args, *says;
} wrong[] = {
	{"x=fil", "argument 'x': vfs_read has no parameter 'fil': did you mean 'file'?"},
	{"x=file->f_path.dentri",
	 "argument 'x': struct path has no member 'dentri': did you mean 'dentry'?"},
	{"x=file->f_flags.a", "argument 'x': no struct is in front of the member 'a'"},
	{"x=file->f_mod", "struct file has no member 'f_mod': did you mean 'f_mode'?"},
	{"x=count->a", "no pointer to a struct is in front of 'a'"},
	{"x=file.f_mode", "'.' follows a pointer: write '->'"},
	{"x=file->f_path",
	 "it is a struct or an array: name a member, or give a type, such as x8[16]"},
	{"+0(file->f_flags)", "only a pointer can be followed"},
	{"count:string", "this is no pointer"},
	{"@no_such_symbol", "the kernel has no symbol 'no_such_symbol'"},
};

static void test_wrong(const struct kernel *kernel)
{
	struct fetch_probe probe;
	struct error err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(!resolve(kernel, wrong[i].args, &probe, &err) && strstr(err.text, wrong[i].says),
		   "'%s' is refused: %s", wrong[i].args, err.text);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	const struct kernel kernel = {.virt_slide = 0x1000000, .image = image};

	tap_diag("%s", version);
	btf = image->btf;
	test_parameters(&kernel);
	test_chains(&kernel);
	test_numbers(&kernel);
	test_arrays(&kernel);
	test_results(&kernel);
	test_passed(&kernel);
	test_file_names(&kernel);
	test_wrong(&kernel);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", NULL};

	return fetched_kernels_test(versions, test_kernel);
}

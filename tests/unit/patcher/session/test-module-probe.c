/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probes of a module's function by the names of its parameters, on a fake guest: the module's types
 * come with it, and may be missing or other ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-module.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, CALL = 0xe8 };

static const struct fake_struct structs[] = {
	{"brd_device", 96, {{"number", 8, 4, 0, 0}, {"pages", 16, 8, 0, 0}}},
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const struct fake_struct other_structs[] = {
	{"brd_device", 96, {{"number", 12, 4, 0, 0}, {"pages", 16, 8, 0, 0}}},
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const char *const prototypes[] = {
	"int brd_read(struct brd_device *brd, sector_t sector, const void *buf)", NULL};

static const char spec[] = "in=probe:p brd:brd_read brd->number s=sector:u32 $arg*";
static struct fake_session fs;

static void start(const char *first, const char *second)
{
	const char *const specs[] = {first, second, NULL};

	if (trace_session_start(fs.session, specs, NULL))
		abort();
}

static int add(const char *text, struct error *err)
{
	*err = (struct error){0};
	return trace_session_add_instance(fs.session, text, err);
}

static bool tick(void)
{
	return fake_session_tick(&fs);
}

static const struct trace_instance_status *status(const char *name)
{
	return fake_session_instance(&fs, name);
}

static bool is_recorded(void)
{
	return *fake_module_text(&fs, 0) == CALL;
}

static const struct session_instance *last(void)
{
	return fs.session->instances.v[fs.session->instances.n - 1];
}

/* "NAME:SIZE ..." of the arguments; "": not known. */
static const char *fields_of_last(void)
{
	static char text[300];
	const struct event_class *class;
	size_t n, at = 0;

	*text = '\0';
	class = last()->ops->classes(last()->tracer, &n);
	for (size_t i = 0; class && i < class->nr_fields; i++)
		if (class->fields[i].at >= 48)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%u",
					       at ? " " : "", class->fields[i].name,
					       class->fields[i].size);
	return text;
}

static const char all_fields[] = "faults:4 number:4 s:4 brd:8 sector:8 buf:8";

/* --- tests ----------------------------------------------------------------------------------- */

static void test_loaded(void)
{
	const struct fetch_program *program;
	struct error err;

	fake_module_create_session(&fs, RING_BYTES);
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	start("function:kfree", NULL);
	ok(!add(spec, &err) && is_recorded(), "parameters of a module's function: %s", err.text);
	is_str(fields_of_last(), all_fields, "its events have them by name");
	program = last()->ops->fetch(last()->tracer);
	ok(program->nr_args == 5 && program->args[0].ops[0].reg == FETCH_DI &&
		   program->args[0].ops[1].kind == FETCH_MEMORY &&
		   program->args[0].ops[1].at == 8 && program->args[1].ops[0].reg == FETCH_SI,
	   "by registers, and members by the module's types");
	ok(last()->stream != NULL, "they have a stream");
	ok(!add("out=probe:r brd:brd_read $retval", &err), "results need no types: %s", err.text);
	fake_session_end(&fs);
}

/* Names of parameters become names of fields, which have to be words. */
static void test_names(void)
{
	static const char from[] = "sector\0buf", to[] = "sec\"or\0\0uf";
	struct error err;
	char *name;

	fake_module_create_session(&fs, RING_BYTES);
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	name = memmem(fs.fg.base.ram, FAKE_RAM, from, sizeof(from));
	if (!name)
		abort();
	memcpy(name, to, sizeof(to));
	start("function:kfree", NULL);
	ok(!add("probe:p brd:brd_read $arg*", &err) && is_recorded(),
	   "parameters without names that fields can have: %s", err.text);
	is_str(fields_of_last(), "brd:8 arg2:8 arg3:8", "have numbers");
	fake_session_end(&fs);
}

static void test_wrong(void)
{
	struct error err;

	fake_module_create_session(&fs, RING_BYTES);
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	start("function:kfree", NULL);
	ok(add("probe:p:x brd:brd_read %di brd->numbr", &err) == -ENOENT && !is_recorded(),
	   "a member that there is not is refused");
	is_str(err.text,
	       "instance 'x': trace spec, character 33: argument 'numbr': struct brd_device has no "
	       "member 'numbr': did you mean 'number'?",
	       "with its place, and the nearest one");
	ok(add("probe:p brd:brd_write brd", &err) == -ENOENT && strstr(err.text, "brd_write"),
	   "so is a function that the types do not have: %s", err.text);
	ok(add("probe:p brd:brd_read brd,hist:keys=brd", &err) == -ENOTSUP,
	   "a histogram has no parameters of modules by name: %s", err.text);
	ok(add("probe:p brd:brd_read brd if nope > 1", &err) < 0, "and a wrong condition: %s",
	   err.text);
	ok(!add("probe:p brd:brd_read brd if brd == 1", &err) && is_recorded(),
	   "a right one is not: %s", err.text);
	is_str(status("p_brd_read_0")->guest_conditions, "brd == 1", "the guest decides it");
	fake_session_end(&fs);
}

static void test_without(void)
{
	static const struct fake_struct no_structs[] = {{NULL, 0, {{NULL, 0, 0, 0, 0}}}};
	struct error err;

	fake_module_create_session(&fs, RING_BYTES);
	fake_module_load(&fs);
	start("function:kfree", NULL);
	ok(add(spec, &err) == -ENODATA && strstr(err.text, "argument 'number': module 'brd': "),
	   "a module without types has no parameters: %s", err.text);
	fake_module_put_types(&fs, no_structs, prototypes);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_BTF_MODULES, 0);
	ok(add(spec, &err) == -EFAULT, "nor has one whose types cannot be read: %s", err.text);
	ok(!add("probe:p brd:brd_read $arg1", &err) && is_recorded(),
	   "arguments by number need none: %s", err.text);
	ok(add("probe:p brd:brd_nope $arg1", &err) == -ENOENT &&
		   strstr(err.text, "module 'brd' has no function 'brd_nope' that can be probed"),
	   "a function that a module lacks is refused: %s", err.text);
	fake_session_end(&fs);
}

static void create_waiting(void)
{
	struct error err;

	fake_module_create_session(&fs, RING_BYTES);
	start("function:kfree", NULL);
	ok(!add(spec, &err) && status("in")->active && !status("in")->sites && !last()->stream,
	   "a module is named that is not loaded: %s", err.text);
	ok(status("in")->nr_notes == 1 &&
		   !strcmp(status("in")->notes[0],
			   "module 'brd' is not loaded; if it is built in, leave it out"),
	   "which the user is told");
	is_str(fields_of_last(), "", "what its events have is not known");
}

static void test_comes(void)
{
	create_waiting();
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && status("in")->active && is_recorded() && last()->stream,
	   "it records when the module comes");
	is_str(fields_of_last(), all_fields, "with the names of the parameters");
	fake_module_unload(&fs);
	ok(tick() && status("in")->active && !status("in")->sites, "the module goes");
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && is_recorded(), "it comes again");
	fake_module_unload(&fs);
	fake_module_load(&fs);
	fake_module_put_types(&fs, other_structs, prototypes);
	ok(tick() && !is_recorded() && status("in")->failed && status("function")->active,
	   "as another build it is not recorded");
	is_str(status("in")->waiting,
	       "module 'brd' has other types than before: make the probe anew", "which is said");
	fake_module_unload(&fs);
	ok(tick(), "it goes");
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && is_recorded() && status("in")->active, "as the first one it is recorded");
	fake_session_end(&fs);
}

/* A probe in the middle of a kernel's function, when a module comes. */
static void test_kernel_stays(void)
{
	const struct patch_plan *plan;

	fake_module_create_session(&fs, RING_BYTES);
	plan = &fs.session->plan;
	fake_session_list_return_sites(&fs);
	fake_session_list_reserved(&fs);
	fake_session_keep_text(&fs);
	start("load=probe:p kmem_cache_alloc+5 %cx", "f=function:*:mod:brd");
	is_u64(plan->inside.n, 1, "a probe in the middle of a kernel's function");
	fake_module_load(&fs);
	ok(tick() && is_recorded(), "a module comes");
	is_u64(plan->inside.n, 1, "the kernel's probe is not forgotten");
	ok(plan->shared.sorted && plan->inside.sorted, "patches stay in order");
	fake_session_end(&fs);
}

/* Between two looks, with the same sites as before. */
static void test_rung(void)
{
	create_waiting();
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && is_recorded(), "a module is recorded");
	fake_module_load(&fs);
	fake_module_put_types(&fs, other_structs, prototypes);
	ok(tick() && !is_recorded(), "it comes again as another build, and is not");
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && !is_recorded(), "nothing shows that it comes once more, as the first one");
	fs.session->bell.rung++;
	ok(tick() && is_recorded() && status("in")->active, "until its loader rings");
	ok(*fake_text(&fs.fg, FAKE_KFREE) == CALL && status("function")->sites == 1,
	   "other instances record as before");
	fake_session_end(&fs);
}

/* ftrace has the sites a little before the types are there. */
static void test_late(void)
{
	create_waiting();
	fake_module_load(&fs);
	ok(tick() && status("in")->failed && !is_recorded(), "a module comes without its types");
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && status("in")->active && is_recorded(), "they come later");
	fake_session_end(&fs);
}

/* A guest may bring any number of types. */
static void test_misfit(void)
{
	static const char *const others[] = {"int brd_read(struct brd_device *device)", NULL};

	create_waiting();
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, others);
	ok(tick() && status("in")->failed && status("function")->active,
	   "a module comes whose types do not fit");
	fake_module_unload(&fs);
	fake_module_load(&fs);
	fake_module_put_types(&fs, structs, prototypes);
	ok(tick() && status("in")->failed && !is_recorded(), "others are not tried");
	fake_session_end(&fs);
}

/* That the kernel keeps none is known before it boots. */
static void test_no_list(void)
{
	struct error err = {0};

	fake_module_create_session(&fs, RING_BYTES);
	if (fake_guest_inline(&fs.fg, "btf_modules"))
		abort();
	ok(tracer_check_image(spec, fs.session->image, true, &err) == -ENOTSUP,
	   "a kernel that keeps no types of modules");
	is_str(err.text,
	       "instance 'in': trace spec, character 25: argument 'number': the kernel keeps no "
	       "types "
	       "of its modules: it was built without CONFIG_DEBUG_INFO_BTF_MODULES",
	       "the spec is refused, with its place");
	fake_session_destroy(&fs);
	fake_module_create_session(&fs, RING_BYTES);
	ok(tracer_check_image("probe:p brd:brd_read brd @nope", fs.session->image, true, &err) ==
			   -ENOENT &&
		   err.column == 27,
	   "what needs no types is looked at, too: %s", err.text);
	ok(!tracer_check_image(spec, fs.session->image, true, &err), "types may come later");
	ok(!tracer_check_image("probe:p brd:brd_read $arg1", fs.session->image, true, &err),
	   "one that needs none is not");
	fake_session_destroy(&fs);
}

int main(void)
{
	test_loaded();
	test_names();
	test_wrong();
	test_without();
	test_comes();
	test_kernel_stays();
	test_rung();
	test_late();
	test_misfit();
	test_no_list();
	return tap_done();
}

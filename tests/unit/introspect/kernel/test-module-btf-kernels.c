/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether Debian's kernels keep the types of their modules where they are looked for, and whether
 * those of a real module go on where the kernel's end. Needs tests/testbed/fetch-kernel to have
 * run; $KERNELS_DIR names another directory.
 */
#include <gelf.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/module-btf.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { MAX_MODULE = 1 << 20, COMMAND = 2 * FETCHED_KERNEL_PATH };

static char bytes[MAX_MODULE];

/* A module's file, in `bytes`; 0: it was not fetched. */
static size_t read_module(const char *version, const char *name)
{
	char path[FETCHED_KERNEL_PATH], pattern[COMMAND], command[COMMAND];
	size_t size = 0;
	FILE *pipe;
	glob_t found;

	fetched_kernel_path(path, version);
	*strrchr(path, '/') = '\0';
	snprintf(pattern, sizeof(pattern), "%s/modules/kernel/drivers/%s.ko*", path, name);
	if (glob(pattern, 0, NULL, &found))
		return 0;
	snprintf(command, sizeof(command), "xz -dcf '%s'", found.gl_pathv[0]);
	globfree(&found);
	pipe = popen(command, "r");
	if (pipe)
		size = fread(bytes, 1, sizeof(bytes), pipe);
	if (!pipe || pclose(pipe))
		abort();
	return size;
}

static Elf_Data *find_types(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		abort();
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) &&
		    !strcmp(elf_strptr(elf, names, header.sh_name), ".BTF"))
			return elf_rawdata(section, NULL);
	return NULL;
}

/* brd_submit_bio(struct bio *bio): what its parameter points to is the kernel's. */
static void check_types(const struct btf_types *types)
{
	struct btf_prototype p;
	struct btf_field field, own, of_kernel;
	struct error err = {0};
	uint32_t type;

	ok(!btf_prototype(types, "brd_submit_bio", &p, &err) && p.nr_params == 1 &&
		   !strcmp(p.params[0].name, "bio") && !strcmp(p.params[0].type, "struct bio *"),
	   "its function has a parameter: %s", err.text);
	ok(!btf_follow(types, p.params[0].type_id, "bi_bdev", &field, &type, &err) &&
		   !btf_follow(types, type, "bd_disk", &own, &type, &err) &&
		   !btf_field(types, "block_device", "bd_disk", &of_kernel, &err) &&
		   own.offset == of_kernel.offset,
	   "members of which are the kernel's: %s", err.text);
	ok(!btf_field(types, "brd_device", "brd_number", &field, &err) && field.size == 4,
	   "a struct of its own has members: %s", err.text);
}

static void test_module(const struct kernel_image *image, const char *version)
{
	const size_t size = read_module(version, "block/brd");
	struct btf_types *types = NULL;
	struct error err = {0};
	Elf_Data *data;
	Elf *elf;

	if (!size) {
		tap_diag("%s: no modules were fetched", version);
		return;
	}
	elf_version(EV_CURRENT);
	elf = elf_memory(bytes, size);
	data = find_types(elf);
	ok(data && !btf_parse_split(image->btf, data->d_buf, data->d_size, &types, &err),
	   "%s: the types of a module parse: %s", version, err.text);
	if (types)
		check_types(types);
	btf_destroy(types);
	elf_end(elf);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct error err = {0};

	if (!strcmp(version, "5.10")) {
		ok(module_btf_check(image, &err), "%s keeps no types of modules: %s", version,
		   err.text);
		return;
	}
	ok(!module_btf_check(image, &err), "%s keeps the types of its modules: %s", version,
	   err.text);
	test_module(image, version);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17",
					       "7.0",  "7.2", "7.3",  NULL};

	return fetched_kernels_test(versions, test_kernel);
}

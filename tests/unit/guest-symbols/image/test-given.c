/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols and types that a kernel lacks, from files: which files are taken, and what is refused. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "guest-symbols/image/kernel-image.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/tap.h"

#define TEXT 0xffffffff81000000
enum {
	IMAGE = 4096,
	BTF_ROOM = 2048,
	ELF_ROOM = 16384,
	COMM = 0x40,
	RELEASE = 0x20,
	LARGE = (64 << 20) + 1
};

static const char map[] = "ffffffff81000000 T _text\nffffffff81000000 T _stext\n"
			  "ffffffff81000000 T fn\nffffffff81000080 t part.constprop.0\n"
			  "ffffffff81000100 T _etext\nffffffff81000400 D linux_banner\n"
			  "ffffffff81000600 d variable.0\n"
			  "ffffffff81000800 D init_task\nffffffff81000c00 D init_uts_ns\n"
			  "ffffffff81001000 B _end\n";

static char dir[] = "/tmp/test-given.XXXXXX";
static uint8_t kernel[ELF_ROOM];
static size_t kernel_size;

static const char *path_of(const char *name)
{
	static _Thread_local char paths[2][128];
	static _Thread_local unsigned int next;
	char *path = paths[next++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
	FILE *file = fopen(path_of(name), "w");

	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
		abort();
}

/* Types of a kernel that has this function, or none, and whose tasks have their names there. */
static size_t make_types(uint32_t comm, const char *function, uint8_t *to)
{
	const struct fake_struct structs[] = {
		{"task_struct", 256, {{.name = "comm", .offset = comm, .size = 8}, {NULL}}},
		{"uts_namespace", 128, {{.name = "name", .offset = 16, .size = 0}, {NULL}}},
		{"new_utsname",
		 64,
		 {{.name = "release", .offset = RELEASE - 16, .size = 8}, {NULL}}},
		{NULL},
	};
	static const struct fake_enumerator none[] = {{NULL, 0}};
	const char *const prototypes[] = {function, NULL};
	const size_t size = fake_btf_functions(structs, none, prototypes, to, BTF_ROOM);

	if (!size)
		abort();
	return size;
}

static void make_kernel(const char *release)
{
	uint8_t image[IMAGE] = {0};

	strcpy((char *)image + 0x400, "Linux version 6.1.0 (test)\n");
	strcpy((char *)image + 0x800 + COMM, "swapper/0");
	strcpy((char *)image + 0xc00 + RELEASE, release);
	kernel_size = fake_elf(TEXT, image, IMAGE, NULL, kernel, sizeof(kernel));
}

/* The kernel with these files; returns what kernel_image_load() does. */
static int load(const char *system_map, const char *btf, struct error *err)
{
	struct kernel_given given;
	struct kernel_image *image = NULL;
	struct kernel_file *file;
	int ret = kernel_given_open(system_map ? path_of(system_map) : NULL,
				    btf ? path_of(btf) : NULL, &given, err);

	*err = ret ? *err : (struct error){0};
	if (!ret && !kernel_file_from_memory(kernel, kernel_size, &file, NULL)) {
		ret = kernel_image_load(file, &given, &image, err);
		kernel_file_close(file);
	}
	kernel_given_close(&given);
	if (!ret && btf)
		ok(image->btf_is_given && btf_struct_size(image->btf, "task_struct") == 256,
		   "%s: these are the image's types", btf);
	kernel_image_destroy(image);
	return ret;
}

static void refused(const char *btf, int code, const char *text)
{
	struct error err;
	int ret = load("System.map", btf, &err);

	ok(ret == code && strstr(err.text, text) && strstr(err.text, btf), "%s is refused: %s", btf,
	   ret ? err.text : "it is not");
}

static void test_types(const uint8_t *types, size_t size)
{
	uint8_t elf[ELF_ROOM];
	struct error err;
	const struct fake_section section[] = {
		{.name = ".BTF", .bytes = types, .size = size, .type = 1}, {NULL}};

	write_file("types.btf", types, size);
	write_file("types.elf", elf, fake_elf(TEXT, types, size, section, elf, sizeof(elf)));
	write_file("no-types.elf", kernel, kernel_size);
	write_file("cut.btf", types, size - 1);
	write_file("empty.btf", "", 0);
	ok(!load("System.map", NULL, &err), "a kernel may have no types");
	ok(!load("System.map", "types.btf", &err), "types of a file that is BTF");
	ok(!load("System.map", "types.elf", &err), "of a section of an ELF");
	refused("no-types.elf", -ENOENT, "no section .BTF");
	refused("cut.btf", -EBADMSG, "truncated");
	refused("empty.btf", -EBADMSG, "no valid header");
	refused("missing.btf", -ENOENT, "cannot open");
	refused(".", -EISDIR, "cannot read");
}

static void test_functions(void)
{
	uint8_t types[BTF_ROOM];
	struct error err;
	size_t size = make_types(COMM, NULL, types);

	write_file("no-functions.btf", types, size);
	refused("no-functions.btf", -ESTALE,
		"not the types of this kernel: they name 0 functions, and it has 5");
	size = make_types(COMM, "void part(int argument)", types);
	write_file("part.btf", types, size);
	ok(!load("System.map", "part.btf", &err), "a function may be there in part: %s", err.text);
	size = make_types(COMM, "void par(int argument)", types);
	write_file("par.btf", types, size);
	refused("par.btf", -ESTALE, "it lacks 1 of 1 functions that they name");
	size = make_types(COMM, "void variable(int argument)", types);
	write_file("variable.btf", types, size);
	refused("variable.btf", -ESTALE, "it lacks 1 of 1 functions that they name");
}

static void test_others(void)
{
	uint8_t types[BTF_ROOM];
	size_t size = make_types(COMM + 8, "void fn(int argument)", types);

	write_file("other.btf", types, size);
	refused("other.btf", -ESTALE,
		"not the types of this kernel: the comm of its init_task is not swapper");
	size = make_types(COMM, "void other(int argument)", types);
	write_file("functions.btf", types, size);
	refused("functions.btf", -ESTALE, "it lacks 1 of 1 functions that they name");
	make_kernel("6.2.0");
	refused("types.btf", -ESTALE, "the name.release of its init_uts_ns is not 6.1.0");
	make_kernel("6.1.0");
}

static void resize(const char *name, off_t size)
{
	if (truncate(path_of(name), size))
		abort();
}

/* The size of the only section, .BTF, as its header has it. */
static void set_section_size(uint8_t *elf, uint64_t size)
{
	Elf64_Ehdr header;

	memcpy(&header, elf, sizeof(header));
	memcpy(elf + header.e_shoff + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), &size,
	       sizeof(size));
}

static void test_sizes(const uint8_t *types, size_t size)
{
	const struct fake_section section[] = {
		{.name = ".BTF", .bytes = types, .size = size, .type = 1}, {NULL}};
	uint8_t elf[ELF_ROOM];
	const size_t elf_size = fake_elf(TEXT, types, size, section, elf, sizeof(elf));
	struct error err;

	write_file("large.btf", types, size);
	resize("large.btf", LARGE);
	refused("large.btf", -E2BIG, "more than 64 MiB");
	write_file("large.map", map, sizeof(map) - 1);
	resize("large.map", LARGE);
	ok(load("large.map", NULL, &err) == -E2BIG && strstr(err.text, "large.map: more than"),
	   "so is a System.map: %s", err.text);
	write_file("large.elf", elf, elf_size);
	resize("large.elf", LARGE);
	ok(!load("System.map", "large.elf", &err), "an ELF may be larger");
	set_section_size(elf, LARGE);
	write_file("section.elf", elf, elf_size);
	refused("section.elf", -E2BIG, "more than 64 MiB");
	set_section_size(elf, ELF_ROOM);
	write_file("cut.elf", elf, elf_size);
	refused("cut.elf", -EBADMSG, "section .BTF cannot be read");
}

/* Both files shrink behind our back. */
static void test_shrinking(const uint8_t *types, size_t size)
{
	struct kernel_given given;
	struct kernel_image *image;
	struct kernel_file *file;
	struct error err = {0};

	write_file("shrinks.map", map, sizeof(map) - 1);
	write_file("shrinks.btf", types, size);
	if (kernel_given_open(path_of("shrinks.map"), path_of("shrinks.btf"), &given, NULL) ||
	    kernel_file_from_memory(kernel, kernel_size, &file, NULL))
		abort();
	resize("shrinks.map", 0);
	resize("shrinks.btf", 0);
	if (ok(!kernel_image_load(file, &given, &image, &err),
	       "files that shrink have been copied: %s", err.text))
		kernel_image_destroy(image);
	kernel_given_close(&given);
	kernel_file_close(file);
}

static void *write_pipe(void *arg)
{
	write_file("pipe", arg, BTF_ROOM);
	return NULL;
}

static void test_pipe(uint8_t *types)
{
	pthread_t thread;
	struct error err;

	if (mkfifo(path_of("pipe"), 0600) || pthread_create(&thread, NULL, write_pipe, types))
		abort();
	ok(!load("System.map", "pipe", &err), "types come out of a pipe");
	pthread_join(thread, NULL);
}

static void test_symbols(void)
{
	struct error err;

	ok(load(NULL, NULL, &err) < 0, "this kernel has no symbols of its own");
	write_file("not-a-map", "hello\n", 6);
	ok(load("not-a-map", NULL, &err) == -EBADMSG && strstr(err.text, "not-a-map: not a line"),
	   "what is no System.map is refused: %s", err.text);
}

int main(void)
{
	uint8_t types[BTF_ROOM] = {0};
	size_t size;

	if (!mkdtemp(dir))
		abort();
	size = make_types(COMM, "void fn(int argument)", types);
	make_kernel("6.1.0");
	write_file("System.map", map, sizeof(map) - 1);
	test_types(types, size);
	test_others();
	test_functions();
	test_sizes(types, size);
	test_shrinking(types, size);
	test_pipe(types);
	test_symbols();
	return tap_done();
}

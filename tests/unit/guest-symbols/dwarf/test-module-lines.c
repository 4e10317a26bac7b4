/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places in the source of a module, out of its relocatable file, judged by those of a program that
 * is linked from the same objects; and which file is taken for a module's.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "guest-symbols/dwarf/dwarf-lines.h"
#include "guest-symbols/dwarf/module-lines.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

#define ID "0123456789abcdef0123456789abcdef01234567"
#define OTHER_ID "1123456789abcdef0123456789abcdef01234567"
#define MODULES "usr/lib/debug/lib/modules/6.1.0-9"

static char root[] = "/tmp/module-lines-XXXXXX";
static const struct trace_info info = {.build_id = "ab",
				       .banner = "Linux version 6.1.0-9 (a) (b) #1"};

/* Both files have twice() and same(), which are static: the first differ in size. */
static const char one[] = "volatile int sink;\n"
			  "static inline __attribute__((always_inline)) void inner(int n)\n"
			  "{\n"
			  "	if (n > sink)\n"
			  "		sink = n;\n"
			  "}\n"
			  "static __attribute__((noinline)) void twice(void) { sink = 1; }\n"
			  "static __attribute__((noinline)) void same(void) { sink = 2; }\n"
			  "__attribute__((noinline)) void first(int n)\n"
			  "{\n"
			  "	for (int i = 0; i < n; i++)\n"
			  "		inner(n * sink);\n"
			  "	twice();\n"
			  "	same();\n"
			  "}\n"
			  "__attribute__((noinline, section(\".init.text\"))) void begin(int n)\n"
			  "{\n"
			  "	sink++;\n"
			  "	inner(n);\n"
			  "	sink++;\n"
			  "}\n";
static const char two[] = "extern volatile int sink;\n"
			  "static __attribute__((noinline)) void twice(void)\n"
			  "{\n"
			  "	for (int i = 0; i < 5; i++)\n"
			  "		sink += i * sink + sink / 3;\n"
			  "}\n"
			  "static __attribute__((noinline)) void same(void) { sink = 3; }\n"
			  "__attribute__((noinline)) void second(void)\n"
			  "{\n"
			  "	twice();\n"
			  "	same();\n"
			  "	sink += 4;\n"
			  "}\n";
static const char program[] = "void first(int), begin(int), second(void);\n"
			      "int main(void) { first(1); begin(2); second(); return 0; }\n";

static void run(const char *command)
{
	if (tool_run(NULL, "cd %s && %s", root, command))
		abort();
}

static void make_files(void)
{
	if (!mkdtemp(root))
		abort();
	tool_write(root, "one.c", one);
	tool_write(root, "two.c", two);
	tool_write(root, "main.c", program);
	run("gcc -O2 -g -fno-pic -fcf-protection=none -c one.c two.c main.c && "
	    "gcc -no-pie -o program one.o two.o main.o && "
	    "ld -r --build-id=0x" ID " -o whole.ko one.o two.o && "
	    "objcopy --only-keep-debug whole.ko debug.ko && strip -g -o bare.ko whole.ko");
}

/* --- places ---------------------------------------------------------------------------------- */

struct function {
	uint64_t start, size; /* in the program */
};

/* The n-th of this name, from 1 on. */
static struct function find_function(const char *name, unsigned int n)
{
	struct function function;
	char *output;

	if (tool_run(&output,
		     "nm -S -n %s/program | awk '$4 == \"%s\" { print $1, $2 }' | sed -n %up", root,
		     name, n) ||
	    sscanf(output, "%" SCNx64 " %" SCNx64, &function.start, &function.size) != 2)
		abort();
	free(output);
	return function;
}

static bool same_frames(const struct source_frame *a, const struct source_frame *b, size_t n)
{
	bool same = true;

	for (size_t i = 0; same && i < n; i++)
		same = !strcmp(a[i].function, b[i].function) && !strcmp(a[i].file, b[i].file) &&
		       a[i].line == b[i].line;
	return same;
}

/* Where the guest has it is anywhere; `padding` bytes behind it another function begins. */
static size_t places_of(struct module_lines *modules, struct dwarf_lines *judge, const char *name,
			const struct function *function, uint64_t padding, const char *build_id)
{
	struct source_frame ours[SOURCE_MAX_FRAMES], theirs[SOURCE_MAX_FRAMES];
	size_t right = 0;

	for (uint64_t i = 0; i < function->size; i++) {
		const struct source_code code = {0xffffffffc0001000 + i, name, 0xffffffffc0001000,
						 function->size + padding, build_id};
		const size_t n = module_lines_find(modules, &code, ours);

		right += n && n == dwarf_lines_find(judge, function->start + i, theirs) &&
			 same_frames(ours, theirs, n);
	}
	return right;
}

static struct dwarf_lines *open_program(void)
{
	struct dwarf_lines *lines;
	char path[128];

	snprintf(path, sizeof(path), "%s/program", root);
	if (dwarf_lines_open(open(path, O_RDONLY | O_CLOEXEC), &lines, NULL))
		abort();
	return lines;
}

static void test_places(void)
{
	struct module_lines *modules = module_lines_create(root, NULL, &info);
	struct dwarf_lines *judge = open_program();
	static const struct {
		const char *name;
		unsigned int n;
		uint64_t padding;
	} rows[] = {{"first", 1, 8},
		    {"begin", 1, 0},
		    {"second", 1, 3000},
		    {"twice", 1, 4},
		    {"twice", 2, 4}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct function function = find_function(rows[i].name, rows[i].n);
		char name[64];

		snprintf(name, sizeof(name), "%s [my_mod]", rows[i].name);
		is_u64(places_of(modules, judge, name, &function, rows[i].padding, ID),
		       function.size, rows[i].name);
	}
	dwarf_lines_close(judge);
	module_lines_destroy(modules);
}

static size_t frames_of(const char *kernel, const char *name, uint64_t size, uint64_t offset,
			const char *build_id)
{
	struct module_lines *modules = module_lines_create(root, kernel, &info);
	const struct source_code code = {0x5000 + offset, name, 0x5000, size, build_id};
	struct source_frame frames[SOURCE_MAX_FRAMES];
	const size_t n = module_lines_find(modules, &code, frames);

	module_lines_destroy(modules);
	return n;
}

static void test_unknown(void)
{
	const struct function same = find_function("same", 1);

	is_u64(frames_of(NULL, "same [my_mod]", same.size, 0, ID), 0,
	       "of two functions that are the same none is taken");
	is_u64(frames_of(NULL, "third [my_mod]", 16, 0, ID), 0, "nor is one that is not there");
	is_u64(frames_of(NULL, "first [other]", 1000, 0, ""), 0, "nor a module");
	is_u64(frames_of(NULL, "first [my_mod]", 1000, 999, ""), 0,
	       "nor what is behind the function");
	is_u64(frames_of(NULL, "first [my_mod]", 4, 0, ""), 0, "nor a function that is too small");
	is_u64(frames_of(NULL, "first", 1000, 0, ""), 0, "nor a function of the kernel");
	is_u64(frames_of(NULL, "[my_mod]", 1000, 0, "") + frames_of(NULL, " []", 1000, 0, "") +
		       frames_of(NULL, "first [../my_mod]", 1000, 0, "") +
		       frames_of(NULL, "", 1000, 0, ""),
	       0, "nor what is no name");
}

/* --- files ----------------------------------------------------------------------------------- */

static bool finds(const char *kernel, const char *build_id)
{
	return frames_of(kernel, "first [my_mod]", 1000, 0, build_id);
}

static void test_files(void)
{
	char kernel[128];

	snprintf(kernel, sizeof(kernel), "%s/my/vmlinux", root);
	ok(finds(NULL, ID) && finds(NULL, ""), "a file is found by name");
	ok(!finds(NULL, OTHER_ID), "one of another build is none");
	run("rm " MODULES "/kernel/fs/my-mod.ko.debug && mkdir -p usr/lib/debug/.build-id/01 && "
	    "cp debug.ko usr/lib/debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug");
	ok(finds(NULL, ID), "a file is found by its build id");
	ok(!finds(NULL, "") && !finds(NULL, OTHER_ID), "if that is known");
	run("rm -r usr/lib/debug/.build-id && mkdir -p my/drivers lib/modules/6.1.0-9/kernel && "
	    "cp bare.ko lib/modules/6.1.0-9/kernel/my_mod.ko && cp whole.ko my/drivers/my_mod.ko");
	ok(!finds(NULL, ID), "a module without debug information says nothing");
	ok(finds(kernel, ID) && finds(kernel, ""), "a file is found beside the kernel's");
	tool_write(root, "my/drivers/my_mod.ko", "no ELF");
	ok(!finds(kernel, ID) && !finds(kernel, ""), "a text says nothing");
}

/* Ten bytes anywhere behind the ELF header are others. */
static void test_damage(void)
{
	enum { ROUNDS = 500 };
	char path[128];
	static uint8_t file[1 << 16], copy[1 << 16];
	unsigned int nr_read = 0;
	size_t size;
	FILE *stream;

	snprintf(path, sizeof(path), "%s/whole.ko", root);
	stream = fopen(path, "r");
	size = stream ? fread(file, 1, sizeof(file), stream) : 0;
	if (size < 1000 || size == sizeof(file) || fclose(stream))
		abort();
	snprintf(path, sizeof(path), "%s/my/drivers/my_mod.ko", root);
	for (unsigned int seed = 0; seed < ROUNDS; seed++) {
		memcpy(copy, file, size);
		srand(seed);
		for (int i = 0; i < 10; i++)
			copy[64 + (size_t)rand() % (size - 64)] = (uint8_t)rand();
		stream = fopen(path, "w");
		if (!stream || fwrite(copy, 1, size, stream) != size || fclose(stream))
			abort();
		snprintf(path, sizeof(path), "%s/my/vmlinux", root);
		nr_read += finds(path, "");
		snprintf(path, sizeof(path), "%s/my/drivers/my_mod.ko", root);
	}
	ok(nr_read > ROUNDS / 20, "no damage to a file crashes the reader: %u of %d were readable",
	   nr_read, ROUNDS);
}

int main(void)
{
	make_files();
	run("mkdir -p " MODULES "/kernel/fs && cp whole.ko " MODULES "/kernel/fs/my-mod.ko");
	test_places();
	run("rm " MODULES "/kernel/fs/my-mod.ko && "
	    "cp debug.ko " MODULES "/kernel/fs/my-mod.ko.debug");
	test_places();
	test_unknown();
	test_files();
	test_damage();
	tool_run(NULL, "rm -r %s", root);
	return tap_done();
}

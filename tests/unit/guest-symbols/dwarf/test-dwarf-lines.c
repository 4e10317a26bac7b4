/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places in the source of a program that gcc makes, judged by binutils' addr2line. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "guest-symbols/dwarf/dwarf-lines.h"
#include "tests/lib/addr2line.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

static char folder[] = "/tmp/dwarf-lines-XXXXXX";

/* Inlined in each other, in a block, in a header, and in two places of one function. */
static const char header[] = "extern volatile int sink;\n"
			     "static inline __attribute__((always_inline)) void in_header(int n)\n"
			     "{\n"
			     "	sink = n;\n"
			     "}\n";
static const char source[] = "#include \"sub/header.h\"\n"
			     "volatile int sink;\n"
			     "static inline __attribute__((always_inline)) void inner(int n)\n"
			     "{\n"
			     "	if (n > sink)\n"
			     "		in_header(n + 1);\n"
			     "}\n"
			     "static inline __attribute__((always_inline)) void outer(int n)\n"
			     "{\n"
			     "	sink++;\n"
			     "	for (int i = 0; i < n; i++) { int j = i * sink; inner(j); }\n"
			     "}\n"
			     "__attribute__((noinline)) void caller(int n)\n"
			     "{\n"
			     "	outer(n);\n"
			     "	sink += 2;\n"
			     "	outer(n + 3);\n"
			     "}\n"
			     "__attribute__((noinline)) void plain(void) { sink = 7; }\n"
			     "int main(int argc, char **argv)\n"
			     "{\n"
			     "	(void)argv;\n"
			     "	caller(argc);\n"
			     "	plain();\n"
			     "	return sink;\n"
			     "}\n";

static void make_source(void)
{
	char path[128];

	if (!mkdtemp(folder))
		abort();
	snprintf(path, sizeof(path), "%s/sub", folder);
	if (mkdir(path, 0755))
		abort();
	tool_write(folder, "sub/header.h", header);
	tool_write(folder, "program.c", source);
}

/* The program, made with these options. */
static struct dwarf_lines *open_program(const char *options, char path[128])
{
	struct dwarf_lines *lines;
	struct error err;
	int fd;

	snprintf(path, 128, "%s/program", folder);
	if (tool_run(NULL, "cd %s && gcc -O2 -no-pie -fcf-protection=none %s -o program program.c",
		     folder, options))
		abort();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !dwarf_lines_open(fd, &lines, &err))
		return lines;
	tap_diag("%s: %s", options, err.text);
	return NULL;
}

static uint64_t address_of(const char *path, const char *symbol)
{
	char *output;
	uint64_t address;

	if (tool_run(&output, "nm %s | awk '$3 == \"%s\" { print $1 }'", path, symbol))
		abort();
	address = strtoull(output, NULL, 16);
	free(output);
	return address;
}

static void test_all_addresses(const char *options)
{
	enum { N = 300 };
	uint64_t addresses[N], from;
	char path[128];
	struct dwarf_lines *lines = open_program(options, path);
	size_t known;

	if (!ok(lines != NULL, "%s: a program has debug information", options))
		return;
	from = address_of(path, "caller");
	for (size_t i = 0; i < N; i++)
		addresses[i] = from + i;
	is_u64((uint64_t)addr2line_compare(path, folder, lines, 0, addresses, N, &known), 0,
	       "each byte of code has the frames that addr2line prints");
	ok(known > 50, "%zu bytes have a place", known);
	dwarf_lines_close(lines);
}

/* Somewhere in caller() all three are inlined. */
static void test_order(void)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	char path[128];
	struct dwarf_lines *lines = open_program("-g", path);
	uint64_t at = address_of(path, "caller");
	size_t n = 0;

	for (size_t i = 0; lines && n != 4 && i < 200; i++)
		n = dwarf_lines_find(lines, at + i, frames);
	if (!ok(n == 4, "three functions are inlined into one another"))
		return;
	is_str(frames[0].function, "caller", "the first frame is the function that has a symbol");
	is_str(frames[0].file, "program.c", "a file's name is the one in its folder");
	ok(frames[0].line == 15 || frames[0].line == 17, "the line is that of the call");
	is_str(frames[1].function, "outer", "the second is inlined there");
	is_str(frames[3].function, "in_header", "the last is the innermost");
	is_str(frames[3].file, "sub/header.h", "it may be in a header");
	is_u64(frames[3].line, 4, "its line is that of the code");
	is_u64(dwarf_lines_find(lines, 0, frames), 0, "address 0 is nowhere");
	is_u64(dwarf_lines_find(lines, UINT64_MAX, frames), 0, "nor is the last address");
	dwarf_lines_close(lines);
}

static void refuse(const char *path, const char *label)
{
	struct dwarf_lines *lines;
	struct error err;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	ok(fd >= 0 && dwarf_lines_open(fd, &lines, &err) == -EINVAL, "%s: %s", label, err.text);
	close(fd);
}

static void test_refusals(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/program.c", folder);
	refuse(path, "a text is refused");
	if (tool_run(NULL, "cd %s && gcc -O2 -o bare program.c && strip bare", folder))
		abort();
	snprintf(path, sizeof(path), "%s/bare", folder);
	refuse(path, "a program without debug information is refused");
}

/* Ten bytes anywhere behind the ELF header are others. Returns false if that is refused. */
static bool read_damaged(const uint8_t *program, size_t size, uint64_t from, unsigned int seed)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	int fd = memfd_create("damaged", 0);
	uint8_t *copy = malloc(size);
	struct dwarf_lines *lines;

	if (fd < 0 || !copy)
		abort();
	memcpy(copy, program, size);
	srand(seed);
	for (int i = 0; i < 10; i++)
		copy[64 + (size_t)rand() % (size - 64)] = (uint8_t)rand();
	if (write(fd, copy, size) != (ssize_t)size)
		abort();
	free(copy);
	if (dwarf_lines_open(fd, &lines, NULL)) {
		close(fd);
		return false;
	}
	for (uint64_t i = 0; i < 100; i++)
		dwarf_lines_find(lines, from + i, frames);
	dwarf_lines_close(lines);
	return true;
}

static void test_damage(void)
{
	enum { ROUNDS = 2000 };
	static uint8_t program[1 << 16];
	unsigned int nr_read = 0;
	char path[128];
	size_t size;
	FILE *file;
	uint64_t from;

	dwarf_lines_close(open_program("-g", path));
	from = address_of(path, "caller");
	file = fopen(path, "r");
	if (!file)
		abort();
	size = fread(program, 1, sizeof(program), file);
	fclose(file);
	for (unsigned int seed = 0; seed < ROUNDS; seed++)
		nr_read += read_damaged(program, size, from, seed);
	ok(nr_read > ROUNDS / 4, "no damage to a file crashes the reader: %u of %d were readable",
	   nr_read, ROUNDS);
}

/* Functions at the first byte; and one at the last 16 bytes, into which functions are inlined that
 * do not have them. All but that one share a list of ranges. */
static const char sharing[] = "	.text\n"
			      "	.globl _start\n"
			      "_start: .fill 32, 1, 0x90\n"
			      "	.section .debug_abbrev\n"
			      "	.byte 1, 0x11, 1, 0x55, 0x17, 0x11, 1, 0, 0\n"
			      "	.byte 2, 0x2e, 0, 0x55, 0x17, 0, 0\n"
			      "	.byte 3, 0x2e, 1, 0x55, 0x17, 0, 0\n"
			      "	.byte 4, 0x1d, 0, 0x55, 0x17, 0, 0, 0\n"
			      "	.section .debug_ranges\n"
			      "	.quad _start, _start + 32, 0, 0\n"
			      "	.quad _start + 16, _start + 32, 0, 0\n"
			      "	.rept %u\n"
			      "	.quad _start, _start + 1\n"
			      "	.endr\n"
			      "	.quad 0, 0\n"
			      "	.section .debug_info\n"
			      "	.long end - begin\n"
			      "begin: .short 4\n"
			      "	.long 0\n"
			      "	.byte 8, 1\n"
			      "	.long 0\n"
			      "	.quad 0\n"
			      "	.byte 3\n"
			      "	.long 32\n"
			      "	.rept %u\n"
			      "	.byte 4\n"
			      "	.long 64\n"
			      "	.endr\n"
			      "	.byte 0\n"
			      "	.rept %u\n"
			      "	.byte 2\n"
			      "	.long 64\n"
			      "	.endr\n"
			      "	.byte 0\n"
			      "end:\n";

static struct dwarf_lines *open_sharing(unsigned int nr_ranges, unsigned int nr_inlined,
					unsigned int nr_functions, uint64_t *address)
{
	struct dwarf_lines *lines;
	char path[128], text[2048];
	int fd;

	snprintf(text, sizeof(text), sharing, nr_ranges, nr_inlined, nr_functions);
	tool_write(folder, "sharing.s", text);
	if (tool_run(NULL, "cd %s && gcc -nostdlib -no-pie -static -o sharing sharing.s", folder))
		abort();
	snprintf(path, sizeof(path), "%s/sharing", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || dwarf_lines_open(fd, &lines, NULL))
		abort();
	*address = address_of(path, "_start");
	return lines;
}

/* AddressSanitizer keeps so much of what is freed. */
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZER_MIB = 256 };
#else
enum { SANITIZER_MIB = 0 };
#endif

/* 100 KiB of debug information, which say 25 million ranges twice. */
static void test_sharing(void)
{
	enum { N = 5000, MOST_KIB = (256 + SANITIZER_MIB) << 10, MOST_SECONDS = 2 };
	struct source_frame frames[SOURCE_MAX_FRAMES];
	struct rusage before, after;
	uint64_t address;
	struct dwarf_lines *lines = open_sharing(N, N, N, &address);

	dwarf_lines_find(lines, address, frames);
	getrusage(RUSAGE_SELF, &before);
	ok(before.ru_maxrss < MOST_KIB, "functions that share ranges take bounded memory: %ld KiB",
	   before.ru_maxrss);
	for (uint64_t i = 16; i < 32; i++)
		dwarf_lines_find(lines, address + i, frames);
	getrusage(RUSAGE_SELF, &after);
	ok(after.ru_utime.tv_sec - before.ru_utime.tv_sec <= MOST_SECONDS,
	   "inlined functions that share ranges take bounded time");
	dwarf_lines_close(lines);
}

int main(void)
{
	if (!tool_exists("gcc") || !tool_exists("addr2line"))
		return tap_skip_all("gcc or addr2line is not installed");
	make_source();
	test_all_addresses("-g -gdwarf-5");
	test_all_addresses("-g -gdwarf-4");
	test_all_addresses("-g -gz=zlib");
	test_all_addresses("-g -ffunction-sections -fno-reorder-functions");
	test_order();
	test_refusals();
	test_damage();
	test_sharing();
	tool_run(NULL, "rm -r %s", folder);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places in the source of Debian's kernel 6.1, whose vmlinux has debug information, judged by
 * addr2line. Needs tests/testbed/fetch-kernel to have run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "guest-symbols/cmd.h"
#include "guest-symbols/dwarf/debug-file.h"
#include "guest-symbols/dwarf/dwarf-lines.h"
#include "guest-symbols/image/kernel-image.h"
#include "tests/lib/addr2line.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

enum { COMPARED = 3000, LOOKED_UP = 100000, SLIDE = 0x1600000 };
#define FOLDER "debian/build/build_amd64_none_cloud-amd64"

/* Addresses all over the kernel's text, the same in each run. */
static void choose(const struct kernel_image *image, uint64_t *addresses, size_t n)
{
	const uint64_t begin = symbols_find(image->symbols, "_stext")->address;
	const uint64_t end = symbols_find(image->symbols, "_etext")->address;
	uint64_t state = 1;

	for (size_t i = 0; i < n; i++) {
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		addresses[i] = begin + (state >> 32) % (end - begin);
	}
}

static void test_lines(const struct kernel_image *image, const char *path,
		       struct dwarf_lines *lines)
{
	static uint64_t addresses[LOOKED_UP];
	struct source_frame frames[SOURCE_MAX_FRAMES];
	size_t known = 0;
	uint64_t begin;
	int different;

	choose(image, addresses, LOOKED_UP);
	different = addr2line_compare(path, FOLDER, lines, 0, addresses, COMPARED, &known);
	ok(different == 0 && known > COMPARED / 2,
	   "%d of %d addresses are where addr2line says; %d differ, %zu have a place",
	   COMPARED - different, COMPARED, different, known);
	known = 0;
	begin = clock_monotonic_ns();
	for (size_t i = 0; i < LOOKED_UP; i++)
		known += dwarf_lines_find(lines, addresses[i], frames) > 0;
	ok(known > LOOKED_UP / 2, "%zu of %d addresses have a place, found in %s", known, LOOKED_UP,
	   text_ms(clock_monotonic_ns() - begin).s);
}

/* As a verb asks for it: at an address in the guest. */
static void test_trace(const struct kernel_image *image, const char *path)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	struct trace_info info = {.virt_slide = SLIDE};
	struct source_code code = {.function = "kfree", .build_id = ""};
	struct source_lines *lines;
	struct error err;

	hex_encode(info.build_id, image->build_id, image->build_id_size);
	if (!ok(!kernel_lines(path, &info, &lines, &err),
		"a vmlinux of the traced kernel is taken"))
		return;
	code.address = symbols_find(image->symbols, "kfree")->address + SLIDE;
	ok(lines->find(lines, &code, frames) > 0 && !strcmp(frames[0].function, "kfree") &&
		   !strcmp(frames[0].file, "mm/slab_common.c"),
	   "kfree() is found where it was in the guest");
	source_lines_destroy(lines);
	info.build_id[0] ^= 1;
	ok(kernel_lines(path, &info, &lines, &err) == -EINVAL,
	   "one of another kernel is refused: %s", err.text);
}

/* A module's function, of those in its section .text, where addr2line has it from its beginning. */
static void test_module(const char *path)
{
	static const char name[] = "brd_alloc.isra.0";
	enum { MAX_SIZE = 4096 };
	uint64_t addresses[MAX_SIZE], start, size, found;
	struct dwarf_lines *lines;
	char *output, args[600];
	int different;
	size_t known;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		tap_skip("a module's places are addr2line's",
			 "no brd.ko; remove build/kernels/6.1-dbg and run "
			 "tests/testbed/fetch-kernel 6.1-dbg");
		return;
	}
	if (dwarf_lines_open_module(fd, &lines, NULL) ||
	    tool_run(&output, "nm -S %s | awk '$4 == \"%s\" { print $1, $2 }'", path, name) ||
	    sscanf(output, "%" SCNx64 " %" SCNx64, &start, &size) != 2 || size > MAX_SIZE ||
	    !dwarf_lines_function(lines, name, 0, size, &found))
		abort();
	free(output);
	for (uint64_t i = 0; i < size; i++)
		addresses[i] = start + i;
	snprintf(args, sizeof(args), "%s -j .text", path);
	different = addr2line_compare(args, FOLDER, lines, found - start, addresses, size, &known);
	ok(!different && known > size / 2,
	   "%zu bytes of a module's function are where addr2line says", known);
	dwarf_lines_close(lines);
}

int main(void)
{
	struct kernel_image *image = fetched_kernel_image("6.1");
	const char *kernels = getenv("KERNELS_DIR");
	struct dwarf_lines *lines;
	struct error err;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/6.1-dbg/vmlinux", kernels ? kernels : "build/kernels");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!image || fd < 0) {
		kernel_image_destroy(image);
		return tap_skip_all("no kernel 6.1 with debug information; run "
				    "tests/testbed/fetch-kernel 6.1-dbg");
	}
	if (ok(!dwarf_lines_open(fd, &lines, &err), "the kernel has debug information")) {
		test_lines(image, path, lines);
		dwarf_lines_close(lines);
	}
	test_trace(image, path);
	snprintf(path, sizeof(path), "%s/6.1-dbg/brd.ko", kernels ? kernels : "build/kernels");
	test_module(path);
	kernel_image_destroy(image);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of Debian's kernels, and their declarations. Needs tests/testbed/fetch-kernel to
 * have run; $KERNELS_DIR names another directory than build/kernels.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/syscalls.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

/* A whole line. */
static bool has_line(const char *lines, const char *line)
{
	const char *at = strstr(lines, line);

	return at && (at == lines || at[-1] == '\n') && at[strlen(line)] == '\n';
}

static size_t count_lines(const char *lines)
{
	size_t n = 0;

	for (; (lines = strchr(lines, '\n')); lines++)
		n++;
	return n;
}

static void test_64(const char *version, const struct kernel_image *image)
{
	const struct image_syscalls *calls;
	bool ascends = true, is_there = false;

	if (image_syscalls_of(image, SYSCALL_64, &calls, NULL))
		abort();
	for (size_t i = 0; i < calls->n; i++) {
		is_there |= !strcmp(calls->v[i].name, "openat");
		ascends &= !i || calls->v[i - 1].address <= calls->v[i].address;
	}
	ok(calls->n > 300 && is_there && ascends, "%s has %zu system calls", version, calls->n);
	ok(has_line(calls->prototypes,
		    "openat(int dfd, const char * filename, int flags, umode_t mode)") &&
		   has_line(calls->prototypes, "getpid()"),
	   "%s declares them with their arguments", version);
	ok(count_lines(calls->prototypes) > 300, "%s declares %zu", version,
	   count_lines(calls->prototypes));
}

static bool has_call(const struct image_syscalls *calls, const char *name)
{
	for (size_t i = 0; i < calls->n; i++)
		if (!strcmp(calls->v[i].name, name))
			return true;
	return false;
}

/* Those that 32-bit programs make. */
static void test_ia32(const char *version, const struct kernel_image *image)
{
	const struct image_syscalls *calls;

	if (image_syscalls_of(image, SYSCALL_IA32, &calls, NULL))
		abort();
	ok(calls->n > 300 && has_call(calls, "openat") && has_call(calls, "read") &&
		   has_call(calls, "getpid") && has_call(calls, "ia32_pread64"),
	   "%s has %zu functions of 32-bit system calls", version, calls->n);
	ok(has_line(calls->prototypes,
		    "openat(int dfd, const char * filename, int flags, umode_t mode)") &&
		   has_line(calls->prototypes,
			    "lseek(unsigned int fd, int offset, unsigned int whence)"),
	   "%s declares them, with types of 32 bits", version);
	ok(!strstr(calls->prototypes, "\nfanotify_mark("),
	   "%s: one with an argument in two registers has no declaration", version);
}

/* --- what calls them ------------------------------------------------------------------------- */

static bool is_listed(const struct image_syscalls *calls, uint64_t address)
{
	for (size_t i = 0; i < calls->nr_callers; i++)
		if (address >= calls->callers[i].address && address < calls->callers[i].end)
			return true;
	return false;
}

static int by_address(const void *address, const void *call)
{
	const uint64_t a = *(const uint64_t *)address;
	const uint64_t b = ((const struct image_syscall *)call)->address;

	return a < b ? -1 : a > b;
}

/* Its function, or what only jumps on to one. */
static bool leads_to_call(const struct kernel_image *image, const struct image_syscalls *calls,
			  uint64_t address)
{
	static const char *const jump_on[] = {"x64_sys_call", "x32_sys_call", "ia32_sys_call"};

	for (size_t i = 0; i < sizeof(jump_on) / sizeof(jump_on[0]); i++)
		if (symbols_address(image->symbols, jump_on[i]) == address)
			return true;
	return bsearch(&address, calls->v, calls->n, sizeof(*calls->v), by_address);
}

/* Where each `call` of a system call is, or of what seems to be one: all of them are to be known.
 */
static void test_callers(const char *version, const struct kernel_image *image)
{
	enum { CALL = 0xe8, CALL_SIZE = 5 };
	const size_t size = image->etext - image->stext;
	const uint8_t *text = kernel_image_bytes(image, image->stext, size);
	const struct image_syscalls *native, *ia32;
	size_t n = 0, unknown = 0;

	if (!text || image_syscalls_of(image, SYSCALL_64, &native, NULL) ||
	    image_syscalls_of(image, SYSCALL_IA32, &ia32, NULL))
		abort();
	for (size_t i = 0; i + CALL_SIZE <= size; i++) {
		const uint64_t at = image->stext + i;
		int32_t distance;
		uint64_t to;

		memcpy(&distance, text + i + 1, sizeof(distance));
		to = at + CALL_SIZE + (uint64_t)(int64_t)distance;
		if (text[i] != CALL ||
		    (!leads_to_call(image, native, to) && !leads_to_call(image, ia32, to)))
			continue;
		n++;
		if (is_listed(native, at) || is_listed(ia32, at))
			continue;
		unknown++;
		tap_diag("%s: %s", version, symbols_covering(image->symbols, at)->name);
	}
	ok(n && !unknown, "%s: all that calls system calls is known: %zu calls", version, n);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	test_64(version, image);
	test_ia32(version, image);
	test_callers(version, image);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1",         "6.12",    "6.17", "7.0",
					       "7.2",  "7.3-generic", "6.19-rt", NULL};

	return fetched_kernels_test(versions, test_kernel);
}

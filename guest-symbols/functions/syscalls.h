/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_SYSCALLS_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_SYSCALLS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * What the functions of system calls begin with (arch/x86/include/asm/syscall_wrapper.h of Linux):
 * __x64_sys_openat of 64-bit ones; __ia32_sys_read and __ia32_compat_sys_openat of those that
 * 32-bit programs make, by INT 0x80, SYSENTER or SYSCALL. Calls without arguments have one function
 * for both.
 */
enum syscall_abi { SYSCALL_64, SYSCALL_IA32 };

/* The system calls of an image. Their functions have one parameter, a struct pt_regs *. */
struct image_syscall {
	const char *name; /* "openat" */
	uint64_t address; /* of its function, link-time */
};

/* What calls the functions of system calls, link-time: a call to one of these returns there. */
struct syscall_caller {
	uint64_t address, end;
};
enum { SYSCALL_CALLERS_MAX = 12 };

struct image_syscalls {
	struct image_syscall *v; /* by address */
	size_t n;
	struct syscall_caller callers[SYSCALL_CALLERS_MAX];
	size_t nr_callers;
	/*
	 * The declarations that the kernel keeps for its own tracing of system calls
	 * (CONFIG_FTRACE_SYSCALLS), a line each: "openat(int dfd, const char * filename, int flags,
	 * umode_t mode)". "" where it has none.
	 *
	 * There are none of compat_sys_*: these have the parameters of the 64-bit ones, and
	 * that declaration; but for those that take one of 64 bits in two registers, which have
	 * none. A long of a 32-bit program is an "int".
	 */
	char *prototypes;
};

/* The table has the numbers below that; 0: there is no table. */
uint64_t image_syscall_numbers(const struct kernel_image *image);
/* The name of the system call with this number, by the table of their functions; NULL: there is
 * none, or no table. */
const char *image_syscall_name(const struct kernel_image *image, const struct image_syscalls *calls,
			       uint64_t number);

/* A fact of the image, which owns it (kernel_image_derive()). What is damaged in the image is left
 * out. -ENOMEM. */
int image_syscalls_of(const struct kernel_image *image, enum syscall_abi abi,
		      const struct image_syscalls **out, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_SYSCALLS_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_SYSCALLS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

/* What the functions of 64-bit system calls begin with: __x64_sys_openat. */
#define SYSCALL_PREFIX "__x64_sys_"

/* The 64-bit system calls of an image. Their functions have one parameter, a struct pt_regs *. */
struct image_syscall {
	const char *name; /* "openat" */
	uint64_t address; /* of its function, link-time */
};

struct image_syscalls {
	struct image_syscall *v; /* by address */
	size_t n;
	/*
	 * The declarations that the kernel keeps for its own tracing of system calls
	 * (CONFIG_FTRACE_SYSCALLS), a line each: "openat(int dfd, const char * filename, int flags,
	 * umode_t mode)". "" where it has none.
	 */
	char *prototypes;
};

/* A fact of the image, which owns it (kernel_image_derive()). What is damaged in the image is left
 * out. -ENOMEM. */
int image_syscalls_of(const struct kernel_image *image, const struct image_syscalls **out,
		      struct error *err);

#endif

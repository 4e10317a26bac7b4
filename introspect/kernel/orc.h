/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_ORC_H
#define SONDE_INTROSPECT_KERNEL_ORC_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

struct kernel;

/*
 * The ORC tables of an image (arch/x86/include/asm/orc_types.h, arch/x86/kernel/unwind_orc.c;
 * sorted by scripts/sorttable.c at build): n instruction addresses, each a 32-bit offset from its
 * own place, and n entries of 6 bytes. Both point into the image.
 */
struct orc_table {
	const uint8_t *ips, *entries;
	uint64_t ips_link; /* link address of ips[0] */
	size_t n;          /* 0 = the kernel was built without ORC */
	uint8_t type_bits; /* width of orc_entry.type, which changed in 6.4; 0 = BTF does not say */
};

/* Empty if the image has no valid tables. */
void orc_table_init(const struct kernel_image *image, struct orc_table *out);

/*
 * The frame size of the function that `ip_gva` returns to: bytes from the stack pointer after that
 * return to the one after the function's own return, whose return address is the last word of them.
 * At least 8. Errors as orc_caller(), but for -EFAULT: it reads no guest memory.
 */
int orc_frame(const struct kernel *kernel, uint64_t ip_gva, uint64_t *size, struct error *err);

/*
 * One step of unwinding with the kernel's ORC tables (Documentation/arch/x86/orc-unwinder.rst):
 * `ip_gva` is a return address (the call before it is looked up) and `sp` the stack pointer right
 * after the return. Gives the return address to that function's own caller, and the stack pointer
 * after that return, which is always greater than sp. Reads guest memory only for the return
 * address.
 *
 * -ENOENT: not in the image. -ENOTSUP: the frame is not addressed through RSP, or there are no ORC
 * tables. -EFAULT: the stack cannot be read.
 */
int orc_caller(const struct kernel *kernel, uint64_t ip_gva, uint64_t sp, uint64_t *caller_ip,
	       uint64_t *caller_sp, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_TINY_KERNEL_H
#define SONDE_TESTS_LIB_TINY_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* A file that is taken for a vmlinux: an ELF with one segment, linked like Linux at 16 MiB. */
struct tiny_kernel {
	const void *code; /* the segment's contents; entered at its first byte */
	size_t size;
	uint64_t memory_size; /* of the segment, 0 = size */
	size_t cut;           /* bytes to leave off at the end of the file */
};

static const uint64_t tiny_kernel_phys = 0x1000000;
static const uint64_t tiny_kernel_virt = 0xffffffff81000000;

/* Write it to a new file; `path` gets the name (room for 64). The caller unlinks it. */
int tiny_kernel_write(const struct tiny_kernel *kernel, char path[64]);

#endif

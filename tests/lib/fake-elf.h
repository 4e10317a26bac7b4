/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_ELF_H
#define SONDE_TESTS_LIB_FAKE_ELF_H

#include <stddef.h>
#include <stdint.h>

struct fake_section {
	const char *name; /* NULL ends a list */
	const void *bytes;
	size_t size;
	uint32_t type, link;
	uint64_t flags, entry_size;
};

enum { FAKE_ELF_IMAGE_OFFSET = 128 };

/*
 * An x86-64 ELF executable with one segment, `image` at `address`, and sections, of which the first
 * has number 1; `sections` may be NULL. Writes at most `room` bytes; 0 if they do not suffice.
 */
size_t fake_elf(uint64_t address, const void *image, size_t image_size,
		const struct fake_section *sections, uint8_t *out, size_t room);

#endif

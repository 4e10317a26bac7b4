/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_MEMORY_IMAGE_H
#define SONDE_GUEST_SYMBOLS_IMAGE_MEMORY_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * The image of a running kernel, read from a copy of its memory instead of a file: symbols, BTF and
 * notes are in a stripped kernel's read-only data. What the kernel frees after boot is missing, the
 * lists of sites among it: the caller has to find these elsewhere.
 */
struct memory_copy {
	uint64_t gva; /* of bytes[0], the kernel's _text */
	size_t size;
	uint8_t *bytes; /* for the caller to fill in; zeros where memory cannot be read */
	uint8_t *elf;   /* the file that they are part of */
};

/* Room for `size` bytes, zeroed. -ENOMEM. */
int memory_copy_init(struct memory_copy *memory, uint64_t gva, size_t size, struct error *err);
void memory_copy_deinit(struct memory_copy *memory);

/*
 * Analyse the copy; `given`, which may be NULL, as in kernel_image_load(). All addresses in *out,
 * which is the caller's, are run-time addresses. Errors as kernel_image_load(); -ENOENT if there
 * are no kallsyms tables, or no banner.
 */
int memory_image_load(const struct memory_copy *memory, const struct kernel_given *given,
		      struct kernel_image **out, struct error *err);

/*
 * Turn the image's addresses into link-time addresses, given its slide, and give it its mcount
 * sites (link-time addresses, sorted; consumed, also on error). Then it is as if loaded from a
 * file, but for the return sites. -EBADMSG if it cannot have that slide.
 */
int memory_image_finish(struct kernel_image *image, uint64_t slide, uint64_t *sites,
			size_t nr_sites, struct error *err);

#endif

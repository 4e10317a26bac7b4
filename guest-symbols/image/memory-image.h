/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_MEMORY_IMAGE_H
#define SONDE_GUEST_SYMBOLS_IMAGE_MEMORY_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * A kernel that runs, copied out of memory, in place of its file: a stripped kernel carries in its
 * read-only data what a file's reader looks for. Missing is what the kernel frees when it has
 * booted, the lists of sites among it: these have to come from elsewhere.
 */
struct running_memory {
	uint64_t gva; /* of bytes[0], the kernel's _text */
	size_t size;
	uint8_t *bytes; /* to be filled in; zeros where memory cannot be read */
	uint8_t *elf;   /* the file that they are part of */
};

/* Room for `size` bytes, zeroed. -ENOMEM. */
int running_memory_init(struct running_memory *memory, uint64_t gva, size_t size,
			struct error *err);
void running_memory_deinit(struct running_memory *memory);

/*
 * Analyse all but the sites. All addresses in *out, which is the caller's, are those where it runs.
 * Errors as kernel_image_load(); -ENOENT if there are no kallsyms tables, or no banner.
 */
int memory_image_load(const struct running_memory *memory, struct kernel_image **out,
		      struct error *err);

/*
 * Turn the image's addresses into those it was linked for, given its slide, and give it its mcount
 * sites (link addresses, sorted, taken over, also on error): now it is as if loaded from a file.
 * -EBADMSG if it cannot have that slide; errors as alloc_points_resolve().
 */
int memory_image_finish(struct kernel_image *image, uint64_t slide, uint64_t *sites,
			size_t nr_sites, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "formats/base/text.h"
#include "formats/base/cursor.h"
#include "guest-symbols/kmem/allocators.h"

enum { ENTRY_SIZE = 16 };

/* Copy the string at `address`, cut to `size`. False if it is empty or leaves the image. */
static bool read_name(const struct kernel_image *image, uint64_t address, char *out, size_t size)
{
	char name[sizeof(((struct gfp_name *)NULL)->name)];

	for (size_t i = 0; i < sizeof(name); i++) {
		const uint8_t *byte = kernel_image_bytes(image, address + i, 1);

		if (!byte)
			return false;
		name[i] = (char)*byte;
		if (!name[i])
			break;
	}
	name[sizeof(name) - 1] = '\0';
	clean_text(out, size, name);
	return out[0];
}

void gfp_names_read(const struct kernel_image *image, struct trace_info *info)
{
	uint64_t table = symbols_address(image->symbols, "gfpflag_names");

	info->nr_gfp_names = 0;
	while (table && info->nr_gfp_names < GFP_NAMES_MAX) {
		struct gfp_name *name = &info->gfp_names[info->nr_gfp_names];
		const uint8_t *bytes = kernel_image_bytes(image, table, ENTRY_SIZE);
		struct cursor entry = cursor_make(bytes, bytes ? ENTRY_SIZE : 0);
		uint64_t text;

		name->mask = cursor_u64(&entry);
		text = cursor_u64(&entry) - image->bytes_slide;
		if (!name->mask || !read_name(image, text, name->name, sizeof(name->name)))
			return;
		info->nr_gfp_names++;
		table += ENTRY_SIZE;
	}
}

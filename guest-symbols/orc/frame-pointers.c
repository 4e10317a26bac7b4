/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "guest-symbols/orc/orc-table.h"

enum {
	SAMPLES = 2048,
	/* endbr64, what calls the tracer, and some instructions that the compiler put in between */
	PROLOGUE_BYTES = 32,
};

/* mov %rsp,%rbp; the compiler puts others between it and push %rbp */
static const uint8_t frame_begins[] = {0x48, 0x89, 0xe5};

static bool is_function(const struct kernel_image *image, const struct symbol *s)
{
	return symbol_is_function(s) && s->address >= image->stext && s->address < image->etext &&
	       s->size >= PROLOGUE_BYTES && !strstr(s->name, ".cold");
}

static bool begins_frame(const uint8_t *code)
{
	for (size_t i = 0; i <= PROLOGUE_BYTES - sizeof(frame_begins); i++)
		if (!memcmp(code + i, frame_begins, sizeof(frame_begins)))
			return true;
	return false;
}

bool image_has_frame_pointers(const struct kernel_image *image)
{
	const size_t n = symbols_count(image->symbols), step = n / SAMPLES + 1;
	size_t functions = 0, frames = 0;

	for (size_t i = 0; i < n; i += step) {
		const struct symbol *s = symbols_at(image->symbols, i);
		const uint8_t *code;

		if (!is_function(image, s))
			continue;
		code = kernel_image_bytes(image, s->address, PROLOGUE_BYTES);
		functions += !!code;
		frames += code && begins_frame(code);
	}
	return frames > functions / 2;
}

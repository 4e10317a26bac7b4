/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What functions jump to instead of returning: return thunks (arch/x86/lib/retpoline.S). */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/mcount.h"
#include "patcher/text/function.h"

enum {
	SAMPLES = 64,      /* return sites that are read */
	MANY_JUMPS = 256,  /* more than lead to any function that others end in */
	CHUNK = 256 << 10, /* of the text, at a time */
	REL32 = 4,         /* bytes */
	JMP = 0xe9,
};

/* --- the present one -------------------------------------------------------------------------- */

/* Since 6.2 a variable has it, which modules are written by as well. */
static uint64_t read_variable(const struct kernel *kernel)
{
	const uint64_t variable = kernel_symbol(kernel, "x86_return_thunk");
	uint64_t thunk;

	if (!variable || kernel_get_u64(kernel, variable, &thunk, NULL))
		return 0;
	return kernel_in_image(kernel, thunk) ? thunk : 0;
}

/* Where a jump at a return site leads; 0: there is none. That of a patch or a kprobe leads out of
 * the image. */
static uint64_t target_of_site(const struct kernel *kernel, uint64_t link)
{
	const uint64_t gva = kernel_gva(kernel, link);
	uint8_t bytes[SLOT_MAX_SIZE];
	struct slot slot;

	if (kernel_read(kernel, gva, bytes, sizeof(bytes), NULL))
		return 0;
	slot = slot_classify(bytes, sizeof(bytes), gva);
	return slot.state == SLOT_JMP_THUNK && kernel_in_image(kernel, slot.target) ? slot.target
										    : 0;
}

/* Init text is freed, and may hold anything. */
static bool is_init(const struct kernel_image *image, uint64_t link)
{
	const uint64_t begin = symbols_address(image->symbols, "_sinittext");

	return begin && link >= begin && link < symbols_address(image->symbols, "_einittext");
}

uint64_t function_return_thunk(const struct kernel *kernel)
{
	const struct kernel_image *image = kernel->image;
	const size_t step = image->nr_return_sites / SAMPLES + 1;
	uint64_t thunk = read_variable(kernel);

	for (size_t i = 0; !thunk && i < image->nr_return_sites; i += step)
		if (!is_init(image, image->return_sites[i]))
			thunk = target_of_site(kernel, image->return_sites[i]);
	return thunk;
}

bool function_is_return_thunk(const struct kernel *kernel, uint64_t thunk, uint64_t gva)
{
	const struct symbol *s = symbols_covering(kernel->image->symbols, kernel_link(kernel, gva));

	return gva && (gva == thunk || (s && strstr(s->name, "return_thunk")));
}

/* --- any other code of that kind -------------------------------------------------------------- */

/* bytes[] has REL32 more than `size`. */
static unsigned int count_jumps(const uint8_t *bytes, size_t size, uint64_t gva, uint64_t target)
{
	unsigned int n = 0;

	for (size_t i = 0; i < size; i++) {
		int32_t distance;

		if (bytes[i] != JMP)
			continue;
		memcpy(&distance, bytes + i + 1, sizeof(distance));
		n += gva + i + 1 + REL32 + (uint64_t)(int64_t)distance == target;
	}
	return n;
}

static bool has_site(const struct kernel *kernel, uint64_t gva)
{
	const struct kernel_image *image = kernel->image;
	const uint64_t link = kernel_link(kernel, gva);

	return site_in_range(image->mcount_sites, image->nr_mcount_sites, link, link + SITE_SIZE);
}

bool function_is_common_exit(const struct kernel *kernel, uint64_t gva)
{
	const uint64_t end = kernel_gva(kernel, kernel->image->etext);
	uint8_t *bytes = has_site(kernel, gva) ? NULL : malloc(CHUNK + REL32);
	unsigned int n = 0;

	for (uint64_t at = kernel_gva(kernel, kernel->image->stext);
	     bytes && n <= MANY_JUMPS && at + REL32 < end; at += CHUNK) {
		const size_t left = end - at - REL32, size = left < CHUNK ? left : CHUNK;

		if (!kernel_read(kernel, at, bytes, size + REL32, NULL))
			n += count_jumps(bytes, size, at, gva);
	}
	free(bytes);
	return n > MANY_JUMPS;
}

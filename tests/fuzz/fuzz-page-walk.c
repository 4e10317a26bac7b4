/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile guest memory: the input overwrites a tiny kernel (tests/lib/fake-kernel.h) word by word;
 * then everything that reads a guest runs: walks, search, slab pages, lists, modules, unwinding.
 *
 * Input: one byte of flavour (a high one also searches all memory for the kernel, which is slow),
 * then records of a 4-byte place and an 8-byte word, then, after place 0xffffffff, 8-byte addresses
 * to read.
 */
#include <stdlib.h>
#include <string.h>

#include "introspect/kernel/modules.h"
#include "introspect/kernel/kernel.h"
#include "introspect/slab/slab.h"
#include "tests/lib/fake-kernel.h"

enum { NR_FLAVOURS = 6, MAX_WORDS = 256, MAX_LOOKS = 16, WORD = 8, SEARCH_FROM = 0xe0 };

struct undo {
	uint64_t place, old;
};

static struct fake_kernel kernels[NR_FLAVOURS];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void create_kernels(void)
{
	for (unsigned int i = 0; i < NR_FLAVOURS; i++)
		if (fake_kernel_create(&kernels[i], (enum fake_flavour)(i % 3), i < 3 ? 4 : 5))
			abort();
}

/* Half of the places are in the tables and variables, the others anywhere. */
static uint64_t choose_place(uint32_t word)
{
	if (word & 1)
		return FAKE_PHYS_TEXT + FAKE_BANNER + (word >> 1) % 0x12000;
	return (word >> 1) % (FAKE_RAM - WORD);
}

static void look_at(struct kernel *kernel, struct slab_view *view, struct kernel_names *names,
		    uint64_t gva)
{
	uint64_t a, b;
	unsigned int order;
	struct slab_cache cache;
	struct page_walk walk;
	char text[64];

	kernel_walk(kernel, gva, &walk, NULL);
	page_walk(kernel->guest, gva, 4 + (gva & 1), ~gva, &walk, NULL);
	kernel_read_string(kernel, gva, text, sizeof(text), NULL);
	slab_of_object(view, gva, &a, &b, NULL);
	slab_cache_read(view, gva, &cache, NULL);
	slab_page_order(view, gva, &order, NULL);
	slab_page_address(view, gva, &a, NULL);
	slab_in_direct_map(view, gva);
	orc_caller(kernel, FAKE_LINK_TEXT + FAKE_SLIDE + (gva & 0x3fff), gva, &a, &b, NULL);
	kernel_names_lookup(names, gva, text, sizeof(text), &a, &b);
}

static void look(struct fake_kernel *fake, bool search, const uint8_t *data, size_t size)
{
	struct kernel kernel;
	struct kernel_names *names = NULL;
	struct slab_view *view = NULL;

	if (search)
		kernel_find(dump_guest(fake->dump), &fake->image, &kernel, NULL);
	kernel_at(&kernel, dump_guest(fake->dump), &fake->image, FAKE_SLIDE, FAKE_PHYS_TEXT);
	if (slab_view_create(&kernel, &view, NULL) || kernel_names_create(&kernel, &names, NULL))
		abort();
	for (size_t i = 0; i < MAX_LOOKS && (i + 1) * WORD <= size; i++) {
		uint64_t gva;

		memcpy(&gva, data + i * WORD, WORD);
		look_at(&kernel, view, names, gva);
		look_at(&kernel, view, names, FAKE_PAGE_OFFSET + gva % FAKE_RAM);
		look_at(&kernel, view, names, FAKE_VMEMMAP + gva % (2 << 20));
	}
	kernel_names_destroy(names);
	slab_view_destroy(view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct undo undo[MAX_WORDS];
	struct fake_kernel *fake;
	size_t n = 0, at = 1;

	if (!kernels[0].ram)
		create_kernels();
	if (!size)
		return 0;
	fake = &kernels[data[0] % NR_FLAVOURS];
	while (n < MAX_WORDS && size - at >= sizeof(uint32_t) + WORD) {
		uint32_t place;

		memcpy(&place, data + at, sizeof(place));
		at += sizeof(place);
		if (place == UINT32_MAX)
			break;
		undo[n].place = choose_place(place);
		memcpy(&undo[n].old, fake->ram + undo[n].place, WORD);
		memcpy(fake->ram + undo[n++].place, data + at, WORD);
		at += WORD;
	}
	look(fake, data[0] >= SEARCH_FROM, data + at, size - at);
	while (n--)
		memcpy(fake->ram + undo[n].place, &undo[n].old, WORD);
	return 0;
}

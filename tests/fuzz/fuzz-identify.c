/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Identify a kernel in guest memory that the input changes. Input: one byte chooses the kallsyms
 * layout, then {place u32, value u64} each. Odd places are in what identifies the kernel.
 */
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/identify.h"
#include "tests/lib/fake-running.h"

enum { MAX_WORDS = 256, WORD = 8, TELLING = 0x60000 };

struct undo {
	uint64_t place, old;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fake_running guests[FAKE_KALLSYMS_LAYOUTS];

static void create_guests(void)
{
	for (unsigned int i = 0; i < FAKE_KALLSYMS_LAYOUTS; i++)
		if (fake_running_create(&guests[i], (enum fake_kallsyms_layout)i, 4 + i % 2))
			abort();
}

static uint64_t choose_place(uint32_t word)
{
	if (word & 1)
		return FAKE_PHYS_TEXT + (word >> 2) % TELLING;
	if (word & 2)
		return FAKE_HEAP_GPA + (word >> 2) % 0x4000;
	return (word >> 2) % (FAKE_RAM - WORD);
}

static void identify(struct fake_running *guest)
{
	struct kernel_identity found;
	const struct kernel_image *image;

	if (kernel_identify(dump_guest(guest->fake.dump), &guest->sregs, 1, NULL, &found, NULL))
		return;
	image = found.image;
	if (!image->nr_mcount_sites || !image->banner || !found.kernel.confirmed ||
	    kernel_gva(&found.kernel, image->text) != found.mapping.gva)
		abort();
	for (size_t i = 1; i < image->nr_mcount_sites; i++)
		if (image->mcount_sites[i] < image->mcount_sites[i - 1])
			abort();
	for (size_t i = 1; i < symbols_count(image->symbols); i++)
		if (symbols_at(image->symbols, i)->address <
		    symbols_at(image->symbols, i - 1)->address)
			abort();
	kernel_image_destroy(found.image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct undo undo[MAX_WORDS];
	struct fake_running *guest;
	size_t n = 0;
	uint32_t place;

	if (!guests[0].fake.ram)
		create_guests();
	if (!size)
		return 0;
	guest = &guests[data[0] % FAKE_KALLSYMS_LAYOUTS];
	for (size_t at = 1; n < MAX_WORDS && size - at >= sizeof(place) + WORD; at += WORD) {
		memcpy(&place, data + at, sizeof(place));
		at += sizeof(place);
		undo[n].place = choose_place(place);
		memcpy(&undo[n].old, guest->fake.ram + undo[n].place, WORD);
		memcpy(guest->fake.ram + undo[n++].place, data + at, WORD);
	}
	identify(guest);
	while (n--)
		memcpy(guest->fake.ram + undo[n].place, &undo[n].old, WORD);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-sections.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* in the page */
	POINTERS = 0x100,
	ATTRIBUTES = 0x200,
	ATTRIBUTE_SIZE = 0x50,
	NAMES = 0x800,
	NAME_SIZE = 0x20,
	/* offsets in fake-kernel.c's structures */
	BIN_ATTRS = 32,
	PRIVATE = 24,
	ADDRESS_5_10 = 72,
};

void fake_put_sections(struct fake_kernel *fake, enum fake_flavour flavour, uint64_t module_gpa,
		       uint64_t gpa, const struct fake_section *sections)
{
	const uint64_t address = flavour == FAKE_5_10 ? ADDRESS_5_10 : PRIVATE;
	uint64_t i = 0;

	memset(fake->ram + gpa, 0, 0x1000);
	fake_put64(fake, module_gpa + FAKE_SECT_ATTRS, fake_direct(gpa));
	fake_put64(fake, gpa + BIN_ATTRS, fake_direct(gpa + POINTERS));
	for (; sections[i].name; i++) {
		const uint64_t attribute = gpa + ATTRIBUTES + i * ATTRIBUTE_SIZE;
		const uint64_t name = gpa + NAMES + i * NAME_SIZE;

		if (i == FAKE_SECTIONS_MAX || strlen(sections[i].name) >= NAME_SIZE)
			abort();
		strcpy((char *)fake->ram + name, sections[i].name);
		fake_put64(fake, gpa + POINTERS + i * 8, fake_direct(attribute));
		fake_put64(fake, attribute, fake_direct(name));
		fake_put64(fake, attribute + address, sections[i].gva);
	}
}

void fake_put_return_sites(struct fake_kernel *fake, uint64_t gpa, uint64_t gva,
			   const uint64_t *slots, size_t n)
{
	for (size_t i = 0; i <= n; i++)
		fake_put32(fake, gpa + i * 4, i < n ? (uint32_t)(slots[i] - (gva + i * 4)) : 0);
}

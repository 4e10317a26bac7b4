/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/symbols/symbols.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/fake-kallsyms.h"

/*
 * The input is a list of bits to flip in sound tables, since bytes made up from nothing hardly ever
 * get past the search: first byte the layout, then {offset u16, mask u8} each. The other two
 * sources of symbols get the input as it is.
 */
enum { ROOM = 1 << 16 };
#define ADDRESS 0xffffffff82000000

static void use(struct symbol_table *table)
{
	for (size_t i = 0; i < symbols_count(table); i++) {
		const struct symbol *symbol = symbols_at(table, i);

		if (!symbols_find(table, symbol->name) || !symbols_covering(table, symbol->address))
			abort();
	}
	symbols_destroy(table);
}

static void fuzz_kallsyms(const uint8_t *data, size_t size)
{
	static uint8_t image[ROOM], elf[ROOM + 4096];
	enum fake_kallsyms_layout layout = data[0] % FAKE_KALLSYMS_LAYOUTS;
	size_t tables = fake_kallsyms(layout, ADDRESS, image, ROOM), elf_size;
	struct symbol_table *table;

	for (size_t i = 1; i + 3 <= size; i += 3) {
		uint16_t offset;

		memcpy(&offset, data + i, sizeof(offset));
		if (offset < tables)
			image[offset] ^= data[i + 2];
	}
	elf_size = fake_elf(ADDRESS, image, tables, NULL, elf, sizeof(elf));
	if (!symbols_from_kallsyms(elf, elf_size, &table, NULL))
		use(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbol_table *table;

	if (!size)
		return 0;
	fuzz_kallsyms(data, size);
	if (!symbols_from_system_map((const char *)data, size, &table, NULL))
		use(table);
	if (!symbols_from_elf(data, size, &table, NULL))
		use(table);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/symbols/symbols.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/fake-kallsyms.h"
#include "tests/lib/tap.h"

enum { ROOM = 1 << 16, PREFIX = 64 };
#define ADDRESS 0xffffffff82000000

static const char *const layout_names[] = {"5.10", "6.2", "6.4", "6.15", "7.0"};

/* An ELF whose only content is the tables, somewhere in the middle. */
static size_t make_elf(enum fake_kallsyms_layout layout, uint8_t *elf)
{
	static uint8_t image[ROOM];
	size_t size;

	memset(image, 0, sizeof(image));
	size = fake_kallsyms(layout, ADDRESS + PREFIX, image + PREFIX, ROOM - PREFIX);
	return size ? fake_elf(ADDRESS, image, PREFIX + size, NULL, elf, 2 * ROOM) : 0;
}

static unsigned int count_wrong(const struct symbol_table *table, enum fake_kallsyms_layout layout)
{
	unsigned int wrong = 0;

	for (uint32_t i = 0; i < FAKE_KALLSYMS_COUNT; i++) {
		const struct symbol *symbol = symbols_at(table, i);
		char name[256];

		snprintf(name, sizeof(name), "sym_%u", i);
		if (i == FAKE_KALLSYMS_LONG) {
			memset(name, 'y', 200);
			name[200] = '\0';
		}
		wrong += strcmp(symbol->name, name) || symbol->type != (i % 3 ? 'T' : 't') ||
			 symbol->address != fake_kallsyms_address(layout, i);
	}
	return wrong;
}

static void test_layout(enum fake_kallsyms_layout layout)
{
	static uint8_t elf[2 * ROOM];
	size_t size = make_elf(layout, elf);
	struct symbol_table *table = NULL;
	struct error err = {0};

	ok(size, "%s: the tables fit into the test's ELF", layout_names[layout]);
	if (!ok(!symbols_from_kallsyms(elf, size, &table, &err), "%s: the tables are found (%s)",
		layout_names[layout], err.text))
		return;
	is_u64(symbols_count(table), FAKE_KALLSYMS_COUNT, "all symbols are read");
	is_u64(count_wrong(table, layout), 0, "no name, type or address is wrong");
	is_u64(symbols_address(table, "sym_500"), fake_kallsyms_address(layout, 500),
	       "a symbol is found by its name");
	symbols_destroy(table);
}

/* The tables' parts are checked against each other, so that a cut is noticed. */
static void test_damaged(enum fake_kallsyms_layout layout)
{
	static uint8_t elf[2 * ROOM], copy[2 * ROOM];
	size_t size = make_elf(layout, elf), found = 0;
	struct symbol_table *table;

	for (size_t cut = FAKE_ELF_IMAGE_OFFSET; cut < size; cut += 97) {
		memcpy(copy, elf, size);
		memset(copy + cut, 0, size - cut);
		if (!symbols_from_kallsyms(copy, size, &table, NULL)) {
			found++;
			symbols_destroy(table);
		}
	}
	/* What comes last can be missing: seqs_of_names and what pads the file. */
	ok(found * 97 < 4000,
	   "%s: tables zeroed from any byte on are refused, but for the last %zu cuts",
	   layout_names[layout], found);
}

int main(void)
{
	static uint8_t elf[2 * ROOM];
	struct symbol_table *table;
	struct error err = {0};
	uint8_t image[4096] = {0};
	size_t size;

	for (int layout = 0; layout < FAKE_KALLSYMS_LAYOUTS; layout++) {
		test_layout(layout);
		test_damaged(layout);
	}
	size = fake_elf(ADDRESS, image, sizeof(image), NULL, elf, sizeof(elf));
	is_u64(-symbols_from_kallsyms(elf, size, &table, &err), ENOENT,
	       "an image of zeros has no tables");
	is_str(err.text,
	       "no kallsyms tables found in the kernel (CONFIG_KALLSYMS): use its vmlinux with "
	       "symbols, or give them with --system-map FILE",
	       "the error says so");
	return tap_done();
}

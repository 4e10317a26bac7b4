/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_KALLSYMS_H
#define SONDE_TESTS_LIB_FAKE_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

/* The layouts that scripts/kallsyms.c has written, by the first version. */
enum fake_kallsyms_layout {
	FAKE_KALLSYMS_5_10, /* offsets first; per-CPU symbols absolute */
	FAKE_KALLSYMS_6_2,  /* the same with seqs_of_names */
	FAKE_KALLSYMS_6_4,  /* offsets last */
	FAKE_KALLSYMS_6_15, /* no absolute symbols: unsigned offsets */
	FAKE_KALLSYMS_7_0,  /* offsets relative to themselves, alignment 4 */
	FAKE_KALLSYMS_LAYOUTS,
};

/* Symbol i is called "sym_<i>", is a 'T' (every third a 't'), and lies at fake_kallsyms_address(i).
 * Number FAKE_KALLSYMS_LONG has a name of 200 'y' instead, whose length takes two bytes. */
enum { FAKE_KALLSYMS_COUNT = 700, FAKE_KALLSYMS_LONG = 300 };
uint64_t fake_kallsyms_address(enum fake_kallsyms_layout layout, uint32_t i);

/* Build the tables as they would lie at link address `address` (a multiple of 8). Writes at most
 * `room` bytes; 0 if they do not suffice. */
size_t fake_kallsyms(enum fake_kallsyms_layout layout, uint64_t address, uint8_t *out, size_t room);

/* The same of the caller's symbols: more than 256, up to FAKE_KALLSYMS_MAX, sorted by address. The
 * first kernel address is the tables' base. */
struct fake_kallsyms_symbol {
	uint64_t address;
	char name[48]; /* with the type in front */
};
enum { FAKE_KALLSYMS_MAX = 1024 };
size_t fake_kallsyms_of(enum fake_kallsyms_layout layout, uint64_t address,
			const struct fake_kallsyms_symbol *symbols, uint32_t n, uint8_t *out,
			size_t room);

#endif

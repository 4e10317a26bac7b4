/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DWARF_UNITS_H
#define SONDE_GUEST_SYMBOLS_DWARF_UNITS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which function of which compilation unit contains an address, out of DWARF (dwarfstd.org,
 * versions 2 to 5). The ranges of all units are read once, the functions of a unit when the first
 * address in it is asked for. Addresses are those that the kernel was linked for.
 */
struct dwarf_units;

/* NULL without memory. `dwarf` must outlive the units. */
struct dwarf_units *dwarf_units_create(Dwarf *dwarf);
/* NULL-safe. */
void dwarf_units_destroy(struct dwarf_units *units);

/* How many ranges of code there are; 0: the file has no debug information of code. */
size_t dwarf_units_count(const struct dwarf_units *units);

struct dwarf_place {
	Dwarf_Die unit, function;
	bool has_function; /* else the unit has no function there, only lines */
};

/* Returns false if no unit has the address. */
bool dwarf_units_find(struct dwarf_units *units, uint64_t address, struct dwarf_place *out);

#endif

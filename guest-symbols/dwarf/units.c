/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/dwarf/units.h"

#include <dwarf.h>
#include <stdlib.h>
#include "formats/base/budget.h"
#include "formats/base/u64-map.h"

/* Of all units and their functions. Debian's 6.1 has 49,000 functions and cold parts of such; but
 * functions can share a list of ranges, so that a small file can say any number. */
enum { MAX_RANGES = 1 << 20 };

/* Code from `low` to before `high`: of the unit or function whose DIE is at this offset. */
struct range {
	uint64_t low, high;
	Dwarf_Off die;
	uint32_t unit; /* of a unit's range: its index */
};

struct ranges {
	struct range *all; /* ascending by `low`, when complete */
	size_t n, room;
	bool failed; /* no memory */
};

struct unit {
	bool is_read;
	struct ranges functions;
};

struct dwarf_units {
	Dwarf *dwarf;
	struct ranges ranges;
	struct unit *all;
	size_t n, room;
	size_t nr_ranges; /* of the units and of their functions, so far */
};

/* --- ranges ---------------------------------------------------------------------------------- */

static void add_range(struct ranges *ranges, const struct range *range)
{
	if (!array_grow(&ranges->all, sizeof(*ranges->all), ranges->n, &ranges->room)) {
		ranges->failed = true;
		return;
	}
	ranges->all[ranges->n++] = *range;
}

/* Linkers leave code that they have dropped at address 0. Beyond MAX_RANGES there are none. */
static void add_ranges(struct dwarf_units *units, struct ranges *ranges, Dwarf_Die *die,
		       uint32_t unit)
{
	struct range range = {.die = dwarf_dieoffset(die), .unit = unit};
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while (units->nr_ranges < MAX_RANGES &&
	       (at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		units->nr_ranges++;
		range.low = low;
		range.high = high;
		if (low && low < high)
			add_range(ranges, &range);
	}
}

static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

static void sort(struct ranges *ranges)
{
	if (ranges->n)
		qsort(ranges->all, ranges->n, sizeof(*ranges->all), compare);
}

static uint64_t low_at(const void *ranges, size_t i)
{
	return ((const struct range *)ranges)[i].low;
}

static const struct range *search(const struct ranges *ranges, uint64_t address)
{
	const size_t above = search_above(ranges->n, address, low_at, ranges->all);

	return above && address < ranges->all[above - 1].high ? &ranges->all[above - 1] : NULL;
}

/* --- units ----------------------------------------------------------------------------------- */

static bool add_unit(struct dwarf_units *units, Dwarf_Die *die)
{
	if (!array_grow(&units->all, sizeof(*units->all), units->n, &units->room))
		return false;
	units->all[units->n] = (struct unit){0};
	add_ranges(units, &units->ranges, die, (uint32_t)units->n++);
	return true;
}

/* A damaged unit ends the list: there is no telling where the next one begins. */
static bool add_units(struct dwarf_units *units)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Half version;
	Dwarf_Die die;
	uint8_t type;

	while (!dwarf_get_units(units->dwarf, unit, &unit, &version, &type, &die, NULL)) {
		if (type == DW_UT_compile && !add_unit(units, &die))
			return false;
	}
	sort(&units->ranges);
	return !units->ranges.failed;
}

struct dwarf_units *dwarf_units_create(Dwarf *dwarf)
{
	struct dwarf_units *units = calloc(1, sizeof(*units));

	if (!units)
		return NULL;
	units->dwarf = dwarf;
	if (add_units(units))
		return units;
	dwarf_units_destroy(units);
	return NULL;
}

void dwarf_units_destroy(struct dwarf_units *units)
{
	if (!units)
		return;
	for (size_t i = 0; i < units->n; i++)
		free(units->all[i].functions.all);
	free(units->all);
	free(units->ranges.all);
	free(units);
}

size_t dwarf_units_count(const struct dwarf_units *units)
{
	return units->ranges.n;
}

/* --- functions ------------------------------------------------------------------------------- */

/* C has functions at the top level only. Declarations and what is only inlined have no ranges. */
static void read_functions(struct dwarf_units *units, struct unit *unit, Dwarf_Die *die)
{
	Dwarf_Die child;
	int ret = dwarf_child(die, &child);

	unit->is_read = true;
	for (; !ret; ret = dwarf_siblingof(&child, &child)) {
		if (dwarf_tag(&child) == DW_TAG_subprogram)
			add_ranges(units, &unit->functions, &child, 0);
	}
	sort(&unit->functions);
}

bool dwarf_units_find(struct dwarf_units *units, uint64_t address, struct dwarf_place *out)
{
	const struct range *range = search(&units->ranges, address);
	struct unit *unit = range ? &units->all[range->unit] : NULL;

	if (!unit || !dwarf_offdie(units->dwarf, range->die, &out->unit))
		return false;
	if (!unit->is_read)
		read_functions(units, unit, &out->unit);
	range = search(&unit->functions, address);
	out->has_function = range && dwarf_offdie(units->dwarf, range->die, &out->function) != NULL;
	return true;
}

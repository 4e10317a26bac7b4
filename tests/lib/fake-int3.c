/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-int3.h"

#include <string.h>

enum { INT3 = 0xcc, LEVELS = 4, BITS = 9, PAGE_BITS = 12, ENTRY = 8, PRESENT = 3 };
static const uint64_t address_mask = 0x000ffffffffff000;

static uint64_t entry_at(uint64_t table, uint64_t gva, int level)
{
	return (table & address_mask) + (gva >> (PAGE_BITS + BITS * level) & 0x1ff) * ENTRY;
}

bool fake_walk(const struct fake_memory *memory, uint64_t cr3, uint64_t gva, uint64_t *gpa)
{
	uint64_t table = cr3;

	for (int level = LEVELS - 1; level >= 0; level--) {
		uint64_t at = entry_at(table, gva, level);

		if (at + ENTRY > memory->size)
			return false;
		memcpy(&table, memory->ram + at, ENTRY);
		if (!(table & 1))
			return false;
	}
	*gpa = (table & address_mask) | (gva & 0xfff);
	return *gpa < memory->size;
}

void fake_map(const struct fake_memory *memory, uint64_t cr3, uint64_t gva, uint64_t gpa,
	      uint64_t *next)
{
	uint64_t table = cr3;

	for (int level = LEVELS - 1; level >= 0; level--) {
		uint64_t at = entry_at(table, gva, level), entry;

		memcpy(&entry, memory->ram + at, ENTRY);
		if (!level)
			entry = gpa | PRESENT;
		if (!(entry & 1)) {
			entry = *next | PRESENT;
			*next += 1 << PAGE_BITS;
		}
		memcpy(memory->ram + at, &entry, ENTRY);
		table = entry;
	}
}

static size_t find(const struct fake_int3s *all, uint64_t gva)
{
	size_t i = 0;

	while (i < FAKE_MAX_INT3 && all->v[i].gva != gva)
		i++;
	return i;
}

bool fake_int3_set(struct fake_int3s *all, const struct fake_memory *memory, uint64_t cr3,
		   uint64_t gva, bool on)
{
	size_t i = find(all, on ? 0 : gva);
	uint64_t gpa;

	if (i == FAKE_MAX_INT3 || !fake_walk(memory, cr3, gva, &gpa))
		return false;
	if (on)
		all->v[i].before = memory->ram[gpa];
	memory->ram[gpa] = on ? INT3 : all->v[i].before;
	all->v[i].gva = on ? gva : 0;
	return true;
}

void fake_int3_forget(struct fake_int3s *all, const struct fake_memory *memory, uint64_t cr3)
{
	for (size_t i = 0; i < FAKE_MAX_INT3; i++) {
		uint64_t gpa;

		if (all->v[i].gva && fake_walk(memory, cr3, all->v[i].gva, &gpa))
			memory->ram[gpa] = all->v[i].before;
		all->v[i].gva = 0;
	}
}

bool fake_int3_has(const struct fake_int3s *all, uint64_t gva)
{
	return gva && find(all, gva) < FAKE_MAX_INT3;
}

size_t fake_int3_count(const struct fake_int3s *all)
{
	size_t n = 0;

	for (size_t i = 0; i < FAKE_MAX_INT3; i++)
		n += all->v[i].gva != 0;
	return n;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/guest/page-walk.h"

#include <errno.h>

enum {
	PAGE_SHIFT = 12,
	TABLE_BITS = 9,
	PUD_LEVEL = 3, /* the highest level whose entry may be a page */
};

static bool is_canonical(uint64_t gva, unsigned int levels)
{
	unsigned int unused = 64 - (PAGE_SHIFT + TABLE_BITS * levels);

	return (uint64_t)((int64_t)(gva << unused) >> unused) == gva;
}

/* The guest's memory, fetched once per walk: traps walk for each event. */
struct ram {
	struct guest *guest;
	const struct guest_region *regions;
	size_t n;
};

static struct ram ram_of(struct guest *guest)
{
	struct ram ram = {.guest = guest};

	if (guest->memory->regions(guest, &ram.regions, &ram.n, NULL))
		ram.n = 0;
	return ram;
}

/* Host address of [gpa, gpa + size), NULL if it is not mapped RAM of one region. */
static inline const void *mapped_at(const struct ram *ram, uint64_t gpa, size_t size)
{
	for (size_t i = 0; i < ram->n; i++) {
		const struct guest_region *region = &ram->regions[i];
		uint64_t offset = gpa - region->gpa;

		if (offset < region->size)
			return region->hva && size <= region->size - offset ? region->hva + offset
									    : NULL;
	}
	return NULL;
}

static int read_unmapped(const struct ram *ram, uint64_t gpa, uint64_t *entry, struct error *err)
{
	if (guest_phys_read(ram->guest, gpa, entry, sizeof(*entry), NULL))
		return error_set_at(err, ERANGE, gpa, "page table outside guest RAM");
	return 0;
}

/* A running guest changes its tables: each entry is read once, in one piece where memory is mapped.
 */
static inline int read_entry(const struct ram *ram, uint64_t gpa, uint64_t *entry,
			     struct error *err)
{
	const uint64_t *mapped = mapped_at(ram, gpa, sizeof(*entry));

	if (!mapped)
		return read_unmapped(ram, gpa, entry, err);
	*entry = __atomic_load_n(mapped, __ATOMIC_RELAXED);
	return 0;
}

static bool in_ram(const struct ram *ram, uint64_t gpa)
{
	uint8_t byte;

	return mapped_at(ram, gpa, 1) || !guest_phys_read(ram->guest, gpa, &byte, 1, NULL);
}

/* The address inside the page that `entry` at `level` (1 = page table) maps. */
static int finish(const struct ram *ram, uint64_t entry, unsigned int level, uint64_t gva,
		  struct page_walk *out, struct error *err)
{
	uint64_t size = 1ull << (PAGE_SHIFT + TABLE_BITS * (level - 1));
	uint64_t frame = entry & ENTRY_FRAME;

	/* In a large page's entry bit 12 is PAT; the other address bits below its size are
	 * reserved. */
	if (level > 1 && (frame & (size - 1) & ~(1ull << PAGE_SHIFT)))
		return error_set_at(err, EINVAL, gva, "reserved bits in a level %u page entry",
				    level);
	out->page_size = size;
	out->gpa = (frame & ~(size - 1)) | (gva & (size - 1));
	if (!in_ram(ram, out->gpa))
		return error_set_at(err, ERANGE, gva, "mapped outside guest RAM");
	return 0;
}

/* The entry for gva in the table of `level` at `table`. */
static inline int entry_for(const struct ram *ram, uint64_t table, unsigned int level, uint64_t gva,
			    uint64_t *entry, struct error *err)
{
	unsigned int shift = PAGE_SHIFT + TABLE_BITS * (level - 1);
	uint64_t index = (gva >> shift) & ((1u << TABLE_BITS) - 1);

	return read_entry(ram, table + index * sizeof(*entry), entry, err);
}

static int walk_levels(const struct ram *ram, uint64_t table, unsigned int levels, uint64_t gva,
		       struct page_walk *out, struct error *err)
{
	uint64_t all = ~0ull, any = 0; /* bits that all entries have, and those of any */

	for (unsigned int level = levels; level; level--) {
		uint64_t entry;
		int ret = entry_for(ram, table, level, gva, &entry, err);

		if (ret)
			return ret;
		if (!(entry & ENTRY_PRESENT))
			return error_set_at(err, EFAULT, gva, "not mapped (level %u)", level);
		all &= entry;
		any |= entry;
		if (level == 1 || (level <= PUD_LEVEL && (entry & ENTRY_LARGE))) {
			out->writable = all & ENTRY_WRITABLE;
			out->user = all & ENTRY_USER;
			out->executable = !(any & ENTRY_NX);
			return finish(ram, entry, level, gva, out, err);
		}
		if (entry & ENTRY_LARGE)
			return error_set_at(err, EINVAL, gva, "a level %u entry cannot be a page",
					    level);
		table = entry & ENTRY_FRAME;
	}
	return error_set_at(err, EINVAL, gva, "a page walk has at least one level");
}

static int check_walk(unsigned int levels, uint64_t gva, struct error *err)
{
	if (levels != 4 && levels != 5)
		return error_set_at(err, EINVAL, gva, "%u page table levels", levels);
	if (!is_canonical(gva, levels))
		return error_set_at(err, EINVAL, gva, "not a canonical address");
	return 0;
}

int page_walk(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gva,
	      struct page_walk *out, struct error *err)
{
	struct ram ram = ram_of(guest);
	int ret = check_walk(levels, gva, err);

	*out = (struct page_walk){0};
	return ret ? ret : walk_levels(&ram, root & ENTRY_FRAME, levels, gva, out, err);
}

int page_walk_table(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gva,
		    unsigned int level, uint64_t *table, struct error *err)
{
	struct ram ram = ram_of(guest);
	int ret = check_walk(levels, gva, err);

	*table = root & ENTRY_FRAME;
	for (unsigned int at = levels; !ret && at > level; at--) {
		uint64_t entry;

		ret = entry_for(&ram, *table, at, gva, &entry, err);
		if (!ret && (!(entry & ENTRY_PRESENT) || (entry & ENTRY_LARGE)))
			ret = error_set_at(err, EFAULT, gva, "no page table below level %u", at);
		if (!ret)
			*table = entry & ENTRY_FRAME;
	}
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/guest/dump.h"
#include "introspect/guest/page-walk.h"
#include "tests/lib/tap.h"

enum {
	RAM = 64 << 20,
	PML5 = 0x1000,
	PML4 = 0x2000,
	PUD = 0x3000,
	PMD = 0x4000,
	PTE = 0x5000,
	P = 1,
	RW = 2,
	US = 4,
	PS = 0x80,
};
#define NX (1ull << 63)
#define GVA 0x00007f1234567abcull

static uint8_t *ram;
static struct dump_guest *dump;

static void set(uint64_t table, uint64_t gva, unsigned int level, uint64_t entry)
{
	memcpy(ram + table + ((gva >> (12 + 9 * (level - 1))) & 511) * 8, &entry, 8);
}

/* Tables for GVA, all permissions, to a 4 KiB page at 0x123000. */
static void build(void)
{
	memset(ram, 0, 0x10000);
	set(PML5, GVA, 5, PML4 | P | RW | US);
	set(PML4, GVA, 4, PUD | P | RW | US);
	set(PUD, GVA, 3, PMD | P | RW | US);
	set(PMD, GVA, 2, PTE | P | RW | US);
	set(PTE, GVA, 1, 0x123000 | P | RW | US);
}

static int walk(uint64_t root, unsigned int levels, uint64_t gva, struct page_walk *out)
{
	return page_walk(dump_guest(dump), root, levels, gva, out, NULL);
}

static void test_sizes(void)
{
	struct page_walk w;

	build();
	ok(!walk(PML4, 4, GVA, &w), "a walk of 4 levels finds a page of 4 KiB");
	is_u64(w.gpa, 0x123abc, "a page of 4 KiB gives the gpa");
	is_u64(w.page_size, 4096, "a page of 4 KiB gives its size");
	ok(!walk(PML5, 5, GVA, &w) && w.gpa == 0x123abc,
	   "a walk of 5 levels finds a page of 4 KiB");
	ok(!walk(PML4 | 0xfff | NX, 4, GVA, &w), "flags and PCID in CR3 are ignored");

	set(PMD, GVA, 2, 0x600000 | P | RW | US | PS);
	ok(!walk(PML4, 4, GVA, &w), "a walk finds a page of 2 MiB");
	is_u64(w.gpa, 0x600000 + (GVA & 0x1fffff), "a page of 2 MiB gives the gpa");
	is_u64(w.page_size, 2 << 20, "a page of 2 MiB gives its size");
	set(PMD, GVA, 2, 0x600000 | 1 << 12 | P | PS);
	ok(!walk(PML4, 4, GVA, &w) && w.gpa == 0x600000 + (GVA & 0x1fffff),
	   "bit 12 of a 2 MiB entry is PAT, no address bit");

	set(PUD, GVA, 3, 0 | P | RW | US | PS);
	ok(walk(PML4, 4, GVA, &w) == -ERANGE,
	   "an address in a page of 1 GiB beyond RAM is refused");
	ok(!walk(PML4, 4, (GVA & ~0x3fffffffull) + 0x1234567, &w), "a walk finds a page of 1 GiB");
	is_u64(w.gpa, 0x1234567, "a page of 1 GiB gives the gpa");
	is_u64(w.page_size, 1 << 30, "a page of 1 GiB gives its size");
}

static void test_permissions(void)
{
	static const uint64_t tables[] = {0, PTE, PMD, PUD, PML4, PML5};
	static const uint64_t next[] = {0, 0x123000, PTE, PMD, PUD, PML4};
	struct page_walk w;

	build();
	ok(!walk(PML5, 5, GVA, &w) && w.writable && w.user && w.executable,
	   "with all bits set, everything is allowed");
	for (unsigned int level = 1; level <= 5; level++) {
		build();
		set(tables[level], GVA, level, next[level] | P | US);
		ok(!walk(PML5, 5, GVA, &w) && !w.writable && w.user && w.executable,
		   "a read-only entry of level %u makes the page read-only", level);
		set(tables[level], GVA, level, next[level] | P | RW);
		ok(!walk(PML5, 5, GVA, &w) && w.writable && !w.user && w.executable,
		   "a supervisor entry of level %u makes the page the kernel's", level);
		set(tables[level], GVA, level, next[level] | P | RW | US | NX);
		ok(!walk(PML5, 5, GVA, &w) && w.writable && w.user && !w.executable,
		   "an NX entry of level %u makes the page not executable", level);
		set(tables[level], GVA, level, next[level] | RW | US);
		ok(walk(PML5, 5, GVA, &w) == -EFAULT, "an absent entry of level %u ends the walk",
		   level);
	}
}

static void test_invalid(void)
{
	struct error err = {0};
	struct page_walk w;

	build();
	ok(walk(PML4, 4, 0x0000800000000000ull, &w) == -EINVAL,
	   "with 4 levels a non-canonical address is refused");
	ok(walk(PML4, 4, 0xffff7fffffffffffull, &w) == -EINVAL,
	   "a non-canonical address in the upper half is refused");
	ok(walk(PML5, 5, 0x0000800000000000ull, &w) == -EFAULT,
	   "with 5 levels that address is canonical");
	ok(walk(PML5, 5, 0x0100000000000000ull, &w) == -EINVAL,
	   "with 5 levels a non-canonical address is refused");
	ok(walk(PML4, 3, GVA, &w) == -EINVAL && walk(PML4, 6, GVA, &w) == -EINVAL,
	   "3 or 6 levels are refused");
	set(PMD, GVA, 2, 0x602000 | P | PS);
	ok(walk(PML4, 4, GVA, &w) == -EINVAL, "reserved bits in a 2 MiB entry are refused");
	set(PUD, GVA, 3, 0x200000 | P | PS);
	ok(walk(PML4, 4, GVA, &w) == -EINVAL, "reserved bits in a 1 GiB entry are refused");
	build();
	set(PML4, GVA, 4, P | PS);
	ok(walk(PML4, 4, GVA, &w) == -EINVAL, "a page entry in the PML4 is refused");
	build();
	set(PML5, GVA, 5, PML4 | P | PS);
	ok(page_walk(dump_guest(dump), PML5, 5, GVA, &w, &err) == -EINVAL,
	   "a page entry in the PML5 is refused");
	ok(err.has_address && err.address == GVA, "the error has the address that was walked");
}

static void test_hostile(void)
{
	struct page_walk w;

	build();
	for (unsigned int level = 2; level <= 5; level++)
		set(PML5, GVA, level, PML5 | P | RW | US);
	set(PML5, GVA, 1, PML5 | P);
	ok(!walk(PML5, 5, GVA, &w) && w.gpa == PML5 + (GVA & 0xfff),
	   "a walk through a table that maps itself ends");
	build();
	set(PMD, GVA, 2, RAM | P);
	ok(walk(PML4, 4, GVA, &w) == -ERANGE, "a page table after RAM is refused");
	set(PMD, GVA, 2, 0x000ffffffffff000ull | P);
	ok(walk(PML4, 4, GVA, &w) == -ERANGE,
	   "a page table at the end of the address space is refused");
	ok(walk(0x000ffffffffff000ull, 4, GVA, &w) == -ERANGE,
	   "a top table outside RAM is refused");
	build();
	set(PTE, GVA, 1, (uint64_t)RAM | P);
	ok(walk(PML4, 4, GVA, &w) == -ERANGE, "a page after RAM is refused");
	set(PTE, GVA, 1, (uint64_t)(RAM - 4096) | P);
	ok(!walk(PML4, 4, GVA, &w) && w.gpa == RAM - 4096 + (GVA & 0xfff),
	   "the last page of RAM is found");
}

static void test_tables(void)
{
	static const uint64_t tables[] = {0, PTE, PMD, PUD, PML4, PML5};
	struct guest *guest = dump_guest(dump);
	uint64_t table;

	build();
	for (unsigned int level = 1; level <= 5; level++)
		ok(!page_walk_table(guest, PML5 | 0xfff, 5, GVA, level, &table, NULL) &&
			   table == tables[level],
		   "the table of level %u is found", level);
	ok(page_walk_table(guest, PML4, 3, GVA, 1, &table, NULL) == -EINVAL,
	   "the table of a walk of 3 levels is refused");
	set(PMD, GVA, 2, 0x600000 | P | PS);
	ok(page_walk_table(guest, PML4, 4, GVA, 1, &table, NULL) == -EFAULT,
	   "there is no table below a large page");
	ok(!page_walk_table(guest, PML4, 4, GVA, 2, &table, NULL) && table == PMD,
	   "the table that holds a large page is found");
	set(PMD, GVA, 2, PTE);
	ok(page_walk_table(guest, PML4, 4, GVA, 1, &table, NULL) == -EFAULT,
	   "there is no table below an absent entry");
	set(PUD, GVA, 3, RAM | P);
	ok(page_walk_table(guest, PML4, 4, GVA, 1, &table, NULL) == -ERANGE,
	   "a table outside RAM is refused");
}

static void run(enum dump_access access)
{
	if (dump_guest_create(1, &dump, NULL) ||
	    dump_guest_add_buffer(dump, 0, ram, RAM, access, NULL)) {
		ok(false, "a dump guest is created");
		return;
	}
	test_sizes();
	test_permissions();
	test_invalid();
	test_hostile();
	test_tables();
	dump_guest_destroy(dump);
}

int main(void)
{
	ram = calloc(1, RAM);
	if (!ram)
		return tap_skip_all("out of memory");
	run(DUMP_MAPPED);
	run(DUMP_UNMAPPED);
	free(ram);
	return tap_done();
}

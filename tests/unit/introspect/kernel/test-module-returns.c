/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The return slots of modules: whose list is found, where it ends, and lists that are damaged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "introspect/kernel/module-list.h"
#include "tests/lib/fake-sections.h"
#include "tests/lib/tap.h"

#define TEXT (FAKE_LINK_TEXT + FAKE_SLIDE)
#define MODULE_TEXT 0xffffffffc0100000ull
#define LIST_GVA (TEXT + LIST)

enum {
	LIST = 0x18000, /* in the image: data that is mapped */
	MODULE_GPA = FAKE_HEAP_GPA,
	KALLSYMS_GPA = FAKE_HEAP_GPA + 0x1000,
	SECTIONS_GPA = FAKE_HEAP_GPA + 0x2000,
	TABLE_GPA = FAKE_HEAP_GPA + 0x10000,
	TEXT_BYTES = 0x2000,
	SECONDS = 60, /* for what takes far less than one */
};

static struct fake_kernel fake;
static enum fake_flavour flavour;

static void put_list(const uint64_t *slots, size_t n)
{
	fake_put_return_sites(&fake, FAKE_PHYS_TEXT + LIST, LIST_GVA, slots, n);
}

/* A module whose text begins at MODULE_TEXT. */
static void plant_module(void)
{
	static const struct fake_section sections[] = {{".text", MODULE_TEXT},
						       {".return_sites.more", TEXT + 0x100},
						       {".return_sites", LIST_GVA},
						       {".orc_unwind", LIST_GVA + 12},
						       {NULL, 0}};

	memset(fake.ram + MODULE_GPA, 0, 0x1000);
	fake_put_module(&fake, MODULE_GPA, "mod", MODULE_TEXT, TEXT_BYTES, KALLSYMS_GPA);
	fake_put_sections(&fake, flavour, MODULE_GPA, SECTIONS_GPA, sections);
}

static bool finds_if(const uint64_t *expected, size_t nr_expected, bool complete)
{
	struct module_returns found;
	int ret = module_returns_read(&fake.kernel, &found, NULL);
	const bool same = !ret && found.slots.n == nr_expected && found.complete == complete &&
			  (!found.slots.n || !memcmp(found.slots.v, expected,
						     found.slots.n * sizeof(*found.slots.v)));

	if (!same)
		tap_diag("%zu slots, the first at %llx", found.slots.n,
			 found.slots.n ? (unsigned long long)*found.slots.v : 0);
	address_list_deinit(&found.slots);
	return same;
}

static bool finds(const uint64_t *expected, size_t nr_expected)
{
	return finds_if(expected, nr_expected, true);
}

/* Zeros fill its page, behind which nothing is mapped, nor another section lies. */
static void plant_last_list(const uint64_t *slots, size_t n)
{
	const uint64_t offset = FAKE_IMAGE_SIZE - 32, gva = TEXT + offset;
	const struct fake_section sections[] = {{".return_sites", gva}, {NULL, 0}};

	plant_module();
	fake_put_sections(&fake, flavour, MODULE_GPA, SECTIONS_GPA, sections);
	fake_put_return_sites(&fake, FAKE_PHYS_TEXT + offset, gva, slots, n);
}

/* A guest with millions of slots. */
static void test_budget(const char *kind)
{
	const uint64_t slots[] = {MODULE_TEXT + 0x10, MODULE_TEXT + 0x20};
	struct module_returns found;
	struct budget budget;

	plant_module();
	put_list(slots, 2);
	fake.kernel.guest->budget = &budget;
	budget_init(&budget, 64);
	ok(module_returns_read(&fake.kernel, &found, NULL) == -ENOMEM && budget.refused &&
		   !budget.used,
	   "%s: slots that do not fit into the guest's budget are refused", kind);
	budget_init(&budget, 64 << 10);
	ok(!module_returns_read(&fake.kernel, &found, NULL) && budget.used,
	   "%s: others are part of it", kind);
	address_list_deinit(&found.slots);
	is_u64(budget.used, 0, "and given back");
	fake.kernel.guest->budget = NULL;
}

static void test_list(const char *kind)
{
	const uint64_t slots[] = {MODULE_TEXT + 0x20, MODULE_TEXT + 0x10, MODULE_TEXT + 0x20,
				  MODULE_TEXT + 0x40};
	const uint64_t sorted[] = {MODULE_TEXT + 0x10, MODULE_TEXT + 0x20};
	const uint64_t outside[] = {MODULE_TEXT + TEXT_BYTES, MODULE_TEXT + 0x10};

	plant_module();
	put_list(slots, 4);
	ok(finds(sorted, 2), "%s: the slots up to the next section, sorted, each once", kind);
	put_list(slots, 1);
	ok(finds(slots, 1), "%s: a list ends with a zero", kind);
	put_list(outside, 2);
	ok(finds(sorted, 1), "%s: a slot outside of the module's text is none", kind);
	fake_put64(&fake, FAKE_PHYS_TEXT + FAKE_MODULES, TEXT + FAKE_MODULES);
	ok(finds(NULL, 0), "%s: without modules there are none", kind);
	plant_last_list(slots, 1);
	ok(finds(slots, 1), "%s: a list in the last page that is mapped", kind);
}

/* None of these may hang, or fail. */
static void test_damage(const char *kind)
{
	static const struct {
		const char *what;
		uint64_t gpa, value;
		bool incomplete;
	} damages[] = {
		{"no list of sections yet", MODULE_GPA + FAKE_SECT_ATTRS, 0, true},
		{"a list of sections outside of RAM", MODULE_GPA + FAKE_SECT_ATTRS,
		 FAKE_PAGE_OFFSET + FAKE_RAM - 8, true},
		{"sections that lie nowhere", SECTIONS_GPA + 32, 0x1000, false},
		{"a module that cannot be read", MODULE_GPA + FAKE_MODULE_KALLSYMS, 0x10, false},
		{"a list of modules that leads nowhere", FAKE_PHYS_TEXT + FAKE_MODULES, 0x1000,
		 false},
	};
	const uint64_t slot = MODULE_TEXT + 0x10;

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		plant_module();
		put_list(&slot, 1);
		fake_put64(&fake, damages[i].gpa, damages[i].value);
		ok(finds_if(NULL, 0, !damages[i].incomplete), "%s: %s: no slots", kind,
		   damages[i].what);
	}
}

/* A table of page tables that is each of its own entries: 512 GiB of memory without a zero. */
static void test_endless(const char *kind)
{
	const uint64_t region = 0xffffb00000000000, slot = MODULE_TEXT + 0x10;
	const uint64_t entry =
		UINT64_C(1) << 63 | TABLE_GPA | 3; /* no execution, writable, present */
	const struct fake_section sections[] = {{".return_sites", region}, {NULL, 0}};

	plant_module();
	put_list(&slot, 1);
	for (uint32_t i = 0; i < 512; i++)
		fake_put64(&fake, TABLE_GPA + 8 * i, entry);
	fake_put64(&fake, FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT + 8 * (region >> 39 & 511), entry);
	fake_put_sections(&fake, flavour, MODULE_GPA, SECTIONS_GPA, sections);
	alarm(SECONDS);
	ok(finds(NULL, 0), "%s: a list without an end is not read to its end", kind);
	alarm(0);
}

static void test_flavour(enum fake_flavour of, const char *kind)
{
	flavour = of;
	if (fake_kernel_create(&fake, of, 4))
		abort();
	test_list(kind);
	test_budget(kind);
	test_damage(kind);
	test_endless(kind);
	fake_kernel_destroy(&fake);
}

int main(void)
{
	test_flavour(FAKE_5_10, "struct module_sect_attr");
	test_flavour(FAKE_6_12, "struct bin_attribute");
	return tap_done();
}

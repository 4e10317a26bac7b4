/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ORC tables of modules: which are read, which stay, and tables that are none; and chains that lead
 * through a module. */
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/module-orc.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

#define TEXT (FAKE_LINK_TEXT + FAKE_SLIDE)
#define MODULE_TEXT UINT64_C(0xffffffffc0100000)
#define OTHER_TEXT UINT64_C(0xffffffffc0200000)
#define STACK fake_direct(FAKE_HEAP_GPA + 0x8000)

enum {
	MODULE_GPA = FAKE_HEAP_GPA,
	KALLSYMS_GPA = FAKE_HEAP_GPA + 0x1000,
	/* in the image: data that is mapped, and not too far from the module */
	IPS = 0x18000,
	ENTRIES = 0x18100,
	TEXT_BYTES = 0x2000,
	NR_ORC = 3,
};

static struct fake_kernel fake;
static struct module_orcs *orcs;
static enum fake_flavour flavour;

/* Where functions begin, by their distance from the module's text. */
static void put_ips(uint64_t text, const int32_t *starts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t at = TEXT + IPS + i * 4;

		fake_put32(&fake, FAKE_PHYS_TEXT + IPS + i * 4,
			   (uint32_t)(text + (uint64_t)starts[i] - at));
	}
}

static void put_entries(void)
{
	static const int16_t frames[NR_ORC] = {8, 24, 16};
	const uint16_t flags = (uint16_t)(5 | (flavour == FAKE_5_10 ? 0 : 2) << 8);

	for (size_t i = 0; i < NR_ORC; i++) {
		uint8_t *entry = fake.ram + FAKE_PHYS_TEXT + ENTRIES + i * 6;

		memset(entry, 0, 6);
		memcpy(entry, &frames[i], sizeof(frames[i]));
		memcpy(entry + 4, &flags, sizeof(flags));
	}
}

static void load(const char *name, uint64_t text)
{
	static const int32_t starts[NR_ORC] = {0, 0x100, 0x200};

	memset(fake.ram + MODULE_GPA, 0, 0x1000);
	fake_put_module(&fake, MODULE_GPA, name, text, TEXT_BYTES, KALLSYMS_GPA);
	fake_put32(&fake, MODULE_GPA + FAKE_MODULE_ARCH, NR_ORC);
	fake_put64(&fake, MODULE_GPA + FAKE_MODULE_ARCH + 8, TEXT + IPS);
	fake_put64(&fake, MODULE_GPA + FAKE_MODULE_ARCH + 16, TEXT + ENTRIES);
	put_ips(text, starts, NR_ORC);
	put_entries();
}

static void unload(void)
{
	fake_put64(&fake, FAKE_PHYS_TEXT + FAKE_MODULES, TEXT + FAKE_MODULES);
}

static void begin(struct budget *budget)
{
	if (module_orcs_create(budget, &orcs, NULL))
		abort();
	module_orcs_want(orcs);
}

/* The frame of the function at a gva; 0: no table covers it. */
static int frame_at(uint64_t gva)
{
	struct orc_entry entry;

	return module_orcs_find(orcs, gva, &entry) ? entry.sp_offset : 0;
}

static void test_life(const char *kind)
{
	if (module_orcs_create(NULL, &orcs, NULL))
		abort();
	load("one", MODULE_TEXT);
	frame_at(MODULE_TEXT);
	ok(!module_orcs_are_due(orcs), "%s: tables that nobody wants are not due", kind);
	module_orcs_want(orcs);
	ok(module_orcs_are_due(orcs) && module_orcs_are_wanted(orcs), "%s: wanted, they are", kind);
	module_orcs_update(orcs, &fake.kernel);
	ok(!module_orcs_are_due(orcs) && frame_at(MODULE_TEXT + 0xff) == 8 &&
		   frame_at(MODULE_TEXT + 0x100) == 24 &&
		   frame_at(MODULE_TEXT + TEXT_BYTES - 1) == 16,
	   "%s: each instruction of a module has its entry", kind);
	ok(!module_orcs_are_due(orcs) && !frame_at(MODULE_TEXT + TEXT_BYTES) &&
		   module_orcs_are_due(orcs),
	   "%s: behind the module is none, which makes tables due", kind);
	unload();
	module_orcs_update(orcs, &fake.kernel);
	ok(frame_at(MODULE_TEXT + 0x100) == 24, "%s: those of a module that is gone stay", kind);
	load("two", OTHER_TEXT);
	module_orcs_update(orcs, &fake.kernel);
	ok(frame_at(MODULE_TEXT + 0x100) == 24 && frame_at(OTHER_TEXT + 0x100) == 24,
	   "%s: beside those of another one", kind);
	load("three", MODULE_TEXT + 0x1000);
	module_orcs_update(orcs, &fake.kernel);
	ok(!frame_at(MODULE_TEXT + 0x100) && frame_at(MODULE_TEXT + 0x1100) == 24,
	   "%s: until a module is in their place", kind);
	module_orcs_destroy(orcs);
}

/* Each leaves the module without tables. */
static void test_damage(const char *kind)
{
	static const int32_t descending[NR_ORC] = {0, 0x200, 0x100};
	static const struct {
		const char *what;
		uint64_t gpa, value;
	} damages[] = {
		{"no entries", MODULE_GPA + FAKE_MODULE_ARCH, 0},
		{"more entries than there can be", MODULE_GPA + FAKE_MODULE_ARCH, UINT32_MAX},
		{"addresses that are not mapped", MODULE_GPA + FAKE_MODULE_ARCH + 8, 0x1000},
		{"entries that are not mapped", MODULE_GPA + FAKE_MODULE_ARCH + 16, 0x1000},
	};

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		begin(NULL);
		load("bad", MODULE_TEXT);
		fake_put64(&fake, damages[i].gpa, damages[i].value);
		module_orcs_update(orcs, &fake.kernel);
		ok(!frame_at(MODULE_TEXT), "%s: %s", kind, damages[i].what);
		module_orcs_destroy(orcs);
	}
	begin(NULL);
	load("bad", MODULE_TEXT);
	put_ips(MODULE_TEXT, descending, NR_ORC);
	module_orcs_update(orcs, &fake.kernel);
	ok(!frame_at(MODULE_TEXT), "%s: addresses that do not ascend", kind);
	module_orcs_destroy(orcs);
}

static void test_budget(const char *kind)
{
	struct budget budget;

	budget_init(&budget, 8);
	begin(&budget);
	load("one", MODULE_TEXT);
	module_orcs_update(orcs, &fake.kernel);
	ok(!frame_at(MODULE_TEXT), "%s: beyond the budget there are none", kind);
	module_orcs_destroy(orcs);
	budget_init(&budget, BUDGET_OF_A_GUEST);
	begin(&budget);
	for (int i = 0; i < 3; i++) {
		load(i & 1 ? "one" : "two", MODULE_TEXT);
		module_orcs_update(orcs, &fake.kernel);
	}
	ok(frame_at(MODULE_TEXT) == 8, "%s: within it there are", kind);
	module_orcs_destroy(orcs);
	ok(budget.used == 0, "%s: what was taken is given back", kind);
}

/* Out of the kernel, through a module, into the kernel. */
static void test_chain(const char *kind)
{
	const uint64_t words[] = {TEXT + 0x123, MODULE_TEXT + 0x123, 0, 0, TEXT + 0x456, 0};
	const struct stack_slice slice = {.sp = STACK, .words = words, .n = 6};
	struct orc_text text = {.table = &fake.kernel.known.orc,
				.start = fake.image.text,
				.end = fake.image.end,
				.slide = fake.kernel.virt_slide};
	uint64_t frames[8];
	size_t n;

	begin(NULL);
	load("one", MODULE_TEXT);
	module_orcs_update(orcs, &fake.kernel);
	ok(!stack_unwind(&text, &slice, frames, 8, &n) && n == 2,
	   "%s: without the module's tables a chain is cut behind it", kind);
	text.find_other = module_orcs_find;
	text.other = orcs;
	stack_unwind(&text, &slice, frames, 8, &n);
	ok(n == 3 && frames[1] == MODULE_TEXT + 0x123 && frames[2] == TEXT + 0x456,
	   "%s: with them it leads through the module", kind);
	module_orcs_destroy(orcs);
}

static void test_flavour(enum fake_flavour of, const char *kind)
{
	flavour = of;
	if (fake_kernel_create(&fake, of, 4))
		abort();
	test_life(kind);
	test_damage(kind);
	test_budget(kind);
	test_chain(kind);
	fake_kernel_destroy(&fake);
}

int main(void)
{
	test_flavour(FAKE_5_10, "5.10");
	test_flavour(FAKE_6_12, "6.12");
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patch sets in a fake guest: made and taken back as a whole, or not at all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-int3.h"
#include "tests/lib/fake-patches.h"
#include "tests/lib/tap.h"

enum { NR = 3, AT = 0x1000, APART = 0x100, SIZE = SITE_SIZE };

static struct fake_guest fg;
static struct patch_set set;
static uint8_t before[0x2000];

/* A fresh guest with three sites, and a set for them. */
static void setup(void)
{
	if (fake_guest_create(&fg))
		abort();
	for (uint64_t i = 0; i < NR; i++)
		fake_patch_put(&fg, &set, AT + i * APART);
	memcpy(before, fake_text(&fg, 0), sizeof(before));
}

static void teardown(void)
{
	patch_set_deinit(&set);
	fake_guest_destroy(&fg);
}

static bool untouched(void)
{
	return !memcmp(before, fake_text(&fg, 0), sizeof(before));
}

static uint64_t count_patched(void)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < NR; i++)
		n += fake_patch_is(&fg, AT + i * APART, fake_patch_new);
	return n;
}

static void test_apply_and_revert(void)
{
	struct patch_outcome outcome = {0}, none = {0};

	setup();
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && set.applied, "a set is applied");
	is_u64(count_patched(), NR, "an applied set has all its patches written");
	ok(fg.stops == 1 && !fg.stopped, "applying stops the guest once, and lets it run again");
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && fg.stops == 1,
	   "applying an applied set does nothing");
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL) && !set.applied,
	   "a set is reverted");
	ok(untouched(), "after a revert the text is what it was, byte for byte");
	is_u64(outcome.restored, NR, "a revert counts what it restored");
	ok(fg.stops == 2 && !fg.stopped, "reverting stops the guest once");
	ok(!patch_set_revert(&set, &fg.kernel, &none, NULL) && !none.restored && fg.stops == 2,
	   "reverting a set that is not applied does nothing");
	teardown();
}

static void test_mismatch(void)
{
	for (uint64_t i = 0; i < NR; i++) {
		struct error err = {0};

		setup();
		fake_text(&fg, AT + i * APART)[SIZE - 1] ^= 1;
		memcpy(before, fake_text(&fg, 0), sizeof(before));
		ok(patch_set_apply(&set, &fg.kernel, &err) == -ESTALE && !set.applied,
		   "a set whose patch %d has other old bytes is refused", (int)i);
		ok(err.address == fake_gva(AT + i * APART),
		   "the refusal has the address of patch %d", (int)i);
		is_u64(fg.writes, 0, "a refused set is not written in part");
		ok(untouched() && !fg.stopped, "after a refusal the guest runs");
		teardown();
	}
}

static void test_rip(void)
{
	static const struct {
		uint64_t rip;
		int ret;
	} rows[] = {{AT, 0},
		    {AT + 1, -EBUSY},
		    {AT + 2, -EBUSY},
		    {AT + SIZE - 1, -EBUSY},
		    {AT + SIZE, 0},
		    {AT - 1, 0},
		    {AT + 2 * APART + 2, -EBUSY}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = {0};

		setup();
		fg.vcpus[FAKE_VCPUS - 1].regs.rip = fake_gva(rows[i].rip);
		ok(patch_set_apply(&set, &fg.kernel, &err) == rows[i].ret,
		   "a vCPU at text+%#x: the set is %s", (unsigned int)rows[i].rip,
		   rows[i].ret ? "refused" : "applied");
		ok(rows[i].ret ? untouched() && err.address == fake_gva(rows[i].rip)
			       : count_patched() == NR,
		   "text+%#x: the text is %s", (unsigned int)rows[i].rip,
		   rows[i].ret ? "untouched" : "patched");
		ok(!fg.stopped, "text+%#x: the guest runs afterwards", (unsigned int)rows[i].rip);
		teardown();
	}
}

/* The third time the guest is stopped, the vCPU has left. */
static void leave_at_third_stop(struct fake_guest *guest)
{
	if (guest->stops == 3)
		guest->vcpus[1].regs.rip = fake_gva(0);
}

static void test_rip_leaves(void)
{
	setup();
	fg.vcpus[1].regs.rip = fake_gva(AT + 2);
	fg.on_stop = leave_at_third_stop;
	ok(!patch_set_apply(&set, &fg.kernel, NULL),
	   "a vCPU inside a patch is given time to leave");
	is_u64(fg.stops, 3, "the guest is stopped again until the vCPU has left");
	fg.on_stop = NULL;
	fg.vcpus[1].regs.rip = fake_gva(AT + 2);
	ok(patch_set_revert(&set, &fg.kernel, NULL, NULL) == -EBUSY && set.applied &&
		   count_patched() == NR,
	   "a patch is not taken away below a vCPU");
	fg.vcpus[1].regs.rip = fake_gva(AT);
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(),
	   "a patch is taken away when the vCPU has left it");
	teardown();
}

static void test_write_failures(void)
{
	for (uint64_t i = 0; i < NR; i++) {
		uint64_t gpa = FAKE_PHYS_TEXT + AT + i * APART;
		struct error err = {0};

		setup();
		fg.ignored_gpa = gpa + 1;
		ok(patch_set_apply(&set, &fg.kernel, &err) == -EIO && !set.applied,
		   "a set whose patch %d does not read back is not applied", (int)i);
		is_u64(err.address, fake_gva(AT + i * APART),
		       "the error has the address of the patch that does not read back");
		ok(untouched() && !fg.stopped, "all patches written before are put back");
		fg.ignored_gpa = 0;
		fg.failing_gpa = gpa;
		ok(patch_set_apply(&set, &fg.kernel, NULL) == -EIO && !set.applied && untouched(),
		   "a set whose write %d fails leaves the text untouched", (int)i);
		teardown();
	}
}

static void test_unmapped(bool mapped)
{
	struct patch p = fake_patch_at(AT);
	struct error err = {0};
	uint8_t *hva;

	setup();
	hva = fg.regions[0].hva;
	fg.regions[0].hva = mapped ? fg.base.ram : NULL;
	p.gva = 0xffffffffc0000000ull;
	ok(!patch_set_add(&set, &p, NULL) && patch_set_apply(&set, &fg.kernel, &err) == -EFAULT &&
		   untouched(),
	   "a patch where nothing is mapped is refused, memory %s",
	   mapped ? "mapped" : "not mapped");
	fg.regions[0].hva = hva;
	teardown();
}

static void test_outcomes(void)
{
	struct patch_outcome outcome = {0};

	setup();
	patch_set_apply(&set, &fg.kernel, NULL);
	memcpy(fake_text(&fg, AT), fake_patch_old, SIZE);
	memcpy(fake_text(&fg, AT + APART), fake_patch_theirs, SIZE);
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL),
	   "a set of which the guest changed patches is reverted");
	is_u64(outcome.restored, 1, "the patch that the guest left alone is restored");
	is_u64(outcome.unchanged, 1,
	       "a patch that has its old bytes already is counted as unchanged");
	is_u64(outcome.foreign, 1, "a patch with other bytes is counted as foreign");
	is_u64(outcome.first_foreign, fake_gva(AT + APART),
	       "the outcome has the first foreign address");
	ok(fake_patch_is(&fg, AT + APART, fake_patch_theirs), "foreign bytes are left alone");
	memcpy(fake_text(&fg, AT + APART), fake_patch_old, SIZE);
	ok(untouched(), "a revert changes nothing besides the patches");
	teardown();
}

static void test_revert_failure(void)
{
	struct patch_outcome outcome = {0};

	setup();
	patch_set_apply(&set, &fg.kernel, NULL);
	fg.failing_gpa = FAKE_PHYS_TEXT + AT;
	ok(patch_set_revert(&set, &fg.kernel, &outcome, NULL) == -EIO &&
		   outcome.restored == NR - 1 && outcome.failed == 1,
	   "if one patch cannot be restored, the others are");
	fg.failing_gpa = 0;
	ok(set.applied && !patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(),
	   "a second revert restores what the first one could not");
	teardown();
}

/* Of patches that are breakpoints: they are in QEMU, and the text has the guest's own bytes. */
static void test_breaks(void)
{
	struct patch_outcome outcome = {0}, second = {0};
	struct error err = {0};

	setup();
	fg.guest.caps |= GUEST_CAP_BREAK;
	for (size_t i = 0; i < NR; i++)
		set.v[i].trap = true;
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && untouched() &&
		   fake_breaks_count(&fg.breaks) == NR,
	   "breakpoints are set, and the text stays as it is");
	fg.failing_break = fake_gva(AT);
	ok(patch_set_revert(&set, &fg.kernel, &outcome, &err) == -EIO && set.applied &&
		   err.address == fake_gva(AT) && !outcome.restored,
	   "a breakpoint that cannot be removed is an error: %s", err.text);
	ok(fake_breaks_count(&fg.breaks) == 1, "the others are removed nevertheless");
	fg.failing_break = 0;
	memcpy(fake_text(&fg, AT + APART), fake_patch_theirs, SIZE);
	ok(!patch_set_revert(&set, &fg.kernel, &second, NULL) && !fake_breaks_count(&fg.breaks) &&
		   fake_patch_is(&fg, AT + APART, fake_patch_theirs),
	   "a second revert removes it, and writes nothing");
	ok(second.restored == NR - 1 && second.foreign == 1 &&
		   second.first_foreign == fake_gva(AT + APART),
	   "text that the guest has changed under a breakpoint is counted");
	teardown();
}

/* The text cannot be read: of a module that is gone, or by a failure. */
static void test_unreadable(bool transient)
{
	struct patch_outcome outcome = {0};
	int ret;

	setup();
	for (size_t i = 0; i < NR; i++)
		set.v[i].transient = transient;
	patch_set_apply(&set, &fg.kernel, NULL);
	fg.missing_gpa = FAKE_PHYS_TEXT + AT;
	ret = patch_set_revert(&set, &fg.kernel, &outcome, NULL);
	if (transient)
		ok(!ret && !set.applied && outcome.unchanged == NR && !outcome.failed,
		   "patches of text that is gone are done with");
	else
		ok(ret == -EFAULT && set.applied && outcome.failed == NR && !outcome.unchanged,
		   "patches of text that cannot be read are still there");
	ok(count_patched() == NR, "nothing is written where nothing can be read");
	teardown();
}

static int sorted_with(struct patch p, struct error *err)
{
	int ret;

	setup();
	ret = patch_set_add(&set, &p, NULL);
	if (!ret)
		ret = patch_set_sort(&set, err);
	return ret;
}

static void test_add(void)
{
	struct patch p = fake_patch_at(AT);
	struct error err = {0};

	ok(!sorted_with(p, NULL) && set.n == NR, "the same patch twice is one");
	teardown();
	p.new_bytes[2] = 0x90;
	ok(sorted_with(p, NULL) == -EBUSY, "the same place with other bytes is refused");
	teardown();
	p = fake_patch_at(AT + SIZE - 1);
	ok(sorted_with(p, &err) == -EBUSY && err.address == p.gva,
	   "a patch that overlaps another one's end is refused");
	teardown();
	ok(sorted_with(fake_patch_at(AT - SIZE + 1), NULL) == -EBUSY,
	   "a patch that overlaps another one's begin is refused");
	ok(patch_set_apply(&set, &fg.kernel, NULL) == -EBUSY && !fg.stops,
	   "a set with an overlap is not applied");
	teardown();
	ok(!sorted_with(fake_patch_at(AT + SIZE), NULL) && set.n == NR + 1,
	   "a patch right behind another one is no overlap");
	p.size = 0;
	ok(patch_set_add(&set, &p, NULL) == -EINVAL, "a patch without bytes is refused");
	p.size = PATCH_MAX_SIZE + 1;
	ok(patch_set_add(&set, &p, NULL) == -EINVAL, "a patch of too many bytes is refused");
	teardown();
}

static void test_find(void)
{
	setup();
	patch_set_sort(&set, NULL);
	is_u64(patch_set_find(&set, fake_gva(0)), 0, "the first patch is behind all before it");
	is_u64(patch_set_find(&set, fake_gva(AT + SIZE - 1)), 0, "a patch holds its last byte");
	is_u64(patch_set_find(&set, fake_gva(AT + SIZE)), 1, "behind a patch comes the next one");
	is_u64(patch_set_find(&set, fake_gva(AT + NR * APART)), NR, "no patch is behind the last");
	teardown();
}

/* In any order, next to each other, and across the ends of pages. */
static void fill(unsigned int n, uint64_t apart)
{
	if (fake_guest_create(&fg))
		abort();
	for (uint64_t i = 0; i < n; i++)
		fake_patch_put(&fg, &set, AT + i * 7919 % n * apart);
	memcpy(before, fake_text(&fg, 0), sizeof(before));
}

static void test_pages(bool mapped)
{
	enum { MANY = 1000, PAGES = MANY * SIZE / 4096 + 1, ACROSS = MANY * SIZE / 4096 };
	const char *how = mapped ? "mapped" : "not mapped";
	uint8_t *hva;

	fill(MANY, SIZE);
	hva = fg.regions[0].hva;
	fg.regions[0].hva = mapped ? fg.base.ram : NULL;
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && !untouched() && fg.stops == 1,
	   "a thousand patches are applied, memory %s", how);
	ok(fg.reads <= 2 * (PAGES + 3 * ACROSS), "their bytes are read page by page, memory %s",
	   how);
	ok(mapped ? !fg.writes : fg.writes >= MANY && fg.writes <= MANY + PAGES,
	   "a backend sees each patch as one write, memory %s", how);
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(),
	   "a thousand patches are reverted, memory %s", how);
	fg.regions[0].hva = hva;
	teardown();
}

/* Patches that are shorter or longer than a site: what stands behind them is left alone. */
static void test_sizes(bool mapped)
{
	for (uint8_t size = 1; size <= PATCH_MAX_SIZE; size++) {
		struct patch p = {.gva = fake_gva(AT), .size = size, .function = "fn"};
		uint8_t *hva;

		setup();
		patch_set_deinit(&set);
		hva = fg.regions[0].hva;
		fg.regions[0].hva = mapped ? fg.base.ram : NULL;
		memcpy(p.old_bytes, fake_text(&fg, AT), size);
		memset(p.new_bytes, 0xcc, size);
		memset(before + AT, 0xcc, size);
		ok(!patch_set_add(&set, &p, NULL) && !patch_set_apply(&set, &fg.kernel, NULL) &&
			   untouched(),
		   "a patch has its %d bytes and no others, memory %s", size,
		   mapped ? "mapped" : "not mapped");
		memcpy(before + AT, p.old_bytes, size);
		ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(),
		   "they are put back");
		fg.regions[0].hva = hva;
		teardown();
	}
}

/* A patch on two pages of a module, which lie apart in the guest's memory. */
static void test_across(void)
{
	enum { FIRST = 0xc03000, SECOND = 0xc01000, TABLES = 0xd00000, FRONT = 2, PAGE = 0x1000 };
	const uint64_t gva = 0xffffffffc0001000;
	struct fake_memory memory;
	uint64_t next = TABLES;
	struct patch p;
	uint8_t *ram, *hva;

	setup();
	patch_set_deinit(&set);
	ram = fg.base.ram;
	hva = fg.regions[0].hva;
	memory = (struct fake_memory){ram, FAKE_RAM};
	fake_map(&memory, FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT, gva - PAGE, FIRST, &next);
	fake_map(&memory, FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT, gva, SECOND, &next);
	memcpy(ram + FIRST + PAGE - FRONT, fake_patch_old, FRONT);
	memcpy(ram + SECOND, fake_patch_old + FRONT, SIZE - FRONT);
	p = fake_patch_at(0);
	p.gva = gva - FRONT;
	fg.regions[0].hva = ram;
	ok(!patch_set_add(&set, &p, NULL) && !patch_set_apply(&set, &fg.kernel, NULL) &&
		   !memcmp(ram + FIRST + PAGE - FRONT, fake_patch_new, FRONT) &&
		   !memcmp(ram + SECOND, fake_patch_new + FRONT, SIZE - FRONT),
	   "a patch on two pages is written into both of them");
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) &&
		   !memcmp(ram + FIRST + PAGE - FRONT, fake_patch_old, FRONT) &&
		   !memcmp(ram + SECOND, fake_patch_old + FRONT, SIZE - FRONT),
	   "and put back in both");
	ok(!ram[FIRST + PAGE] && !ram[FIRST + PAGE + 1] && !ram[FIRST + PAGE + 2],
	   "the page behind the first one is left alone");
	fg.regions[0].hva = hva;
	teardown();
}

/* What the guest writes between two patches meanwhile is not undone. */
static void test_between(void)
{
	setup();
	patch_set_apply(&set, &fg.kernel, NULL);
	fake_text(&fg, AT + SIZE)[0] ^= 0xff;
	patch_set_revert(&set, &fg.kernel, NULL, NULL);
	fake_text(&fg, AT + SIZE)[0] ^= 0xff;
	ok(untouched(), "bytes between patches are never written");
	teardown();
}

static void test_yield(void)
{
	struct patch_outcome outcome = {0};

	setup();
	patch_set_apply(&set, &fg.kernel, NULL);
	ok(!patch_set_yield(&set, 1, &fg.kernel, NULL) && count_patched() == NR - 1,
	   "a patch that is yielded gets its old bytes");
	memcpy(fake_text(&fg, AT + APART), fake_patch_theirs, SIZE);
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL) && outcome.restored == NR - 1 &&
		   !outcome.foreign && fake_patch_is(&fg, AT + APART, fake_patch_theirs),
	   "a revert passes a yielded patch over");
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && count_patched() == NR - 1,
	   "an apply passes a yielded patch over");
	teardown();
}

static int note_bytes(void *arg, struct patch *patch, const uint8_t *now, struct error *err)
{
	unsigned int *n = arg;

	(void)err;
	*n += now ? !memcmp(now, patch->old_bytes, SIZE) : 100;
	return *n == 200 ? -ECANCELED : 0;
}

static void test_read(void)
{
	struct patch p = fake_patch_at(AT);
	unsigned int n = 0;

	setup();
	p.gva = 0xffffffffc0000000ull;
	patch_set_add(&set, &p, NULL);
	patch_set_sort(&set, NULL);
	set.v[1].yielded = true;
	ok(!patch_set_read(&set, &fg.kernel, note_bytes, &n, NULL) && n == NR + 100,
	   "each patch's bytes are read, or known to be unreadable");
	n = 200 - 2;
	ok(patch_set_read(&set, &fg.kernel, note_bytes, &n, NULL) == -ECANCELED && n == 200,
	   "reading stops at the caller's first error");
	teardown();
}

static int write_place(void *arg, uint64_t address, const uint8_t *bytes, size_t size,
		       struct error *err)
{
	if (address != 0x1234)
		return error_set(err, EIO, "elsewhere");
	memcpy(arg, bytes, size);
	return 0;
}

static void test_place(void)
{
	static const uint8_t original[2] = {1, 2}, ours[6] = {3, 3, 4, 4, 5, 5};
	struct patch_place place = {0x1234, 2, original, ours, 3};
	struct patch_outcome outcome = {0};
	uint8_t now[2] = {5, 5};

	ok(!patch_place_restore(&place, now, write_place, now, &outcome, NULL) &&
		   !memcmp(now, original, 2) && outcome.restored == 1,
	   "a place with any of our bytes is restored");
	ok(!patch_place_restore(&place, now, write_place, now, &outcome, NULL) &&
		   outcome.unchanged == 1,
	   "a place with its original bytes is unchanged");
	now[0] = 9;
	ok(!patch_place_restore(&place, now, write_place, now, &outcome, NULL) && now[0] == 9 &&
		   outcome.foreign == 1 && outcome.first_foreign == 0x1234,
	   "a place with other bytes is foreign");
	place.address++;
	memcpy(now, ours, 2);
	ok(patch_place_restore(&place, now, write_place, now, &outcome, NULL) == -EIO &&
		   outcome.failed == 1,
	   "a place that cannot be written has failed");
}

/* Text that the guest frees with a patch in it. */
static void test_transient(void)
{
	struct patch_outcome outcome = {0};

	setup();
	for (size_t i = 0; i < NR; i++)
		set.v[i].transient = true;
	patch_set_apply(&set, &fg.kernel, NULL);
	memset(fake_text(&fg, AT), 0xcc, SIZE);
	memset(before + AT, 0xcc, SIZE);
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL) && untouched(),
	   "what stands in freed text is left alone");
	ok(outcome.restored == NR - 1 && outcome.unchanged == 1 && !outcome.foreign,
	   "and is not taken for a patch of another user");
	teardown();
}

int main(void)
{
	test_transient();
	test_apply_and_revert();
	test_mismatch();
	test_rip();
	test_rip_leaves();
	test_write_failures();
	test_unmapped(false);
	test_unmapped(true);
	test_outcomes();
	test_revert_failure();
	test_breaks();
	test_unreadable(true);
	test_unreadable(false);
	test_add();
	test_find();
	test_pages(false);
	test_pages(true);
	test_sizes(false);
	test_sizes(true);
	test_across();
	test_between();
	test_yield();
	test_read();
	test_place();
	return tap_done();
}

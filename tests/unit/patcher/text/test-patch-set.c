// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/patch-set.h"
#include "tests/lib/fake-guest.h"
#include "tests/lib/tap.h"

enum { NR = 3, AT = 0x1000, APART = 0x100, SIZE = 5 };

static const uint8_t old_bytes[SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static const uint8_t new_bytes[SIZE] = {0xe6, 0xe4, 0x0f, 0x1f, 0x00};

static struct fake_guest fg;
static struct patch_set set;
static uint8_t before[0x2000];

static struct patch patch_at(uint64_t offset)
{
	struct patch p = {.gva = fake_gva(offset), .size = SIZE, .function = "fn"};

	memcpy(p.old_bytes, old_bytes, SIZE);
	memcpy(p.new_bytes, new_bytes, SIZE);
	return p;
}

/* A fresh guest with three sites, and a set for them. */
static void setup(void)
{
	if (fake_guest_create(&fg))
		abort();
	for (uint64_t i = 0; i < NR; i++) {
		struct patch p = patch_at(AT + i * APART);

		fake_code(&fg, AT + i * APART, old_bytes, SIZE);
		if (patch_set_add(&set, &p, NULL))
			abort();
	}
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
		n += !memcmp(fake_text(&fg, AT + i * APART), new_bytes, SIZE);
	return n;
}

static void test_apply_and_revert(void)
{
	struct patch_outcome outcome;

	setup();
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && set.applied, "apply");
	is_u64(count_patched(), NR, "all are written");
	ok(fg.stops == 1 && !fg.stopped, "with one stop, and the guest runs again");
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && fg.stops == 1, "applying twice is once");
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL) && !set.applied, "revert");
	ok(untouched(), "the text is what it was, byte for byte");
	is_u64(outcome.restored, NR, "all restored");
	ok(fg.stops == 2 && !fg.stopped, "with one more stop");
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL) && !outcome.restored &&
		   fg.stops == 2,
	   "reverting twice is once");
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
		   "patch %d has other old bytes", (int)i);
		is_u64(err.address, fake_gva(AT + i * APART), "the error says which");
		is_u64(fg.writes, 0, "nothing was written");
		ok(untouched() && !fg.stopped, "the text is untouched, the guest runs");
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
		ok(patch_set_apply(&set, &fg.kernel, &err) == rows[i].ret, "last vCPU at +%#x: %s",
		   (unsigned int)rows[i].rip, rows[i].ret ? "refused" : "allowed");
		ok(rows[i].ret ? untouched() && err.address == fake_gva(rows[i].rip)
			       : count_patched() == NR,
		   "and done accordingly");
		ok(!fg.stopped, "the guest runs");
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
	ok(!patch_set_apply(&set, &fg.kernel, NULL), "a vCPU inside is given time to leave");
	is_u64(fg.stops, 3, "for as long as it takes");
	fg.on_stop = NULL;
	fg.vcpus[1].regs.rip = fake_gva(AT + 2);
	ok(patch_set_revert(&set, &fg.kernel, NULL, NULL) == -EBUSY && set.applied &&
		   count_patched() == NR,
	   "nor is a patch taken away below a vCPU");
	fg.vcpus[1].regs.rip = fake_gva(AT);
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(), "until it has left");
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
		   "write %d does not read back", (int)i);
		is_u64(err.address, fake_gva(AT + i * APART), "the error says where");
		ok(untouched() && !fg.stopped, "all is rolled back");
		fg.ignored_gpa = 0;
		fg.failing_gpa = gpa;
		ok(patch_set_apply(&set, &fg.kernel, NULL) == -EIO && !set.applied && untouched(),
		   "write %d fails", (int)i);
		teardown();
	}
}

static void test_unmapped(void)
{
	struct patch p = patch_at(AT);
	struct error err = {0};

	setup();
	p.gva = 0xffffffffc0000000ull;
	ok(!patch_set_add(&set, &p, NULL) && patch_set_apply(&set, &fg.kernel, &err) == -EFAULT &&
		   untouched(),
	   "a patch where nothing is mapped");
	teardown();
}

static void test_outcomes(void)
{
	static const uint8_t theirs[SIZE] = {0xe8, 1, 2, 3, 4};
	struct patch_outcome outcome;

	setup();
	patch_set_apply(&set, &fg.kernel, NULL);
	memcpy(fake_text(&fg, AT), old_bytes, SIZE);
	memcpy(fake_text(&fg, AT + APART), theirs, SIZE);
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL), "revert what others changed");
	is_u64(outcome.restored, 1, "ours is restored");
	is_u64(outcome.unchanged, 1, "one had its old bytes already");
	is_u64(outcome.foreign, 1, "one is somebody else's");
	is_u64(outcome.first_foreign, fake_gva(AT + APART), "and said which");
	ok(!memcmp(fake_text(&fg, AT + APART), theirs, SIZE), "which is left alone");
	memcpy(fake_text(&fg, AT + APART), old_bytes, SIZE);
	ok(untouched(), "all else is as before");
	teardown();
}

static void test_revert_failure(void)
{
	struct patch_outcome outcome;

	setup();
	patch_set_apply(&set, &fg.kernel, NULL);
	fg.failing_gpa = FAKE_PHYS_TEXT + AT;
	ok(patch_set_revert(&set, &fg.kernel, &outcome, NULL) == -EIO && outcome.restored == NR - 1,
	   "one place cannot be restored: the others are, and it is not counted");
	fg.failing_gpa = 0;
	ok(set.applied && !patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(),
	   "reverting again does the rest");
	teardown();
}

static void test_add(void)
{
	struct patch p = patch_at(AT);
	struct error err = {0};

	setup();
	ok(!patch_set_add(&set, &p, NULL) && set.n == NR, "the same patch twice is one");
	p.new_bytes[2] = 0x90;
	ok(patch_set_add(&set, &p, NULL) == -EBUSY, "the same place with other bytes is refused");
	p = patch_at(AT + SIZE - 1);
	ok(patch_set_add(&set, &p, &err) == -EBUSY && err.address == p.gva, "overlap at its end");
	p = patch_at(AT - SIZE + 1);
	ok(patch_set_add(&set, &p, NULL) == -EBUSY && set.n == NR, "overlap at its begin");
	p = patch_at(AT + SIZE);
	ok(!patch_set_add(&set, &p, NULL) && set.n == NR + 1, "a neighbour is none");
	p.gva += SIZE;
	p.size = 0;
	ok(patch_set_add(&set, &p, NULL) == -EINVAL, "no bytes");
	p.size = PATCH_MAX_SIZE + 1;
	ok(patch_set_add(&set, &p, NULL) == -EINVAL, "too many bytes");
	teardown();
}

static void test_many(void)
{
	enum { MANY = 1000 };

	if (fake_guest_create(&fg))
		abort();
	for (uint64_t i = 0; i < MANY; i++) {
		struct patch p = patch_at(AT + i * 8);

		fake_code(&fg, AT + i * 8, old_bytes, SIZE);
		if (patch_set_add(&set, &p, NULL))
			abort();
	}
	memcpy(before, fake_text(&fg, 0), sizeof(before));
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && fg.stops == 1 && !untouched() &&
		   !patch_set_revert(&set, &fg.kernel, NULL, NULL) && untouched(),
	   "a thousand patches");
	teardown();
}

int main(void)
{
	test_apply_and_revert();
	test_mismatch();
	test_rip();
	test_rip_leaves();
	test_write_failures();
	test_unmapped();
	test_outcomes();
	test_revert_failure();
	test_add();
	test_many();
	return tap_done();
}

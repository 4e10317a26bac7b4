/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patch sets without a guest's memory: order, what is found, and what leads from one set to
 * another. */
#include <errno.h>
#include <stdlib.h>
#include "tests/lib/fake-patches.h"
#include "tests/lib/tap.h"

enum { AT = 0x1000, APART = 0x100 };

static struct fake_guest fg;

/* The patch of site `i`, whose last byte tells one text from another. */
static struct patch *add(struct patch_set *set, uint64_t i, uint8_t last)
{
	struct patch p = fake_patch_at(AT + i * APART);

	p.new_bytes[SITE_SIZE - 1] = last;
	return patch_set_add(set, &p, NULL) ? NULL : &set->v[set->n - 1];
}

static uint8_t last_byte(uint64_t i)
{
	return fake_text(&fg, AT + i * APART)[SITE_SIZE - 1];
}

/* Apply `from`, and then what leads from there to `to`. */
static bool go(struct patch_set *from, struct patch_set *to, struct patch_set *difference)
{
	return !patch_set_sort(from, NULL) && !patch_set_sort(to, NULL) &&
	       !patch_set_apply(from, &fg.kernel, NULL) &&
	       !patch_set_difference(from, to, difference, NULL) &&
	       (difference->sorted || !difference->n) &&
	       !patch_set_apply(difference, &fg.kernel, NULL);
}

static void setup(void)
{
	if (fake_guest_create(&fg))
		abort();
	for (uint64_t i = 0; i < 4; i++)
		fake_code(&fg, AT + i * APART, fake_patch_old, SITE_SIZE);
}

static void teardown(struct patch_set *from, struct patch_set *to, struct patch_set *difference)
{
	patch_set_deinit(from);
	patch_set_deinit(to);
	patch_set_deinit(difference);
	fake_guest_destroy(&fg);
}

/* Sites that only the first set has, that both have with the same or other bytes, and that only the
 * second one has: `first` and `second` have their last bytes, 0 for none. */
static void check_difference(const char *what, const uint8_t first[4], const uint8_t second[4],
			     size_t n)
{
	struct patch_set from = {0}, to = {0}, difference = {0};

	setup();
	for (uint64_t i = 0; i < 4; i++) {
		if (first[i])
			add(&from, i, first[i]);
		if (second[i])
			add(&to, i, second[i]);
	}
	ok(go(&from, &to, &difference), "%s: the difference is applied", what);
	ok(difference.n == n, "%s: the difference has only what changes", what);
	for (uint64_t i = 0; i < 4; i++)
		ok(last_byte(i) == second[i] &&
			   (second[i] || fake_patch_is(&fg, AT + i * APART, fake_patch_old)),
		   "%s: site %d has the bytes of the second set, or its own", what, (int)i);
	teardown(&from, &to, &difference);
}

static void test_differences(void)
{
	static const uint8_t none[4] = {0}, low[4] = {1, 1, 1, 0}, high[4] = {0, 2, 1, 1},
			     even[4] = {1, 0, 1, 0}, odd[4] = {0, 1, 0, 1};

	check_difference("up", low, high, 3);
	check_difference("down", high, low, 3);
	check_difference("even to odd", even, odd, 4);
	check_difference("odd to even", odd, even, 4);
	check_difference("from nothing", none, low, 3);
	check_difference("to nothing", low, none, 3);
	check_difference("to the same", low, low, 0);
}

/* A patch that the guest has for now, or that is not wanted, is in no text. */
static void test_out(void)
{
	struct patch_set from = {0}, to = {0}, difference = {0};
	struct patch *p;

	setup();
	add(&from, 0, 1);
	p = add(&to, 0, 1);
	p->yielded = true;
	p = add(&from, 1, 1);
	p->off = true;
	add(&to, 1, 1);
	p = add(&from, 2, 1);
	p->yielded = true;
	p = add(&to, 2, 1);
	p->off = true;
	ok(go(&from, &to, &difference), "a difference between sets with patches that are out");
	ok(difference.n == 2, "a place that is out in both sets does not change");
	ok(fake_patch_is(&fg, AT, fake_patch_old), "what is out in the second set is put back");
	ok(last_byte(1) == 1, "what was out in the first set is written");
	ok(fake_patch_is(&fg, AT + 2 * APART, fake_patch_old), "a place out in both is untouched");
	is_u64(patch_set_wanted(&from), 2, "patches that are off are not wanted; yielded ones are");
	teardown(&from, &to, &difference);
}

/* Sets made by hand: the first patch cannot be added to another set. */
static void test_failures(void)
{
	struct patch v[2] = {fake_patch_at(AT), fake_patch_at(AT + APART)};
	struct patch_set bad = {.v = v, .n = 2, .sorted = true}, none = {.sorted = true}, out = {0};

	v[0].size = 0;
	ok(patch_set_difference(&bad, &none, &out, NULL) == -EINVAL && !out.n,
	   "a difference with a patch that is refused is none");
	patch_set_deinit(&out);
}

/* The old bytes of a return slot of several instructions: a jump in their place is one. */
static void test_between(void)
{
	static const struct task_stacks tasks;
	struct patch_set with = {0}, without = {.sorted = true}, out = {0}, back = {0};

	add(&with, 0, 1)->between = &tasks;
	patch_set_sort(&with, NULL);
	ok(!patch_set_difference(&without, &with, &out, NULL) && out.n == 1 &&
		   out.v[0].between == &tasks,
	   "where several instructions are replaced, a task may be between them");
	ok(!patch_set_difference(&with, &without, &back, NULL) && back.n == 1 && !back.v[0].between,
	   "where they are put back, none is");
	patch_set_deinit(&with);
	patch_set_deinit(&out);
	patch_set_deinit(&back);
}

static bool is_in(const struct patch_set *set, const uint8_t *sites, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (i >= set->n || set->v[i].gva != fake_gva(AT + sites[i] * APART))
			return false;
	return set->n == n;
}

/* In any order of addresses. */
static void test_order(void)
{
	static const uint8_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 3, 2}, {1, 0, 2, 3}},
			     sorted[4] = {0, 1, 2, 3};

	for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
		struct patch_set set = {0};

		for (size_t i = 0; i < 4; i++)
			add(&set, orders[o][i], 1);
		ok(!patch_set_sort(&set, NULL) && is_in(&set, sorted, 4),
		   "patches are sorted by address, order %zu", o);
		patch_set_deinit(&set);
	}
}

/* What another set has is added, all of it or a range. */
static void test_add_other(void)
{
	static const uint8_t all[] = {3, 0, 1, 2}, none[] = {3}, two[] = {1, 2};
	struct patch_set from = {0}, to = {0}, range = {0};

	add(&to, 3, 1);
	patch_set_sort(&to, NULL);
	ok(!patch_set_add_all(&to, &from, NULL) && is_in(&to, none, 1) && to.sorted,
	   "an empty set adds nothing, and the other one is still sorted");
	for (uint64_t i = 0; i < 3; i++)
		add(&from, i, 1);
	patch_set_sort(&from, NULL);
	ok(!patch_set_add_all(&to, &from, NULL) && is_in(&to, all, 4) && !to.sorted,
	   "all patches of a set are added behind those of another one, which is to be sorted");
	ok(!patch_set_add_range(&range, &from, fake_gva(AT + APART), fake_gva(AT + 2 * APART + 1),
				NULL) &&
		   is_in(&range, two, 2),
	   "of a range those are added that begin in it, one that its end cuts, too");
	range.n = 0;
	ok(!patch_set_add_range(&range, &from, fake_gva(AT + APART + 1), fake_gva(AT + 2 * APART),
				NULL) &&
		   is_in(&range, two, 1),
	   "and one that its begin cuts, but not one that begins at its end");
	range.n = 0;
	ok(!patch_set_add_range(&range, &from, fake_gva(AT + APART), fake_gva(AT + 9 * APART),
				NULL) &&
		   is_in(&range, two, 2),
	   "a range may end behind the last patch");
	patch_set_deinit(&from);
	patch_set_deinit(&to);
	patch_set_deinit(&range);
}

static void test_at(void)
{
	struct patch_set set = {0};

	add(&set, 0, 1);
	add(&set, 1, 1);
	patch_set_sort(&set, NULL);
	ok(patch_set_at(&set, fake_gva(AT)) == &set.v[0] &&
		   patch_set_at(&set, fake_gva(AT + APART)) == &set.v[1],
	   "a patch is found at its first byte");
	ok(!patch_set_at(&set, fake_gva(AT + 1)) && !patch_set_at(&set, fake_gva(AT - 1)),
	   "none is found inside another one, or in front of it");
	set.n = 1;
	ok(!patch_set_at(&set, fake_gva(AT + APART)), "none is found behind the last");
	patch_set_deinit(&set);
}

/* Two patches of one place: one of them would be put back over the other. */
static void test_same_place(void)
{
	for (int what = 0; what < 3; what++) {
		static const char *const names[] = {"sizes", "old bytes", "new bytes"};
		struct patch_set set = {0};
		struct patch *p;

		add(&set, 0, 1);
		p = add(&set, 0, 1);
		p->size -= what == 0;
		p->old_bytes[0] ^= what == 1;
		p->new_bytes[0] ^= what == 2;
		ok(patch_set_sort(&set, NULL) == -EBUSY,
		   "patches of one place with different %s are refused", names[what]);
		patch_set_deinit(&set);
	}
}

int main(void)
{
	test_differences();
	test_out();
	test_failures();
	test_between();
	test_order();
	test_add_other();
	test_at();
	test_same_place();
	return tap_done();
}

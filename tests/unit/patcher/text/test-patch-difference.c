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
	test_at();
	test_same_place();
	return tap_done();
}

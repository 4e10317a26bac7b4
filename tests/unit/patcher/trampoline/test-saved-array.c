/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that return many objects: the entry's trampoline keeps where the array is, the return's
 * finds it and records what is in it. Many calls at a time, rings that are full, and a table that
 * has no place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-saved-array.h"
#include "tests/lib/tap.h"

enum { MOST = 100, TASKS = 200 };

static void test_counts(void)
{
	uint64_t words[MOST];
	struct fake_saved_array b;
	bool good = true;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, TRAMPOLINE_BLOCK);
	for (uint32_t n = 0; n <= MOST && good; n++) {
		fake_saved_array_fill(words, MOST);
		good = fake_saved_array_enter(&b, n, words, MOST) &&
		       fake_saved_array_entry_recorded(&b) && fake_saved_array_count(&b) == 1 &&
		       fake_saved_array_leave(&b, n, n | UINT64_C(0xabc) << 32) &&
		       fake_saved_array_items_recorded(&b, 1, words, n) &&
		       !fake_saved_array_count(&b);
	}
	ok(good, "0 to %d items are recorded, and their slot is free again", MOST);
	fake_saved_array_enter(&b, 1, words, MOST);
	ok(fake_saved_array_entry_recorded(&b) &&
		   fake_saved_array_leave(&b, 1, (uint64_t)-ENOMEM) &&
		   fake_saved_array_items_recorded(&b, 1, words, 0),
	   "a result that is an error means no items");
	fake_saved_array_enter(&b, 1, words, MOST);
	ok(fake_saved_array_entry_recorded(&b) &&
		   fake_saved_array_leave(&b, 1, CAPTURE_ITEMS_PER_CALL + 1) &&
		   fake_saved_array_items_recorded(&b, 1, words, 0),
	   "a result larger than any call gets means no items");
	ok(fake_saved_array_enter(&b, 1, NULL, MOST) && fake_saved_array_entry_recorded(&b) &&
		   !fake_saved_array_count(&b) && fake_saved_array_leave(&b, 1, 3) &&
		   fake_saved_array_items_recorded(&b, 0, words, 0),
	   "an entry without an array saves nothing");
	ok(fake_saved_array_leave(&b, 2, 3) && fake_saved_array_items_recorded(&b, 0, words, 0),
	   "a return without an entry has no items");
	fake_saved_array_enter(&b, 3, words, MOST);
	ok(fake_saved_array_entry_recorded(&b), "an entry that does not return is recorded");
	fake_saved_array_enter(&b, 3, words + 7, MOST);
	ok(fake_saved_array_entry_recorded(&b) && fake_saved_array_count(&b) == 1 &&
		   fake_saved_array_leave(&b, 3, 9) &&
		   fake_saved_array_items_recorded(&b, 1, words + 7, 9) &&
		   !fake_saved_array_count(&b),
	   "an entry takes the slot of a call with its key that never returned");
	is_u64(fake_ring(&b.rings, 0)->lost, 0, "no record is lost");
	fake_saved_array_deinit(&b);
}

/* `filled` words in front are not 0 at the entry. */
static bool skips(struct fake_saved_array *b, uint32_t filled, uint32_t count, uint32_t result)
{
	uint64_t words[MOST + 1] = {0};
	uint32_t skipped = filled < count ? filled : count;

	fake_saved_array_fill(words, filled);
	words[MOST] = 1;
	if (!fake_saved_array_enter(b, 5, words, count) || !fake_saved_array_entry_recorded(b))
		return false;
	fake_saved_array_fill(words, MOST);
	return fake_saved_array_leave(b, 5, result) &&
	       fake_saved_array_items_recorded(b, skipped + 1, words + skipped,
					       result > skipped ? result - skipped : 0);
}

static void test_filled(void)
{
	struct fake_saved_array b;
	bool good = true;

	fake_saved_array_init(&b, FAKE_RETURNS_FILLED, TRAMPOLINE_BLOCK);
	for (uint32_t filled = 0; filled <= MOST && good; filled += 3)
		for (uint32_t count = 0; count <= MOST && good; count += 11)
			for (uint32_t result = 0; result <= count && good; result += 11)
				good = skips(&b, filled, count, result);
	ok(good, "words that were filled before the call are not its items");
	fake_saved_array_deinit(&b);
}

/* Each word is empty with a chance of 1 in `rare`. */
static bool finds_holes(struct fake_saved_array *b, uint32_t count, unsigned int rare)
{
	uint64_t words[MOST + 1], filled[MOST];
	uint32_t n = 0, front = 0;

	fake_saved_array_fill(words, MOST + 1);
	for (uint32_t i = 0; i < count; i++)
		if (!(fake_random() % rare))
			words[i] = 0;
	while (front < count && words[front])
		front++;
	for (uint32_t i = front; i < count; i++)
		if (words[i])
			filled[n++] = words[i];
	if (!fake_saved_array_enter(b, 5, words, count) ||
	    !fake_saved_array_filled_recorded(b, filled, n))
		return false;
	fake_saved_array_fill(words, MOST);
	return fake_saved_array_leave(b, 5, count) &&
	       fake_saved_array_items_recorded(b, front + 1, words + front, count - front);
}

static void test_holes(void)
{
	struct fake_saved_array b;
	bool good = true;

	fake_saved_array_init(&b, FAKE_RETURNS_FILLED, TRAMPOLINE_BLOCK);
	for (uint32_t count = 0; count <= MOST && good; count++)
		for (unsigned int rare = 1; rare <= 64 && good; rare *= 2)
			good = finds_holes(&b, count, rare);
	ok(good, "words that were filled behind holes are items of the entry");
	ok(fake_saved_array_enter(&b, 1, NULL, MOST) &&
		   fake_saved_array_filled_recorded(&b, NULL, 0),
	   "an entry without an array has none");
	fake_saved_array_deinit(&b);
}

/* The result is a bool: of RAX only the low byte is meant. */
static void test_all_or_none(void)
{
	const uint64_t saved = 1 + SAVED_ALL_OR_NONE;
	uint64_t words[MOST];
	struct fake_saved_array b;
	bool good = true;

	fake_saved_array_init(&b, FAKE_RETURNS_ALL, TRAMPOLINE_BLOCK);
	fake_saved_array_fill(words, MOST);
	for (uint32_t n = 0; n <= MOST && good; n++)
		good = fake_saved_array_enter(&b, n, words, n) &&
		       fake_saved_array_entry_recorded(&b) &&
		       fake_saved_array_leave(&b, n, UINT64_C(0xabcdef01)) &&
		       fake_saved_array_items_recorded(&b, saved + n, words, n);
	ok(good, "where the result is true, all of 0 to %d words are items", MOST);
	ok(fake_saved_array_enter(&b, 1, words, 7) && fake_saved_array_entry_recorded(&b) &&
		   fake_saved_array_leave(&b, 1, UINT64_C(0xabcdef00)) &&
		   fake_saved_array_items_recorded(&b, saved + 7, words, 0),
	   "where the result is false, there are no items");
	ok(fake_saved_array_enter(&b, 1, words, CAPTURE_ITEMS_PER_CALL + 1) &&
		   fake_saved_array_entry_recorded(&b) && fake_saved_array_leave(&b, 1, 1) &&
		   fake_saved_array_items_recorded(&b, saved + CAPTURE_ITEMS_PER_CALL + 1, words,
						   0),
	   "more than a call can have are no items");
	ok(fake_saved_array_leave(&b, 2, 1) && fake_saved_array_items_recorded(&b, 0, words, 0),
	   "a return without an entry has no items");
	fake_saved_array_deinit(&b);
}

/* Tasks that enter and return in any order. */
static void test_many(void)
{
	static uint64_t words[TASKS][4];
	bool inside[TASKS] = {false}, good = true;
	unsigned int now = 0, most = 0;
	struct fake_saved_array b;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, TRAMPOLINE_BLOCK);
	for (int i = 0; i < 20000 && good; i++) {
		unsigned int task = (unsigned int)(fake_random() % TASKS);

		if (!inside[task] && now < 48) {
			fake_saved_array_fill(words[task], 4);
			good = fake_saved_array_enter(&b, task, words[task], 4) &&
			       fake_saved_array_entry_recorded(&b) &&
			       fake_saved_array_count(&b) == ++now;
			inside[task] = true;
		} else if (inside[task]) {
			good = fake_saved_array_leave(&b, task, 4) &&
			       fake_saved_array_items_recorded(&b, 1, words[task], 4) &&
			       fake_saved_array_count(&b) == --now;
			inside[task] = false;
		}
		most = now > most ? now : most;
	}
	ok(good && most == 48, "of up to %u calls at a time each finds its own array", most);
	fake_saved_array_deinit(&b);
}

static void test_no_place(void)
{
	static struct ring_saved_array before[RING_SAVED_SLOTS];
	uint64_t words[MOST];
	struct fake_saved_array b;
	bool good = true;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, TRAMPOLINE_BLOCK);
	for (int i = 0; i < RING_SAVED_SLOTS; i++)
		b.rings.saved_arrays[i] =
			(struct ring_saved_array){0x1000u + (unsigned int)i, 1, 2, 3};
	memcpy(before, b.rings.saved_arrays, sizeof(before));
	for (unsigned int task = 0; task < TASKS && good; task++)
		good = fake_saved_array_enter(&b, task, words, MOST) &&
		       fake_saved_array_entry_recorded(&b) && fake_saved_array_leave(&b, task, 9) &&
		       fake_saved_array_items_recorded(&b, 0, words, 0);
	ok(good && !memcmp(before, b.rings.saved_arrays, sizeof(before)),
	   "a full table stays as it is, and the record says that no array was saved");
	fake_saved_array_deinit(&b);
}

/* Neither an entry's nor a return's record finds room at first. */
static void test_full(enum trampoline_full full, const char *name)
{
	uint64_t words[MOST];
	struct fake_saved_array b;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, full);
	fake_host_install(fake_saved_array_on_out, NULL, &b);
	fake_ring(&b.rings, 0)->doorbell = 1;
	fake_saved_array_fill(words, MOST);
	b.answer = HOST_RETRY;
	fake_ring(&b.rings, 0)->limit = 0;
	ok(fake_saved_array_enter(&b, 7, words, MOST) && fake_saved_array_entry_recorded(&b),
	   "%s: an entry waits for room", name);
	fake_ring(&b.rings, 0)->limit = 0;
	ok(fake_saved_array_leave(&b, 7, 30) && fake_saved_array_items_recorded(&b, 1, words, 30),
	   "%s: a return waits for room", name);
	b.answer = HOST_SKIP;
	fake_ring(&b.rings, 0)->limit = 0;
	fake_saved_array_enter(&b, 7, words, MOST);
	b.answer = HOST_RETRY;
	ok(!fake_saved_array_take(&b) && fake_saved_array_leave(&b, 7, 30) &&
		   fake_saved_array_items_recorded(&b, 1, words, 30),
	   "%s: an entry whose record is skipped saves its array", name);
	fake_saved_array_enter(&b, 7, words, MOST);
	b.answer = HOST_NOTHING;
	fake_ring(&b.rings, 0)->limit = 0;
	ok(fake_saved_array_entry_recorded(&b), "%s: an entry is recorded", name);
	fake_ring(&b.rings, 0)->limit = 0;
	ok(fake_saved_array_leave(&b, 7, 40) && !fake_saved_array_take(&b) &&
		   !fake_saved_array_count(&b),
	   "%s: a return that is not recorded frees its slot", name);
	is_u64(fake_ring(&b.rings, 0)->lost, 40, "each item of a record that is lost is counted");
	is_u64(b.rung, 6, "the host is rung for each record without room");
	fake_saved_array_deinit(&b);
}

static void test_refusals(void)
{
	struct fake_saved_array b;
	struct trampoline t;
	struct decoder *decoder;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, TRAMPOLINE_BLOCK);
	if (decoder_create(&decoder, NULL))
		abort();
	for (int i = 0; i < 2; i++) {
		b.spec[i].saved_arrays = 0;
		ok(trampoline_generate(&b.spec[i], decoder, &t, NULL) == -ERANGE,
		   "a capture that saves arrays without a table is refused");
		b.spec[i].saved_arrays = UINT64_C(0xffff888000000000);
		ok(trampoline_generate(&b.spec[i], decoder, &t, NULL) == -ERANGE,
		   "a table out of reach is refused");
		b.spec[i].saved_arrays = (uint64_t)-4096;
		ok(trampoline_generate(&b.spec[i], decoder, &t, NULL) == -ERANGE,
		   "a table that wraps around is refused");
	}
	decoder_destroy(decoder);
	fake_saved_array_deinit(&b);
}

int main(void)
{
	test_refusals();
	test_counts();
	test_filled();
	test_holes();
	test_all_or_none();
	test_many();
	test_no_place();
	test_full(TRAMPOLINE_BLOCK, "block");
	test_full(TRAMPOLINE_DROP, "drop");
	return tap_done();
}

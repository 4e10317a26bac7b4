/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trampolines of calls about many objects, run on this CPU: every item in its place for any number
 * of them, and nothing but the free registers changed; a ring that is full in the middle of a call.
 */
#include <errno.h>
#include <stdlib.h>
#include "introspect/guest/guest.h"
#include "tests/lib/fake-items.h"
#include "tests/lib/tap.h"

static const char *const names[FAKE_HOWS] = {"array", "int array", "batch", "sheaf", "list"};
static const char *const fulls[] = {"block", "spin", "drop"};

/* In records of as many as fit, and at least one. */
static uint64_t records_for(uint64_t items)
{
	return items ? (items + CAPTURE_MAX_ITEMS - 1) / CAPTURE_MAX_ITEMS : 1;
}

static bool complete(const struct fake_items *f, uint64_t lost)
{
	bool good = fake_items_good(f) && f->found == f->count && !f->missed &&
		    f->records == records_for(f->count) && fake_ring(&f->rings, 0)->lost == lost;

	if (!good)
		tap_diag("%s of %lu: %lu found in %lu records, %lu lost", names[f->how], f->count,
			 f->found, f->records, fake_ring(&f->rings, 0)->lost);
	return good;
}

static void test_counts(enum fake_items_how how, bool orders, enum trampoline_full full)
{
	struct fake_items *f = fake_items_create(how, orders, full);
	bool good = true;
	int tails = 0;

	for (uint64_t n = 0; n < 300 && good; n++) {
		uint64_t items = n % 256, reserved = f->consumed % FAKE_DATA;

		fake_items_prepare(f, items, items);
		/* No NMI comes here that would need the slack. */
		fake_ring(&f->rings, 0)->limit = f->consumed + FAKE_DATA - RING_MAX_RECORD;
		fake_items_call(f, 0);
		fake_items_drain(f);
		tails += f->consumed % FAKE_DATA < reserved;
		good = complete(f, 0);
	}
	ok(good && tails > 10, "%s%s, %s: 0 to 255 items are recorded, %d times around the ring",
	   names[how], orders ? " of pages" : "", fulls[full], tails);
	fake_items_destroy(f);
}

/* What the fake host does at an OUT, the first time and then. */
struct host {
	struct fake_items *f;
	enum { HOST_RETRY, HOST_SKIP, HOST_NOTHING } first, then;
	unsigned int rings;
	bool wrong;
};

static uint64_t on_out(void *arg, uint64_t rip)
{
	struct host *h = arg;
	const struct trampoline *t = &h->f->function.trampoline;
	uint64_t gva = h->f->spec.gva;
	int answer = h->rings++ ? h->then : h->first;

	h->wrong |= rip != gva + t->slow.trap;
	if (answer == HOST_SKIP)
		return gva + t->slow.skip;
	if (answer == HOST_NOTHING)
		return rip + GUEST_TRAP_SIZE;
	fake_items_drain(h->f);
	return gva + t->slow.retry;
}

/* Far more than a ring holds; `bounded` = beyond what one call is allowed. */
static void test_many(struct fake_items *f, uint64_t count, uint64_t said, bool cyclic,
		      const char *name)
{
	struct host host = {.f = f};
	uint64_t lost = fake_ring(&f->rings, 0)->lost;
	bool bounded = said > CAPTURE_ITEMS_PER_CALL || cyclic;

	fake_host_install(on_out, NULL, &host);
	fake_items_prepare(f, count, said);
	if (cyclic)
		fake_items_close_list(f, true);
	if (f->count > CAPTURE_ITEMS_PER_CALL)
		f->count = CAPTURE_ITEMS_PER_CALL;
	fake_items_call(f, 0);
	fake_items_drain(f);
	ok(complete(f, lost + bounded) && !host.wrong && host.rings > 20,
	   "%s: %s: recorded up to the most", names[f->how], name);
}

static void test_bounds(void)
{
	const uint64_t most = CAPTURE_ITEMS_PER_CALL;
	const enum fake_items_how many[] = {FAKE_ARRAY, FAKE_INT_ARRAY, FAKE_SHEAF, FAKE_LIST};

	for (unsigned int i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		struct fake_items *f = fake_items_create(many[i], i & 1, TRAMPOLINE_BLOCK);

		test_many(f, most - 1, most - 1, false, "one item less than the most");
		test_many(f, most, most, false, "the most items");
		test_many(f, most + 1, most + 1, false, "one item more than the most");
		if (many[i] == FAKE_LIST)
			test_many(f, 10, 10, true, "a list without an end is cut to the most");
		else
			test_many(f, most, UINT32_MAX, false,
				  "a count that is too large is cut to the most");
		if (many[i] == FAKE_ARRAY)
			test_many(f, most, UINT64_MAX, false,
				  "the largest count is cut to the most");
		fake_items_destroy(f);
	}
}

static void test_null_ends(void)
{
	struct fake_items *f = fake_items_create(FAKE_LIST, false, TRAMPOLINE_BLOCK);
	const uint64_t counts[] = {1, 31, 32, 33, 64};

	for (unsigned int i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		fake_items_prepare(f, counts[i], counts[i]);
		fake_items_close_list(f, false);
		fake_items_call(f, 0);
		fake_items_drain(f);
		ok(complete(f, 0), "a NULL link ends a list after %lu items", counts[i]);
	}
	fake_items_prepare(f, 0, 0);
	f->head[0] = 0;
	fake_items_call(f, 0);
	fake_items_drain(f);
	ok(complete(f, 0), "a NULL link in the head makes a list empty");
	fake_items_destroy(f);
}

/* A call about 100 items whose record number `after` finds no room. */
static void full_call(struct host *host, uint64_t after)
{
	struct fake_items *f = host->f;
	uint32_t full_record = f->function.trampoline.layout.size + 8 * CAPTURE_MAX_ITEMS;

	host->rings = 0;
	fake_items_prepare(f, 100, 100);
	fake_ring(&f->rings, 0)->lost = 0;
	fake_ring(&f->rings, 0)->limit = f->consumed + after * full_record;
	fake_items_call(f, 0);
	fake_items_drain(f);
}

static bool as_expected(const struct host *host, uint64_t found, uint64_t lost, unsigned int rings)
{
	const struct fake_items *f = host->f;
	uint64_t counted = fake_ring(&f->rings, 0)->lost;
	bool good = fake_items_good(f) && !host->wrong && f->found == found && counted == lost &&
		    host->rings == rings;

	if (!good)
		tap_diag("%lu found, %lu lost, %u times rung", f->found, counted, host->rings);
	return good;
}

static void test_full(enum fake_items_how how, enum trampoline_full full)
{
	struct host host = {.f = fake_items_create(how, how == FAKE_LIST, full)};
	bool blocks = full == TRAMPOLINE_BLOCK;

	fake_host_install(on_out, NULL, &host);
	for (uint64_t after = 0; after < 4; after++) {
		uint64_t before = after * CAPTURE_MAX_ITEMS, rest = 100 - before;
		unsigned int records = 4 - (unsigned int)after;
		uint64_t one = rest < CAPTURE_MAX_ITEMS ? rest : CAPTURE_MAX_ITEMS;

		fake_ring(&host.f->rings, 0)->doorbell = 1;
		host.first = host.then = HOST_RETRY;
		full_call(&host, after);
		ok(as_expected(&host, 100, 0, 1) && !host.f->missed,
		   "%s, %s: full at record %lu, all items are recorded once there is room",
		   names[how], fulls[full], after);
		host.first = HOST_SKIP;
		full_call(&host, after);
		ok(as_expected(&host, 100 - one, 0, rest > one ? 2 : 1),
		   "a record that the host skips is missing, the others are recorded");
		host.first = HOST_NOTHING;
		full_call(&host, after);
		ok(as_expected(&host, 100 - one, one, rest > one ? 2 : 1),
		   "a record that the host does not serve is counted as lost");
		host.then = HOST_NOTHING;
		full_call(&host, after);
		ok(as_expected(&host, before, rest, records),
		   "all items from the first unserved record on are counted as lost");
		fake_ring(&host.f->rings, 0)->doorbell = 0;
		full_call(&host, after);
		ok(as_expected(&host, before, rest, blocks ? records : 0),
		   "without a doorbell the host is rung in block mode only");
	}
	fake_items_destroy(host.f);
}

/* Even a call about nothing is something that happened. */
static void test_empty_drop(void)
{
	struct fake_items *f = fake_items_create(FAKE_ARRAY, false, TRAMPOLINE_DROP);

	fake_items_prepare(f, 0, 0);
	fake_ring(&f->rings, 0)->limit = 0;
	fake_items_call(f, 0);
	ok(fake_items_good(f), "a call without items in a full ring writes nothing");
	is_u64(fake_ring(&f->rings, 0)->lost, 1,
	       "a call without items in a full ring counts as one lost record");
	fake_items_destroy(f);
}

static bool refused(enum probe_point point, uint8_t stack_words, struct capture_items items)
{
	struct capture capture = {.point = point, .stack_words = stack_words, .items = items};
	struct record_layout layout;

	capture.fields = stack_words ? CAPTURE(FIELD_STACK) : 0;
	return record_layout(&capture, &layout, NULL) == -EINVAL;
}

static void test_refusals(void)
{
	const struct capture_items list = {.from = ITEMS_LISTED, .pointer = 5};
	const struct capture_items bad[] = {
		{.from = ITEMS_RETURNED},
		{.from = ITEMS_RETURNED + 1},
		{.from = ITEMS_LISTED, .pointer = 6},
		{.from = ITEMS_ARRAY, .count = 6},
		{.from = ITEMS_ARRAY, .count_size = 1},
		{.from = ITEMS_COUNTED, .count_size = 0},
		{.from = ITEMS_COUNTED, .count_size = 2},
	};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(refused(POINT_ENTRY, 0, bad[i]), "a capture with bad items is refused (%u)", i);
	ok(refused(POINT_RETURN, 0, list), "a list at a return is refused");
	ok(refused(POINT_RETURN, 0, (struct capture_items){.from = ITEMS_SAVED}),
	   "an array saved at a return is refused");
	ok(!refused(POINT_ENTRY, 30, list), "30 words of stack and 32 items fit");
	ok(refused(POINT_ENTRY, 31, list), "31 words of stack and 32 items are refused");
}

int main(void)
{
	test_refusals();
	for (int how = 0; how < FAKE_HOWS; how++)
		for (int i = 0; i < 4; i++)
			test_counts(how, i & 1, i & 2 ? TRAMPOLINE_DROP : TRAMPOLINE_BLOCK);
	test_bounds();
	test_null_ends();
	for (int how = 0; how < FAKE_HOWS; how++) {
		test_full(how, TRAMPOLINE_BLOCK);
		test_full(how, TRAMPOLINE_DROP);
	}
	test_empty_drop();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that are counted: hits at entries, times at returns, for calls that nest, leave by a jump,
 * or find no place; and what it costs in instructions.
 */
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>
#include "patcher/probe/gate.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { RSP = 4, CPUS = 2, LONG = 1 << 30, OFFSET = 3 * sizeof(struct call_count) };

struct bench {
	struct fake_site site;
	struct count_spec spec;
	struct call_counts counts;
	uint32_t offset; /* of the function */
};

static void init_with(struct bench *b, enum fake_site_kind kind, enum count_action action,
		      const struct call_counts_layout layout, const struct gate *gate)
{
	uint8_t *memory;

	fake_site_init(&b->site, kind);
	memory = b->site.groups[0].memory.memory;
	if (call_counts_init(&b->counts, &layout, memory + RING_HEADER_BYTES,
			     ring_stride(FAKE_DATA), CPUS, NULL))
		abort();
	b->spec = (struct count_spec){.action = action, .layout = layout};
	fake_site_add(&b->site, 0, 0, TRAMPOLINE_BLOCK, gate);
	b->site.records[0].count = &b->spec;
}

static void init(struct bench *b, enum fake_site_kind kind, enum count_action action,
		 bool histogram, const struct gate *gate)
{
	init_with(b, kind, action, call_counts_layout(FAKE_DATA, histogram, false), gate);
}

/* Calls in one frame are a chain. */
static void init_tails(struct bench *b, enum fake_site_kind kind, enum count_action action,
		       bool histogram)
{
	init_with(b, kind, action, call_counts_layout(FAKE_DATA, histogram, true), NULL);
}

/* Shared code looks the function up, a private trampoline has its place as a constant. */
static void generate(struct bench *b)
{
	b->spec.offset = b->offset = OFFSET;
	if (!fake_site_generate(&b->site))
		abort();
	if (b->site.kind == FAKE_SHARED &&
	    call_counts_add(&b->counts, (uint32_t)b->site.function.site_end, &b->offset, NULL))
		abort();
}

static void deinit(struct bench *b)
{
	call_counts_deinit(&b->counts);
	fake_site_deinit(&b->site);
}

static struct call_totals totals(const struct bench *b)
{
	struct call_totals t;

	call_counts_read(&b->counts, b->offset, false, &t, NULL);
	return t;
}

/* How many calls of so many ticks there were. */
static uint64_t bucket(const struct bench *b, uint64_t ticks)
{
	uint64_t buckets[CALL_COUNT_BUCKETS];
	struct call_totals t;

	call_counts_read(&b->counts, b->offset, false, &t, buckets);
	return buckets[63 - __builtin_clzll(ticks)];
}

/* The frame of the next call, and where it returns to. */
static uint64_t frame(const struct bench *b)
{
	return b->site.cpu->in.reg[RSP] - sizeof(uint64_t);
}

static uint64_t key(const struct bench *b)
{
	return frame(b) + (uint64_t)(uintptr_t)fake_cpu_return_address;
}

static struct call_count *function_of(const struct bench *b, size_t cpu)
{
	return (struct call_count *)(void *)(b->counts.data + cpu * b->counts.stride +
					     b->counts.layout.counts_at + b->offset);
}

static struct call_open *place(const struct bench *b, unsigned int way)
{
	const uint32_t hash = (uint32_t)(frame(b) - CALL_OPEN_BIAS) * CALL_OPENS_MIX;
	struct call_open *opens = (struct call_open *)(void *)b->counts.data;

	return &opens[(hash >> (32 - b->counts.layout.opens_bits)) * b->counts.layout.ways + way];
}

/* Of the function whose counts are at this offset. */
static void open_call_of(const struct bench *b, uint32_t offset, unsigned int way, uint64_t tsc)
{
	struct call_open *open = place(b, way);

	open->tsc = tsc;
	open->check = tsc + key(b) + ((uint64_t)offset << CALL_OPEN_SHIFT);
}

static void open_call(const struct bench *b, unsigned int way, uint64_t tsc)
{
	open_call_of(b, b->offset, way, tsc);
}

static bool is_open(const struct bench *b, unsigned int way)
{
	const struct call_open *open = place(b, way);

	return open->tsc >= b->site.tsc_before && open->tsc <= b->site.tsc_after &&
	       open->check == open->tsc + key(b) + ((uint64_t)b->offset << CALL_OPEN_SHIFT);
}

/* A private trampoline's own ring is empty again. */
static void prepare(struct bench *b)
{
	fake_site_ring(&b->site.own)->reserve = 0;
	fake_site_prepare(&b->site);
}

static bool call(struct bench *b)
{
	fake_site_call(&b->site);
	return fake_site_preserved(&b->site) && !fake_site_ring(&b->site.groups[0])->reserve;
}

/* --- entries --------------------------------------------------------------------------------- */

static void test_hits(enum fake_site_kind kind)
{
	struct call_totals t;
	struct bench b;
	bool good = true;

	init(&b, kind, COUNT_HIT, false, NULL);
	generate(&b);
	for (int i = 0; i < 100; i++) {
		prepare(&b);
		good &= call(&b);
	}
	t = totals(&b);
	ok(good && t.hits == 100 && !t.timed && !t.ticks, "%s: each call is a hit",
	   fake_site_kinds[kind]);
	prepare(&b);
	ok(!place(&b, 0)->check, "%s: without its time no call is open", fake_site_kinds[kind]);
	deinit(&b);
}

/* Functions whose places are taken are further up. */
static void test_probing(void)
{
	struct call_totals t;
	struct bench b;
	uint32_t other, n = 0;
	bool good;

	init(&b, FAKE_SHARED, COUNT_HIT, false, NULL);
	if (!fake_site_generate(&b.site))
		abort();
	for (uint32_t ip = 1; n < 2; ip++)
		if (call_counts_offset(&b.counts.layout, ip) ==
		    call_counts_offset(&b.counts.layout, (uint32_t)b.site.function.site_end)) {
			call_counts_add(&b.counts, ip, &other, NULL);
			n++;
		}
	prepare(&b);
	good = call(&b);
	b.offset = other + b.counts.layout.size;
	t = totals(&b);
	ok(good && !t.hits, "a function that is not in the table is not counted");
	call_counts_add(&b.counts, (uint32_t)b.site.function.site_end, &b.offset, NULL);
	prepare(&b);
	good = call(&b);
	t = totals(&b);
	ok(good && t.hits == 1 && b.offset == other + b.counts.layout.size,
	   "a function whose place is taken is found behind it");
	deinit(&b);
}

static void test_start(enum fake_site_kind kind)
{
	struct call_open before;
	struct bench b;
	bool good;

	init(&b, kind, COUNT_START, false, NULL);
	generate(&b);
	prepare(&b);
	good = call(&b);
	ok(good && totals(&b).hits == 1 && is_open(&b, 0), "%s: a call is open",
	   fake_site_kinds[kind]);
	prepare(&b);
	good = call(&b);
	ok(good && is_open(&b, 0) && !place(&b, 1)->check,
	   "%s: one in the same frame, for the same caller, takes its place",
	   fake_site_kinds[kind]);
	before = *place(&b, 0) = (struct call_open){.check = 12345678, .tsc = 1};
	prepare(&b);
	good = call(&b);
	ok(good && is_open(&b, 1) && !memcmp(place(&b, 0), &before, sizeof(before)),
	   "%s: one that finds another in its place goes to the next", fake_site_kinds[kind]);
	deinit(&b);
}

static void test_gate(void)
{
	const struct gate gate = {.terms = {gate_term(GATE_PID, GATE_EQ, 1)}, .n = 1};
	struct gate one = gate;
	struct bench b;
	bool good;

	one.terms[0].yes = GATE_YES;
	one.terms[0].no = GATE_NO;
	init(&b, FAKE_SHARED, COUNT_START, false, &one);
	generate(&b);
	prepare(&b);
	good = call(&b);
	ok(good && !totals(&b).hits && !place(&b, 0)->check,
	   "a call that a gate refuses is not counted");
	deinit(&b);
}

/* --- returns --------------------------------------------------------------------------------- */

static void test_stop(enum fake_site_kind kind, unsigned int way)
{
	struct call_totals t;
	uint64_t begin;
	struct bench b;
	bool good;

	init(&b, kind, COUNT_STOP, true, NULL);
	generate(&b);
	b.offset = b.counts.layout.size;
	prepare(&b);
	begin = __rdtsc() - LONG;
	open_call(&b, way, begin);
	good = call(&b);
	t = totals(&b);
	ok(good && t.timed == 1 && t.ticks >= b.site.tsc_before - begin &&
		   t.ticks <= b.site.tsc_after - begin && t.longest == t.ticks &&
		   bucket(&b, t.ticks) == 1 && !place(&b, way)->check,
	   "%s, way %u: a return gives the call its time", fake_site_kinds[kind], way);
	prepare(&b);
	good = call(&b);
	ok(good && totals(&b).timed == 1, "%s, way %u: a second one does not",
	   fake_site_kinds[kind], way);
	prepare(&b);
	open_call(&b, way, __rdtsc());
	good = call(&b);
	ok(good && totals(&b).timed == 2 && totals(&b).longest == t.longest &&
		   totals(&b).ticks > t.ticks,
	   "%s, way %u: a shorter call leaves the longest", fake_site_kinds[kind], way);
	deinit(&b);
}

static void test_others(void)
{
	struct call_totals t;
	struct bench b;
	bool good;

	init(&b, FAKE_SHARED_RETURN, COUNT_STOP, true, NULL);
	generate(&b);
	b.offset = 0;
	prepare(&b);
	open_call(&b, 0, 1000);
	place(&b, 0)->tsc++;
	good = call(&b);
	ok(good && !totals(&b).timed, "an open call whose halves are not of one write has no time");
	prepare(&b);
	open_call(&b, 0, 1000);
	place(&b, 0)->check += 8;
	good = call(&b);
	ok(good && !totals(&b).timed && place(&b, 0)->check,
	   "nor has one of another frame or caller, which stays open");
	prepare(&b);
	open_call(&b, 0, __rdtsc() + ((uint64_t)1 << 40));
	good = call(&b);
	t = totals(&b);
	ok(good && t.timed == 1 && t.ticks == 1 && bucket(&b, 1) == 1,
	   "a call that returns before it began took one tick");
	deinit(&b);
}

/* --- chains of tail calls -------------------------------------------------------------------- */

static const struct call_open foreign = {.check = 12345678, .tsc = 1};

static void test_tail_start(enum fake_site_kind kind, enum count_action action)
{
	const bool tail = action == COUNT_TAIL;
	struct call_open other;
	struct bench b;
	bool good;

	init_tails(&b, kind, action, false);
	generate(&b);
	prepare(&b);
	*place(&b, 0) = foreign;
	open_call_of(&b, b.offset + 8, 1, 1000);
	open_call(&b, 2, 1000);
	other = *place(&b, 1);
	good = call(&b);
	ok(good && totals(&b).hits == 1 && !memcmp(place(&b, 0), &foreign, sizeof(foreign)) &&
		   !place(&b, 3)->check,
	   "%s, %s: a call that finds places taken is counted, and leaves another frame's",
	   fake_site_kinds[kind], tail ? "tail" : "start");
	if (tail)
		ok(!memcmp(place(&b, 1), &other, sizeof(other)) && is_open(&b, 2),
		   "%s: a call that others jump to stands behind the one in its frame",
		   fake_site_kinds[kind]);
	else
		ok(is_open(&b, 1) && !place(&b, 2)->check,
		   "%s: one that none jumps to ends all calls in its frame", fake_site_kinds[kind]);
	for (unsigned int way = 0; way < CALL_TAIL_WAYS; way++)
		*place(&b, way) = foreign;
	good = call(&b);
	ok(good && is_open(&b, CALL_TAIL_WAYS - 1) &&
		   !memcmp(place(&b, 2), &foreign, sizeof(foreign)),
	   "%s, %s: where all places are taken it takes the last one", fake_site_kinds[kind],
	   tail ? "tail" : "start");
	deinit(&b);
}

static struct call_totals totals_of(const struct bench *b, uint32_t offset)
{
	struct call_totals t;

	call_counts_read(&b->counts, offset, false, &t, NULL);
	return t;
}

static void test_tail_stop(enum fake_site_kind kind, bool histogram)
{
	struct call_totals first, last;
	uint64_t begin;
	struct bench b;
	bool good;

	init_tails(&b, kind, COUNT_STOP, histogram);
	generate(&b);
	b.offset = b.counts.layout.size;
	prepare(&b);
	begin = __rdtsc() - LONG;
	open_call(&b, 0, begin);
	*place(&b, 1) = foreign;
	open_call_of(&b, 2 * b.offset, 3, begin + LONG / 2);
	good = call(&b);
	first = totals_of(&b, b.offset);
	last = totals_of(&b, 2 * b.offset);
	ok(good && first.timed == 1 && first.ticks >= b.site.tsc_before - begin &&
		   first.ticks <= b.site.tsc_after - begin,
	   "%s%s: a return gives its time to the call that has left by a jump",
	   fake_site_kinds[kind], histogram ? ", histogram" : "");
	ok(last.timed == 1 && last.ticks == first.ticks - LONG / 2 && last.longest == last.ticks,
	   "%s%s: and to the call that it jumped to", fake_site_kinds[kind],
	   histogram ? ", histogram" : "");
	ok(!place(&b, 0)->check && !place(&b, 3)->check &&
		   !memcmp(place(&b, 1), &foreign, sizeof(foreign)),
	   "%s%s: both have ended, and no other frame's", fake_site_kinds[kind],
	   histogram ? ", histogram" : "");
	ok(!histogram || (bucket(&b, first.ticks) == 1), "%s: each is in its bucket",
	   fake_site_kinds[kind]);
	deinit(&b);
}

static void test_tail_without_places(void)
{
	struct bench b;

	init(&b, FAKE_SHARED, COUNT_TAIL, false, NULL);
	ok(!fake_site_generate(&b.site), "no call stands behind another where there is one place");
	deinit(&b);
}

/* --- cost ------------------------------------------------------------------------------------ */

/* Of a call that is not the longest one. */
static int cost_with(enum fake_site_kind kind, enum count_action action, bool histogram, bool tails)
{
	struct bench b;
	int count;

	init_with(&b, kind, action, call_counts_layout(FAKE_DATA, histogram, tails), NULL);
	generate(&b);
	prepare(&b);
	for (size_t cpu = 0; cpu < CPUS; cpu++)
		function_of(&b, cpu)->longest = INT64_MAX;
	if (action == COUNT_STOP)
		open_call(&b, 0, __rdtsc() - LONG);
	count = fake_site_count(&b.site);
	deinit(&b);
	return count;
}

static int cost(enum fake_site_kind kind, enum count_action action, bool histogram)
{
	return cost_with(kind, action, histogram, false);
}

static void test_tail_cost(void)
{
	int start = cost_with(FAKE_SHARED, COUNT_START, false, true),
	    stop = cost_with(FAKE_SHARED_RETURN, COUNT_STOP, false, true);

	tap_diag("with tails: an entry %d, a return %d", start, stop);
	ok(start + stop <= 120, "with tails, an entry and a return take at most 120 instructions");
}

static void test_cost(void)
{
	int hit = cost(FAKE_SHARED, COUNT_HIT, false),
	    start = cost(FAKE_SHARED, COUNT_START, false);
	int stop = cost(FAKE_SHARED_RETURN, COUNT_STOP, false);

	tap_diag("instructions with call or jump: a hit %d, an entry %d, a return %d", hit, start,
		 stop);
	ok(hit <= 16, "a hit takes at most 16 instructions with call and ret");
	ok(start + stop <= 65, "an entry and a return take at most 65 instructions together");
	is_u64((uint64_t)(cost(FAKE_SHARED_RETURN, COUNT_STOP, true) - stop), 5,
	       "the histogram takes five more");
}

int main(void)
{
	for (enum fake_site_kind kind = FAKE_SHARED; kind <= FAKE_PRIVATE; kind++) {
		test_hits(kind);
		test_start(kind);
	}
	for (enum fake_site_kind kind = FAKE_SHARED; kind <= FAKE_PRIVATE; kind++) {
		test_tail_start(kind, COUNT_START);
		test_tail_start(kind, COUNT_TAIL);
	}
	for (int histogram = 0; histogram < 2; histogram++) {
		test_tail_stop(FAKE_SHARED_RETURN, histogram);
		test_tail_stop(FAKE_PRIVATE_RETURN, histogram);
	}
	test_tail_without_places();
	test_tail_cost();
	for (unsigned int way = 0; way < CALL_OPEN_WAYS; way++) {
		test_stop(FAKE_SHARED_RETURN, way);
		test_stop(FAKE_PRIVATE_RETURN, way);
	}
	test_probing();
	test_gate();
	test_others();
	test_cost();
	return tap_done();
}

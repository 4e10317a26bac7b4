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

static void init(struct bench *b, enum fake_site_kind kind, enum count_action action,
		 bool histogram, const struct gate *gate)
{
	const struct call_counts_layout layout = call_counts_layout(FAKE_DATA, histogram);
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

	return &opens[(hash >> (32 - b->counts.layout.opens_bits)) * CALL_OPEN_WAYS + way];
}

static void open_call(const struct bench *b, unsigned int way, uint64_t tsc)
{
	struct call_open *open = place(b, way);

	open->tsc = tsc;
	open->check = tsc + key(b) + ((uint64_t)b->offset << CALL_OPEN_SHIFT);
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

/* --- cost ------------------------------------------------------------------------------------ */

/* Of a call that is not the longest one. */
static int cost(enum fake_site_kind kind, enum count_action action, bool histogram)
{
	struct bench b;
	int count;

	init(&b, kind, action, histogram, NULL);
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

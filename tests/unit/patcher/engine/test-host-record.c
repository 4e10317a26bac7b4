/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trap saw goes through a ring and comes out the same. */
#include "patcher/engine/host-record.h"

#include <stdlib.h>
#include <string.h>
#include "patcher/probe/probe.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum { DATA = RING_MIN_LARGE, ROUNDS = 20000, SEED = 1, STALL_NS = 1000 };

static _Alignas(8) uint8_t memory[RING_HEADER_BYTES + DATA + RING_MAX_RECORD];
static struct ring ring;
static struct ring_writer writer;
static uint64_t stack[CAPTURE_MAX_STACK], items[RING_MAX_RECORD / 8];
static struct direct_stack chain;

static uint64_t random64(void)
{
	return (uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^ (uint64_t)random();
}

static void fill_random(uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		words[i] = random64();
}

/* Half of them have a chain. */
static struct probe_hit random_hit(size_t nr_stack)
{
	const struct capture all = {.fields = CAPTURE(FIELD_STACK) | CAPTURE(FIELD_CHAIN),
				    .stack_words = CAPTURE_MAX_STACK,
				    .chain_words = STACK_MAX_WORDS,
				    .items = {.from = ITEMS_ARRAY}};
	struct probe_hit hit = {.key = random64(),
				.call_site = random64(),
				.result = random64(),
				.slab_cache = random64(),
				.saved = random64(),
				.owner = random64(),
				.pid = random64(),
				.tgid = random64(),
				.cgroup = random64(),
				.stack = stack,
				.nr_stack = nr_stack,
				.items = items};

	fill_random(hit.args, CAPTURE_ARGUMENTS);
	fill_random(hit.comm, sizeof(hit.comm) / sizeof(hit.comm[0]));
	fill_random(stack, CAPTURE_MAX_STACK);
	fill_random(items, sizeof(items) / sizeof(items[0]));
	fill_random(&chain.sp, sizeof(chain) / sizeof(chain.sp));
	if (random() % 2)
		hit.chain = (struct probe_chain){
			.at = &chain.sp,
			.words = 1 + (size_t)random() % trap_record_max_chain(&all)};
	hit.nr_items = (size_t)random() % (trap_record_max_items(&hit) + 1);
	return hit;
}

static bool write_hit(enum probe_point point, uint32_t ref, const struct probe_hit *hit)
{
	struct ring_record *record = ring_writer_reserve(&writer, trap_record_size(hit));

	if (!record)
		return false;
	record->tsc = 1;
	trap_record_fill(record, ref, hit);
	ring_writer_commit(record, (struct ring_sample){.id = point});
	return true;
}

static bool same_words(const uint64_t *a, size_t nr_a, const uint64_t *b, size_t nr_b)
{
	return nr_a == nr_b && (!nr_a || !memcmp(a, b, nr_a * sizeof(*a)));
}

static bool is_same(const struct probe_hit *a, const struct probe_hit *b)
{
	return a->key == b->key && a->call_site == b->call_site && a->result == b->result &&
	       a->slab_cache == b->slab_cache && a->saved == b->saved && a->owner == b->owner &&
	       a->pid == b->pid && a->tgid == b->tgid && a->cgroup == b->cgroup &&
	       !memcmp(a->comm, b->comm, sizeof(a->comm)) &&
	       !memcmp(a->args, b->args, sizeof(a->args)) &&
	       same_words(a->stack, a->nr_stack, b->stack, b->nr_stack) &&
	       same_words(a->chain.at, a->chain.words, b->chain.at, b->chain.words) &&
	       same_words(a->items, a->nr_items, b->items, b->nr_items);
}

/* The record written last comes out, and is that hit. */
static bool comes_out(enum probe_point point, uint32_t ref, const struct probe_hit *hit)
{
	const struct ring_clock clock = {.tsc = 2, .stall_ns = STALL_NS, .late_ns = STALL_NS};
	const struct ring_record *record;
	struct ring_taken taken;
	enum probe_point kind_out;
	struct probe_hit out;
	uint32_t ref_out;
	bool same;

	ring_consume(&ring, &clock);
	record = ring_first(&ring);
	if (!record)
		return false;
	taken = ring_take(record);
	trap_record_read(&taken, &kind_out, &ref_out, &out);
	same = kind_out == point && ref_out == ref && is_same(&out, hit);
	ring_pop(&ring);
	return same;
}

static void test_any_hit(void)
{
	int good = 0;

	srandom(SEED);
	for (int i = 0; i < ROUNDS; i++) {
		struct probe_hit hit = random_hit((size_t)random() % (CAPTURE_MAX_STACK + 1));
		enum probe_point point = random() % 2 ? POINT_ENTRY : POINT_RETURN;
		uint32_t ref = (uint32_t)random();

		good += write_hit(point, ref, &hit) && comes_out(point, ref, &hit);
	}
	is_u64((uint64_t)good, ROUNDS, "any hit is read back as it was written");
	is_u64(ring.counts.malformed + ring.counts.stalled, 0, "no hit is taken for damage");
}

static void check_size(size_t nr_stack, size_t nr_items, const char *what)
{
	struct probe_hit hit = random_hit(nr_stack);

	hit.chain = (struct probe_chain){0};
	hit.nr_items = nr_items;
	ok(trap_record_size(&hit) <= RING_MAX_RECORD && write_hit(POINT_ENTRY, 0, &hit) &&
		   comes_out(POINT_ENTRY, 0, &hit),
	   "%s", what);
}

static void test_sizes(void)
{
	const struct probe_hit none = {0}, deep = {.nr_stack = CAPTURE_MAX_STACK};
	const struct probe_hit large = {.nr_items = trap_record_max_items(&none)};
	struct capture capture = {.fields = CAPTURE(FIELD_CHAIN), .chain_words = STACK_MAX_WORDS};
	struct probe_hit chained = {.chain = {&chain.sp, trap_record_max_chain(&capture)}};

	check_size(0, 0, "a hit without stack and items fits");
	check_size(CAPTURE_MAX_STACK, 0, "a hit with the deepest stack fits");
	ok(trap_record_max_items(&deep) > 0, "the deepest stack leaves room for items");
	check_size(CAPTURE_MAX_STACK, trap_record_max_items(&deep),
		   "the deepest stack fits with as many items as there is room for");
	check_size(0, trap_record_max_items(&none),
		   "a hit with as many items as there is room for fits");
	is_u64(trap_record_size(&large), RING_MAX_RECORD, "the most items fill the largest record");
	is_u64(chained.chain.words, STACK_MAX_WORDS,
	       "the longest chain fits into the record of a hit without stack and items");
	ok(trap_record_size(&chained) <= RING_MAX_RECORD, "which is no larger than any");
	capture.items.from = ITEMS_ARRAY;
	chained.chain.words = trap_record_max_chain(&capture);
	is_u64(trap_record_max_items(&chained), CAPTURE_MAX_ITEMS,
	       "beside a chain there is room for as many items as a record has");
}

/* Nothing is read from where a hit has none. */
static void test_nowhere(void)
{
	const struct probe_hit hit = {.key = 5};

	ok(write_hit(POINT_RETURN, TRAP_RECORD_NO_REF, &hit) &&
		   comes_out(POINT_RETURN, TRAP_RECORD_NO_REF, &hit),
	   "a hit whose stack and items are NULL is read back");
}

int main(void)
{
	struct ring_config config = {.data_bytes = DATA,
				     .queue_bytes = RING_MAX_RECORD,
				     .shapes = trap_record_shapes,
				     .nr_shapes = TRAP_RECORD_SHAPES};

	if (ring_init(&ring, memory, &config, NULL))
		return 1;
	writer = ring_writer(memory, DATA);
	test_any_hit();
	test_sizes();
	test_nowhere();
	ring_deinit(&ring);
	return tap_done();
}

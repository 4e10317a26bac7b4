/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/direct.h"

#include "patcher/ring/internal.h"

enum step {
	STEP_GATHERED,
	STEP_END, /* the next record is for a later pass */
	STEP_UNCOMMITTED,
	STEP_MALFORMED,
};

/* A batch that is being made. */
struct gathering {
	struct ring *ring;
	const struct ring_clock *clock;
	const struct tsc_quick_clock *quick;
	struct tsc_near_clock *near;
	uint64_t horizon;
	const uint8_t *begin, *at; /* its first record, and the next one */
	const uint8_t *stop;       /* the end of the data, or of what is reserved */
	const uint8_t *end;        /* of what is reserved, or of the tail */
	struct direct_batch batch;
};

/* The next record's stamp is not between the ring's floor and the horizon. False: it is for a later
 * pass. */
__attribute__((cold, noinline)) static bool mend_stamp(const struct gathering *g, uint64_t *tsc)
{
	if (ring_is_later(g->ring, g->ring->consumed + (uint64_t)(g->at - g->begin), *tsc,
			  g->clock))
		return false;
	*tsc = ring_clamp(g->ring, *tsc, g->horizon);
	return true;
}

/* Records of this size are whole, and have room in the batch, if they begin before that. The first
 * is in the batch already. */
static const uint8_t *end_of_run(const struct gathering *g, size_t size)
{
	const size_t room = (DIRECT_BATCH - g->batch.n + 1) * size;
	const size_t begin = (size_t)(g->stop - g->at), whole = (size_t)(g->end - g->at) - size + 1;
	const size_t bytes = begin < whole ? begin : whole;

	return g->at + (bytes < room ? bytes : room);
}

static inline void read_record(struct direct_batch *batch, size_t i,
			       const struct direct_record *record, uint64_t tsc,
			       const struct tsc_near_clock *near)
{
	const uint32_t ip = __atomic_load_n(&record->ip, __ATOMIC_RELAXED);

	batch->ns[i] = (int64_t)tsc_near_ns(near, tsc);
	batch->ip[i] = (uint64_t)(int64_t)(int32_t)ip - DIRECT_SITE_BYTES;
}

/* What the records of a run have in common. */
struct likeness {
	struct tsc_near_clock near;
	uint64_t latest; /* stamp */
	uint32_t commit;
};

/* The record at `at`, if it is like those before it, and not earlier. */
static inline __attribute__((always_inline)) bool read_next(struct direct_batch *batch, size_t i,
							    const uint8_t *at,
							    const struct likeness *like,
							    uint64_t *floor)
{
	const struct direct_record *record = (const void *)at;
	uint64_t tsc;

	if (__atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) != like->commit)
		return false;
	tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if (tsc < *floor || tsc > like->latest)
		return false;
	*floor = tsc;
	read_record(batch, i, record, tsc, &like->near);
	return true;
}

/* The records from `at` on: into the batch, from its element `i` on, as long as they are alike.
 * Returns the element behind the last. A function by itself, so that registers hold all that the
 * loop needs. */
static __attribute__((noinline)) size_t read_run(struct direct_batch *batch, size_t i,
						 const uint8_t *at, const uint8_t *stop,
						 size_t size, const struct likeness *likeness,
						 uint64_t *last)
{
	enum { UNROLLED = 4 };
	const struct likeness like = *likeness;
	uint64_t floor = *last;

	for (; at < stop && (size_t)(stop - at) > (UNROLLED - 1) * size; at += UNROLLED * size) {
#pragma GCC unroll 4
		for (size_t k = 0; k < UNROLLED; k++)
			if (!read_next(batch, i + k, at + k * size, &like, &floor)) {
				*last = floor;
				return i + k;
			}
		i += UNROLLED;
	}
	for (; at < stop && read_next(batch, i, at, &like, &floor); at += size)
		i++;
	*last = floor;
	return i;
}

/* Bytes of the next record, which has this id; 0: there can be no such record. */
static inline uint32_t size_of(const struct gathering *g, uint32_t id)
{
	const struct ring_config *config = &g->ring->config;
	const struct ring_shape *shape;
	uint32_t items;

	if (id >= config->nr_shapes)
		return 0;
	shape = &config->shapes[id];
	if (!shape->items)
		return shape->size;
	items = ring_read_items(shape, g->at);
	return items <= shape->items ? shape->size + items * (uint32_t)sizeof(uint64_t) : 0;
}

/* Records of any ids, without items, from `at` on: into the batch, from its element `i` on, up to
 * one that is unusual. *last: the latest stamp so far; *mask gets the bits of their ids. Returns
 * the element behind the last. */
static __attribute__((noinline)) size_t read_mixed(const struct gathering *g,
						   struct direct_batch *batch, size_t i,
						   const uint8_t *at, uint64_t latest,
						   uint64_t *last, uint32_t *mask)
{
	const struct ring_shape *const shapes = g->ring->config.shapes;
	const size_t nr_shapes = g->ring->config.nr_shapes;
	const uint32_t nr_ids =
		nr_shapes < DIRECT_MIXED_IDS ? (uint32_t)nr_shapes : DIRECT_MIXED_IDS;
	const uint8_t *const stop = g->stop, *const end = g->end;
	const struct tsc_near_clock near = *g->near;
	uint64_t floor = *last, tsc;
	uint32_t ids = *mask;

	for (; i < DIRECT_BATCH && at < stop; i++) {
		const struct direct_record *record = (const void *)at;
		const uint32_t id =
			__atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
		size_t size;

		if (id >= nr_ids)
			break;
		size = shapes[id].size;
		/* there are none of size 0 */
		if (shapes[id].items || size - 1 >= (size_t)(end - at))
			break;
		tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
		if (tsc < floor || tsc > latest)
			break;
		floor = tsc;
		read_record(batch, i, record, tsc, &near);
		batch->ids[i] = (uint8_t)id;
		batch->at[i] = at;
		ids |= UINT32_C(1) << id;
		at += size;
	}
	*last = floor;
	*mask = ids;
	return i;
}

/* Whether the record behind the next one may be like it: they often alternate. */
static inline bool is_next(const struct gathering *g, size_t size, uint32_t commit)
{
	const struct direct_record *record = (const void *)(g->at + size);

	return (const uint8_t *)record < g->stop &&
	       __atomic_load_n(&record->commit, __ATOMIC_RELAXED) == commit;
}

/* The latest stamp that this pass may take, and that is near the first. */
static uint64_t latest_of(const struct gathering *g)
{
	return g->horizon < g->near->last ? g->horizon : g->near->last;
}

static inline void add_run(struct direct_batch *batch, size_t first, struct direct_run run)
{
	run.n = batch->n - first;
	run.ns = batch->ns + first;
	run.ip = batch->ip + first;
	batch->runs[batch->nr_runs++] = run;
}

/* The next record, which was read, and those behind it that have the same commit word, up to one
 * whose stamp has to be mended, or is far from the first. */
static void gather_alike(struct gathering *g, uint32_t id, uint32_t size, uint64_t *last)
{
	struct direct_batch *const batch = &g->batch;
	const size_t first = batch->n - 1;
	const struct likeness like = {*g->near, latest_of(g), ring_commit(id)};

	batch->n = read_run(batch, batch->n, g->at + size, end_of_run(g, size), size, &like, last);
	add_run(batch, first, (struct direct_run){.id = id, .size = size, .first = g->at});
	g->at += (batch->n - first) * size;
}

/* Likewise those behind it, of whichever ids. */
static void gather_mixed(struct gathering *g, uint32_t id, uint32_t size, uint64_t *last)
{
	struct direct_batch *const batch = &g->batch;
	const size_t first = batch->n - 1;
	const uint8_t *const begin = g->at;
	uint32_t mask = UINT32_C(1) << id, last_id;

	batch->ids[first] = (uint8_t)id;
	batch->at[first] = begin;
	batch->n = read_mixed(g, batch, batch->n, begin + size, latest_of(g), last, &mask);
	last_id = batch->ids[batch->n - 1];
	g->at = batch->at[batch->n - 1] + g->ring->config.shapes[last_id].size;
	if (batch->n - first == 1)
		add_run(batch, first, (struct direct_run){.id = id, .size = size, .first = begin});
	else
		add_run(batch, first,
			(struct direct_run){.id = DIRECT_MIXED,
					    .first = begin,
					    .mask = mask,
					    .ids = batch->ids + first,
					    .at = batch->at + first});
}

/* The next record, and those behind it: of the same id, or of any. The guest may change a record at
 * any time: its header is read once, and then believed. */
static enum step gather(struct gathering *g)
{
	const struct direct_record *record = (const void *)g->at;
	const uint32_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
	/* beyond all ids if it is not committed */
	const uint32_t id = commit ^ RING_COMMITTED;
	const uint32_t size = size_of(g, id);
	struct direct_batch *const batch = &g->batch;
	uint64_t tsc;

	if (!size || size > (size_t)(g->end - g->at))
		return commit ? STEP_MALFORMED : STEP_UNCOMMITTED;
	tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if ((tsc > g->horizon || tsc < g->ring->floor) && !mend_stamp(g, &tsc))
		return STEP_END;
	if (!tsc_is_near(g->near, tsc))
		*g->near = tsc_clock_near(g->quick, tsc);
	read_record(batch, batch->n++, record, tsc, g->near);
	if (g->ring->config.shapes[id].items) {
		add_run(batch, batch->n - 1,
			(struct direct_run){.id = id, .size = size, .first = g->at});
		g->at += size;
	} else if (id >= DIRECT_MIXED_IDS || is_next(g, size, commit)) {
		gather_alike(g, id, size, &tsc);
	} else {
		gather_mixed(g, id, size, &tsc);
	}
	g->ring->floor = tsc;
	return STEP_GATHERED;
}

/* Emit a batch. What the emitter has seen is zeroed before the guest gets the room back. */
static enum step emit_batch(struct ring *ring, uint64_t end, const struct ring_clock *clock,
			    const struct tsc_quick_clock *quick, struct tsc_near_clock *near,
			    direct_emit_fn *emit, void *arg)
{
	const uint32_t offset = ring_offset_of(ring, ring->consumed);
	const uint64_t reserved = end - ring->consumed, left = ring->config.data_bytes - offset;
	enum step step = STEP_GATHERED;
	struct gathering g;

	/* the batch is written before it is read */
	g.ring = ring;
	g.clock = clock;
	g.quick = quick;
	g.near = near;
	g.horizon = ring_horizon(clock);
	g.begin = g.at = ring->data + offset;
	g.stop = g.begin + (reserved < left ? reserved : left);
	g.end = g.begin + (reserved < left + RING_MAX_RECORD ? reserved : left + RING_MAX_RECORD);
	g.batch.n = g.batch.nr_runs = 0;
	while (step == STEP_GATHERED && g.at < g.stop && g.batch.n < DIRECT_BATCH)
		step = gather(&g);
	if (!g.batch.n)
		return step;
	emit(arg, &g.batch);
	ring_zero(ring->data + offset, (size_t)(g.at - g.begin));
	ring->counts.records += g.batch.n;
	ring->consumed += (uint64_t)(g.at - g.begin);
	return step;
}

void ring_consume_direct(struct ring *ring, const struct ring_clock *clock,
			 const struct tsc_quick_clock *quick, direct_emit_fn *emit, void *arg)
{
	const uint64_t before = ring->consumed, end = ring_snapshot(ring);
	struct tsc_near_clock near = tsc_clock_near(quick, ring->floor);
	enum step step = STEP_GATHERED;

	while (step != STEP_END && ring->consumed != end) {
		step = emit_batch(ring, end, clock, quick, &near, emit, arg);
		if (step == STEP_UNCOMMITTED) {
			if (!ring_is_stalled(ring, clock))
				break;
			ring->counts.stalled++;
			ring_skip_to(ring, end);
		} else if (step == STEP_MALFORMED) {
			ring->counts.malformed++;
			ring_skip_to(ring, end);
		}
	}
	ring_end_pass(ring, before);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records from the rings to the emitter. The headers of some records of each ring are read ahead,
 * in a loop of its own, which also finds calls that have returned at once; then the rings are
 * merged by what was read, into a batch; then the batch is emitted, before any of its memory is
 * zeroed.
 */
#include <stddef.h>
#include <string.h>
#include "patcher/ring/internal.h"

enum {
	GIVE_BYTES = 65536, /* that the guest gets back at a time */
	AHEAD_BYTES = 4096, /* where the last record that is read ahead begins, at most */
};

enum head_state {
	HEAD_RECORD,
	HEAD_END,     /* no more record before the horizon */
	HEAD_UNUSUAL, /* something for ring_consume() */
};

/* --- what was emitted ------------------------------------------------------------------------- */

/* Where the record begins that was not emitted yet. */
static uint8_t *first_left(const struct ring_head *head)
{
	if (head->next == head->end)
		return head->behind;
	return (uint8_t *)(uintptr_t)head->next->fields - offsetof(struct ring_record, fields);
}

static uint64_t count_emitted(const struct ring_head *head)
{
	uint64_t n = 0;

	if (head->next == head->end)
		return head->nr_records;
	for (const struct ring_taken *taken = head->ahead; taken < head->next; taken++)
		n += taken->returned ? 2 : 1;
	return n;
}

/* It leaves the ring. Its memory is zeroed before the guest gets the room back. */
static void pass_emitted(struct ring *ring, struct ring_head *head)
{
	const size_t bytes = (size_t)(first_left(head) - head->begin);

	if (!bytes)
		return;
	ring_zero(head->begin, bytes);
	ring->consumed += bytes;
	ring->floor = head->next[-1].tsc;
	ring->counts.records += count_emitted(head);
	ring->moved = true;
	head->kept += bytes;
	if (head->kept < GIVE_BYTES)
		return;
	ring_publish_limit(ring);
	head->kept = 0;
}

/* --- reading ahead ---------------------------------------------------------------------------- */

/* What limits the records that are read ahead, but for the stamp of the one before. */
struct bounds {
	const struct ring_shape *shapes;
	size_t nr_shapes;
	const uint8_t *end; /* of what is reserved, which may be in the tail */
	uint64_t horizon;
};

/* Look at the record at `at`, behind one with the stamp `floor`. Its header is read once, and then
 * believed. *size: its bytes. */
static inline enum head_state look(const struct bounds *bounds, const uint8_t *at, uint64_t floor,
				   struct ring_taken *out, size_t *size, enum ring_role *role)
{
	const struct ring_record *record = (const void *)at;
	/* beyond all ids if it is not committed */
	const uint32_t id = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
	const struct ring_shape *shape = &bounds->shapes[id];
	uint64_t tsc;

	if (id >= bounds->nr_shapes)
		return HEAD_UNUSUAL;
	*size = shape->size;
	*role = shape->role;
	out->items = 0;
	if (shape->items) {
		out->items = __atomic_load_n(&record->items, __ATOMIC_RELAXED);
		if (out->items > shape->items)
			return HEAD_UNUSUAL;
		*size += out->items * sizeof(uint64_t);
	}
	/* there are none of size 0 */
	if (*size - 1 >= (size_t)(bounds->end - at))
		return HEAD_UNUSUAL;
	tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if (tsc > bounds->horizon)
		return HEAD_END;
	if (tsc < floor)
		return HEAD_UNUSUAL;
	out->id = id;
	out->tsc = tsc;
	out->fields = record->fields;
	return HEAD_RECORD;
}

static inline uint64_t key_of(const struct ring_taken *taken)
{
	return __atomic_load_n(taken->fields, __ATOMIC_RELAXED);
}

/* A record that is the return of the call in front of it, if there is one, joins that. */
static inline bool join(struct ring_taken *call, const struct ring_taken *next, enum ring_role role)
{
	if (role != RING_RETURN || !call || key_of(next) != call->key)
		return false;
	call->tsc = next->tsc;
	call->returned = next->fields;
	call->returned_id = next->id;
	call->whole = true;
	return true;
}

/* One that does not. Returns it if the next one may join it, else NULL. */
static inline struct ring_taken *stand_alone(struct ring_taken *next, enum ring_role role)
{
	next->returned = NULL;
	next->whole = role == RING_WHOLE;
	if (role != RING_CALL)
		return NULL;
	next->key = key_of(next);
	return next;
}

static void end_ahead(struct ring_head *head, struct ring_taken *end, uint8_t *behind,
		      uint64_t joined)
{
	end->tsc = RING_NO_STAMP;
	head->next = head->ahead;
	head->end = end;
	head->behind = behind;
	head->nr_records = (uint64_t)(end - head->ahead) + joined;
}

/* The records from head->begin on, as far as one begins before `stop`. Returns why it ended. */
static inline enum head_state read_ahead(struct ring_head *head, const struct bounds *bounds,
					 uint64_t floor, const uint8_t *stop)
{
	struct ring_taken *next = head->ahead, *call = NULL;
	enum head_state state = HEAD_RECORD;
	uint8_t *at = head->begin;
	enum ring_role role;
	const struct ring_taken *const last = next + RING_AHEAD;
	uint64_t joined = 0;
	size_t size;

	while (next < last && at < stop) {
		state = look(bounds, at, floor, next, &size, &role);
		if (state != HEAD_RECORD)
			break;
		floor = next->tsc;
		at += size;
		if (join(call, next, role)) {
			call = NULL;
			joined++;
		} else {
			call = stand_alone(next++, role);
		}
	}
	/* the record behind a call may be its return: both are read the next time */
	if (call && call != head->ahead && state == HEAD_RECORD && at < bounds->end) {
		at = (uint8_t *)(uintptr_t)call->fields - offsetof(struct ring_record, fields);
		next = call;
	}
	end_ahead(head, next, at, joined);
	return state;
}

/* All that was read ahead was emitted: the guest may get the room back, and more is read. */
static enum head_state read_next(struct ring_merge *merge, unsigned int cpu, uint64_t horizon)
{
	struct ring *ring = merge->rings[cpu];
	struct ring_head *head = &merge->heads[cpu];
	struct bounds bounds = {ring->config.shapes, ring->config.nr_shapes, NULL, horizon};
	enum head_state state;
	size_t left, ahead;

	pass_emitted(ring, head);
	left = head->stop - ring->consumed;
	ahead = ring->config.data_bytes - ring_offset_of(ring, ring->consumed);
	ahead = ahead < AHEAD_BYTES ? ahead : AHEAD_BYTES;
	head->begin = ring->data + ring_offset_of(ring, ring->consumed);
	bounds.end = head->begin + left;
	state = read_ahead(head, &bounds, ring->floor, head->begin + (ahead < left ? ahead : left));
	if (head->next != head->end)
		return HEAD_RECORD;
	return head->behind < bounds.end ? state : HEAD_END;
}

/* --- merging ---------------------------------------------------------------------------------- */

/* Find the first record of each ring. False: one is unusual. */
static bool find_heads(struct ring_merge *merge, uint64_t horizon)
{
	bool usual = true;

	ring_order_clear(merge);
	for (unsigned int cpu = merge->nr_rings; cpu-- > 0;) {
		struct ring *ring = merge->rings[cpu];
		struct ring_head *head = &merge->heads[cpu];
		enum head_state state;

		head->next = head->end = head->ahead;
		head->begin = head->behind = ring->data;
		head->stop = ring_snapshot(ring);
		head->kept = 0;
		state = read_next(merge, cpu, horizon);
		if (state == HEAD_RECORD)
			ring_order_add(merge, cpu, head->next->tsc);
		usual &= state != HEAD_UNUSUAL;
	}
	return usual;
}

/*
 * A batch of records in order: in runs of the first CPU, as long as its are older than those of all
 * others. It ends where the first CPU has no more that was read ahead, and its stamp is that of no
 * record; or where there may be no room for the next run. Returns how many records.
 */
static size_t fill_batch(struct ring_merge *merge)
{
	const struct ring_taken **to = merge->batch, *next;
	const struct ring_taken **const full = to + RING_BATCH - RING_AHEAD;
	struct ring_place *const first = merge->order;

	for (;;) {
		const uint64_t before = ring_order_before(merge);
		struct ring_head *const head = &merge->heads[first->cpu];

		next = head->next;
		do
			*to++ = next++;
		while (next->tsc < before);
		head->next = next;
		first->tsc = next->tsc;
		if (next->tsc == RING_NO_STAMP || to > full)
			return (size_t)(to - merge->batch);
		ring_order_settle(merge);
	}
}

/* No ring has a record that is older than what was emitted. */
static void raise_floors(struct ring_merge *merge)
{
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		pass_emitted(merge->rings[cpu], &merge->heads[cpu]);
		if (merge->watermark < merge->rings[cpu]->floor)
			merge->watermark = merge->rings[cpu]->floor;
	}
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++)
		ring_raise_floor(merge->rings[cpu], merge->watermark);
}

void ring_merge_straight(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit, void *arg)
{
	bool usual = find_heads(merge, horizon);

	while (usual && merge->nr_order) {
		const size_t n = fill_batch(merge);
		struct ring_place *const first = merge->order;
		enum head_state state = HEAD_RECORD;

		emit(arg, merge->batch, n);
		if (first->tsc == RING_NO_STAMP) {
			state = read_next(merge, first->cpu, horizon);
			first->tsc = merge->heads[first->cpu].next->tsc;
		}
		if (state == HEAD_RECORD)
			ring_order_settle(merge);
		else if (state == HEAD_END)
			ring_order_drop(merge);
		usual = state != HEAD_UNUSUAL;
	}
	raise_floors(merge);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records from the rings to the emitter. The headers of some records of each ring are read ahead,
 * in a loop of its own, which also finds calls that have returned at once. What was read of all
 * rings up to some time is a window, which is emitted before any of its memory is zeroed.
 *
 * Who takes records pairs calls with returns, and looks for calls around others, each on one
 * stack; else the records of different rings have nothing to do with each other. A stack's order
 * matters if a call is open there, or a record is apart: one that is not all of a call. Mostly such
 * a stack's records are all in one ring of a window, and the rings are emitted one by one. A window
 * where they are not, as a task has moved to another CPU in the middle of a call, is merged.
 */
#include <stddef.h>
#include <string.h>
#include "patcher/ring/internal.h"

enum { GIVE_BYTES = 65536 /* that the guest gets back at a time */ };

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

/* What limits the records that are read ahead. */
struct bounds {
	const struct ring_shape *shapes;
	size_t nr_shapes;
	const uint8_t *end;  /* of what is reserved, which may be in the tail */
	const uint8_t *wrap; /* no record begins there, or behind it */
	uint64_t horizon;
};

/* Of those that are read. */
struct reading {
	struct ring_taken *next;
	const uint8_t *at;
	uint64_t floor; /* the stamp before */
	uint64_t joined;
};

#define INLINE inline __attribute__((always_inline))

/* That of a record which is not committed is beyond all ids. */
static INLINE uint32_t read_id(const uint8_t *at)
{
	const struct ring_record *record = (const void *)at;

	return __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
}

static INLINE uint64_t read_tsc(const uint8_t *at)
{
	const struct ring_record *record = (const void *)at;

	return __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
}

static INLINE const uint64_t *fields_of(const uint8_t *at)
{
	const struct ring_record *record = (const void *)at;

	return record->fields;
}

static INLINE uint64_t read_key(const uint8_t *at)
{
	return __atomic_load_n(fields_of(at), __ATOMIC_RELAXED);
}

static INLINE enum head_state check_tsc(const struct bounds *bounds, uint64_t floor, uint64_t tsc)
{
	if (tsc > bounds->horizon)
		return HEAD_END;
	return tsc < floor ? HEAD_UNUSUAL : HEAD_RECORD;
}

static INLINE void set(struct ring_taken *out, const uint8_t *at, uint32_t id, uint64_t tsc,
		       uint64_t key, enum ring_alone alone)
{
	out->tsc = tsc;
	out->fields = fields_of(at);
	out->returned = NULL;
	out->key = key;
	out->id = id;
	out->items = 0;
	out->alone = (uint8_t)alone;
}

static INLINE void set_apart(struct ring_head *head, struct ring_taken *out, const uint8_t *at,
			     uint32_t id, uint64_t tsc, uint64_t key)
{
	set(out, at, id, tsc, key, RING_APART);
	head->apart[head->nr_apart++] = (uint8_t)(out - head->ahead);
}

/* One with this id, role and size, which were read already, that may have items, or no key. */
static __attribute__((noinline)) enum head_state
take_other(struct ring_head *head, const struct bounds *bounds, const uint8_t *at, uint32_t id,
	   enum ring_role role, size_t size, uint64_t floor, struct ring_taken *out)
{
	const struct ring_record *record = (const void *)at;
	const uint32_t most_items = ring_shape_items(&bounds->shapes[id]);
	const bool has_key = role != RING_OTHER;
	const uint64_t tsc = read_tsc(at);
	enum head_state state;
	uint32_t items = 0;

	if (size < RING_MIN_RECORD)
		return HEAD_UNUSUAL;
	if (most_items) {
		items = __atomic_load_n(&record->items, __ATOMIC_RELAXED);
		if (items > most_items)
			return HEAD_UNUSUAL;
		size += items * sizeof(uint64_t);
	}
	if (size > (size_t)(bounds->end - at))
		return HEAD_UNUSUAL;
	state = check_tsc(bounds, floor, tsc);
	if (state != HEAD_RECORD)
		return state;
	set_apart(head, out, at, id, tsc, has_key ? read_key(at) : 0);
	out->items = items;
	head->has_other |= !has_key;
	return HEAD_RECORD;
}

/* Whether all of a record lies there. */
static INLINE bool is_there(const struct bounds *bounds, const uint8_t *at, size_t size,
			    bool certain)
{
	return certain || size <= (size_t)(bounds->end - at);
}

/* Whether the return of this call is the record at `at`: sets its id and stamp. */
static INLINE bool is_return(const struct bounds *bounds, const uint8_t *at, uint64_t key,
			     uint32_t *id, uint64_t *tsc, bool certain)
{
	const uint64_t floor = *tsc;
	const struct ring_shape *shape;

	if (!certain && (at >= bounds->end || at >= bounds->wrap))
		return false;
	*id = read_id(at);
	if (*id >= bounds->nr_shapes)
		return false;
	shape = &bounds->shapes[*id];
	if (ring_shape_role(shape) != RING_RETURN || read_key(at) != key ||
	    !is_there(bounds, at, ring_shape_size(shape), certain))
		return false;
	*tsc = read_tsc(at);
	return check_tsc(bounds, floor, *tsc) == HEAD_RECORD;
}

/* A call, with its return if that is the next record. Returns the bytes of that. */
static INLINE size_t take_call(struct ring_head *head, const struct bounds *bounds,
			       struct ring_taken *out, const uint8_t *at, size_t size, uint32_t id,
			       uint64_t tsc, bool certain)
{
	const uint64_t key = read_key(at);
	uint64_t returned_tsc = tsc;
	uint32_t returned_id;

	if (!is_return(bounds, at + size, key, &returned_id, &returned_tsc, certain)) {
		set_apart(head, out, at, id, tsc, key);
		return 0;
	}
	set(out, at, id, returned_tsc, key, RING_ALONE);
	out->returned = fields_of(at + size);
	out->returned_id = returned_id;
	return ring_shape_size(&bounds->shapes[returned_id]);
}

/* More of them, as far as one begins before `stop`. `certain`, a constant: from there there are two
 * whole records at least. Returns why it ends; HEAD_RECORD: it has come to `stop`. */
static INLINE enum head_state read_until(struct ring_head *head, const struct bounds *bounds,
					 struct reading *reading, const uint8_t *stop, bool certain)
{
	const struct ring_taken *const last = head->ahead + RING_AHEAD;
	enum head_state state = HEAD_RECORD;
	struct reading r = *reading;

	while (r.at < stop && r.next < last) {
		const uint8_t *const at = r.at;
		const uint32_t id = read_id(at);
		enum ring_role role;
		size_t size, returned;
		uint64_t tsc;

		state = HEAD_UNUSUAL;
		if (id >= bounds->nr_shapes)
			break;
		role = ring_shape_role(&bounds->shapes[id]);
		size = ring_shape_size(&bounds->shapes[id]);
		if (role <= RING_KEYED) {
			state = take_other(head, bounds, at, id, role, size, r.floor, r.next);
			if (state != HEAD_RECORD)
				break;
			r.floor = r.next->tsc;
			r.at += size + r.next++->items * sizeof(uint64_t);
			continue;
		}
		if (!is_there(bounds, at, size, certain))
			break;
		tsc = read_tsc(at);
		state = check_tsc(bounds, r.floor, tsc);
		if (state != HEAD_RECORD)
			break;
		r.at += size;
		r.floor = tsc;
		if (role == RING_WHOLE) {
			set(r.next++, at, id, tsc, read_key(at), RING_ALONE);
		} else if (role == RING_CALL) {
			returned = take_call(head, bounds, r.next, at, size, id, tsc, certain);
			r.at += returned;
			r.joined += returned > 0;
			r.floor = r.next++->tsc;
		} else {
			set_apart(head, r.next++, at, id, tsc, read_key(at));
		}
	}
	*reading = r;
	return state;
}

/* From where on it is not certain that two whole records are there. */
static const uint8_t *certain_until(const struct bounds *bounds, const uint8_t *begin,
				    const uint8_t *stop)
{
	enum { TWO = 2 * RING_MAX_RECORD };
	const uint8_t *end = bounds->end < bounds->wrap ? bounds->end : bounds->wrap;

	if (end - begin <= TWO)
		return begin;
	return end - TWO < stop ? end - TWO : stop;
}

/* All that was read ahead was emitted: the guest may get the room back, and more is read. */
static enum head_state read_next(struct ring_merge *merge, unsigned int cpu, uint64_t horizon)
{
	struct ring *ring = merge->rings[cpu];
	struct ring_head *head = &merge->heads[cpu];
	struct bounds bounds = {.shapes = ring->config.shapes,
				.nr_shapes = ring->config.nr_shapes,
				.wrap = ring->data + ring->config.data_bytes,
				.horizon = horizon};
	struct reading r = {.next = head->ahead};
	enum head_state state;
	const uint8_t *stop;
	size_t left, ahead;

	pass_emitted(ring, head);
	left = head->stop - ring->consumed;
	ahead = left < RING_AHEAD_BYTES ? left : RING_AHEAD_BYTES;
	head->begin = ring->data + ring_offset_of(ring, ring->consumed);
	head->nr_apart = 0;
	head->has_other = false;
	bounds.end = head->begin + left;
	stop = head->begin + ahead < bounds.wrap ? head->begin + ahead : bounds.wrap;
	r.at = head->begin;
	r.floor = ring->floor;
	state = read_until(head, &bounds, &r, certain_until(&bounds, r.at, stop), true);
	if (state == HEAD_RECORD)
		state = read_until(head, &bounds, &r, stop, false);
	r.next->tsc = RING_NO_STAMP;
	head->next = head->ahead;
	head->end = r.next;
	head->behind = (uint8_t *)(uintptr_t)r.at;
	head->nr_records = (uint64_t)(r.next - head->ahead) + r.joined;
	if (head->next != head->end)
		return HEAD_RECORD;
	return head->behind < bounds.end ? state : HEAD_END;
}

/* Those of a ring that has none left. False: the next one is unusual. */
static inline bool find_more(struct ring_merge *merge, unsigned int cpu, uint64_t horizon)
{
	const enum head_state state = read_next(merge, cpu, horizon);

	if (state == HEAD_RECORD)
		merge->active[merge->nr_active++] = cpu;
	return state != HEAD_UNUSUAL;
}

/* Find the first records of each ring. False: one is unusual. */
static bool find_heads(struct ring_merge *merge, uint64_t horizon)
{
	bool usual = true;

	merge->nr_active = 0;
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		struct ring *ring = merge->rings[cpu];
		struct ring_head *head = &merge->heads[cpu];

		head->next = head->end = head->ahead;
		head->begin = head->behind = ring->data;
		head->stop = ring_snapshot(ring);
		head->kept = 0;
		usual &= find_more(merge, cpu, horizon);
	}
	return usual;
}

/* --- windows ---------------------------------------------------------------------------------- */

/* The latest stamp up to which all records were read. */
static uint64_t window_end(const struct ring_merge *merge)
{
	uint64_t until = RING_NO_STAMP;

	for (unsigned int i = 0; i < merge->nr_active; i++) {
		const uint64_t last = merge->heads[merge->active[i]].end[-1].tsc;

		until = last < until ? last : until;
	}
	return until;
}

/* marks[]: 1 + the number of the ring that has a stack's records, or one of these. */
enum {
	MARK_SHARED = RING_STACK_OPEN - 1, /* several stacks with this hash have some */
	MARK_OPEN = RING_STACK_OPEN,       /* a call may be open, and no record is known yet */
};
_Static_assert((int)RING_MERGE_MAX < (int)MARK_SHARED, "numbers of rings are marks");

static uint64_t stack_of(const struct ring_merge *merge, const struct ring_taken *taken)
{
	return ring_stack_of(merge->stacks, taken->key + RING_KEY_BIAS);
}

/* The order on this record's stack matters. False: and it may not be that of its ring. */
static bool mark(struct ring_merge *merge, const struct ring_taken *taken)
{
	const uint64_t stack = stack_of(merge, taken);
	const unsigned int hash = ring_stack_hash(stack);
	const uint8_t own = (uint8_t)(taken->ring + 1), mark = merge->marks[hash];

	if (!mark || mark == MARK_OPEN) {
		merge->touched[merge->nr_touched++] = (uint16_t)hash;
		merge->marks[hash] = own;
		merge->marked[hash] = stack;
		return true;
	}
	if (mark == MARK_SHARED || merge->marked[hash] == stack)
		return mark == own;
	merge->marks[hash] = MARK_SHARED;
	return true;
}

/* Records that are apart may open and close calls on its stack. */
static void doubt(struct ring_taken *taken)
{
	if (taken->alone)
		taken->alone = RING_IF_CLEAR;
}

/* One whose stack has a mark, or another one of the same hash. Likewise. */
static __attribute__((noinline)) bool is_in_order(struct ring_merge *merge,
						  struct ring_taken *taken)
{
	const uint64_t stack = stack_of(merge, taken);
	const unsigned int hash = ring_stack_hash(stack);

	doubt(taken);
	if (merge->stacks->open[hash])
		return mark(merge, taken);
	if (merge->marks[hash] == MARK_SHARED)
		return false;
	return merge->marked[hash] != stack || merge->marks[hash] == taken->ring + 1;
}

/* At first no record is known. */
static void begin_marks(struct ring_merge *merge)
{
	memcpy(merge->marks, merge->stacks->open, sizeof(merge->marks));
	merge->nr_touched = 0;
	merge->has_other = false;
}

/* Behind a window: calls have begun and ended only on stacks that had a mark, but for those of
 * records whose stacks are not known. */
static void clear_marks(struct ring_merge *merge)
{
	if (merge->has_other) {
		begin_marks(merge);
		return;
	}
	for (unsigned int i = 0; i < merge->nr_touched; i++) {
		const uint16_t hash = merge->touched[i];

		merge->marks[hash] = merge->stacks->open[hash];
	}
	merge->nr_touched = 0;
}

/* Mark the stacks of records that are apart. False: some are in several rings, or not known. */
static bool mark_apart(struct ring_merge *merge)
{
	bool known = true;

	for (unsigned int i = 0; i < merge->nr_active; i++) {
		const struct ring_head *head = &merge->heads[merge->active[i]];

		known &= !head->has_other;
		for (unsigned int k = 0; k < head->nr_apart; k++) {
			const struct ring_taken *taken = &head->ahead[head->apart[k]];

			if (taken >= head->next)
				known &= mark(merge, taken);
		}
	}
	return known;
}

/* Find what a ring has in the window. False: the order of its records among others' matters. */
static bool find_until(struct ring_merge *merge, struct ring_head *head, uint64_t until)
{
	const unsigned int shift = merge->stacks->shift;
	struct ring_taken *taken = head->next;
	bool in_order = true;

	for (; taken->tsc <= until; taken++)
		if (merge->marks[ring_stack_hash((taken->key + RING_KEY_BIAS) >> shift)])
			in_order &= is_in_order(merge, taken);
	head->until = taken;
	return in_order;
}

/* A record whose stack is not known may be of a call around any other. */
static void doubt_all(struct ring_head *head)
{
	for (struct ring_taken *taken = head->next; taken < head->until; taken++)
		doubt(taken);
}

/* Find what is in the window. False: it must be merged. */
static bool find_window(struct ring_merge *merge, uint64_t until)
{
	bool in_order = mark_apart(merge);

	for (unsigned int i = 0; i < merge->nr_active; i++) {
		struct ring_head *head = &merge->heads[merge->active[i]];

		in_order &= find_until(merge, head, until);
		merge->has_other |= head->has_other;
	}
	for (unsigned int i = 0; merge->has_other && i < merge->nr_active; i++)
		doubt_all(&merge->heads[merge->active[i]]);
	return in_order;
}

static void emit_rings(struct ring_merge *merge, ring_emit_fn *emit, void *arg)
{
	for (unsigned int i = 0; i < merge->nr_active; i++) {
		struct ring_head *head = &merge->heads[merge->active[i]];

		if (head->until > head->next)
			emit(arg, head->next, (size_t)(head->until - head->next));
		head->next = head->until;
	}
}

static void make_order(struct ring_merge *merge)
{
	ring_order_clear(merge);
	for (unsigned int i = merge->nr_active; i-- > 0;) {
		const struct ring_head *head = &merge->heads[merge->active[i]];

		if (head->until > head->next)
			ring_order_add(merge, merge->active[i], head->next->tsc);
	}
}

/* In runs of the first CPU, as long as its are older than those of all others. */
static void emit_merged(struct ring_merge *merge, ring_emit_fn *emit, void *arg)
{
	struct ring_place *const first = merge->order;

	make_order(merge);
	while (merge->nr_order) {
		const uint64_t before = ring_order_before(merge);
		struct ring_head *head = &merge->heads[first->cpu];
		struct ring_taken *next = head->next;

		do
			next++;
		while (next < head->until && next->tsc < before);
		emit(arg, head->next, (size_t)(next - head->next));
		head->next = next;
		first->tsc = next->tsc;
		if (next < head->until)
			ring_order_settle(merge);
		else
			ring_order_drop(merge);
	}
}

/* Behind a window. False: a ring's next record is unusual. */
static bool read_more(struct ring_merge *merge, uint64_t horizon)
{
	const unsigned int n = merge->nr_active;
	bool usual = true;

	merge->nr_active = 0;
	for (unsigned int i = 0; i < n; i++) {
		const unsigned int cpu = merge->active[i];

		if (merge->heads[cpu].next < merge->heads[cpu].end)
			merge->active[merge->nr_active++] = cpu;
		else
			usual &= find_more(merge, cpu, horizon);
	}
	return usual;
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

	begin_marks(merge);
	while (usual && merge->nr_active) {
		clear_marks(merge);
		if (find_window(merge, window_end(merge)))
			emit_rings(merge, emit, arg);
		else
			emit_merged(merge, emit, arg);
		usual = read_more(merge, horizon);
	}
	raise_floors(merge);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Positions are multiples of 8. */
#define NO_POSITION UINT64_MAX

enum { ZERO_BYTES = 1536 /* at a time; see DESIGN.md */ };

/* --- the queue ------------------------------------------------------------------------------- */

static int queue_init(struct ring_queue *queue, size_t capacity, struct error *err)
{
	*queue = (struct ring_queue){.capacity = capacity};
	if (capacity < RING_MAX_RECORD)
		return error_set(err, EINVAL, "a queue of %zu bytes holds no record", capacity);
	queue->bytes = malloc(capacity);
	return queue->bytes ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* Room behind the newest record, or NULL. Records move at most once between two pops: afterwards
 * the free bytes are all behind them. */
static struct ring_record *queue_room(struct ring_queue *queue, size_t size)
{
	size_t used = queue->tail - queue->head;

	if (size > queue->capacity - used)
		return NULL;
	if (size > queue->capacity - queue->tail) {
		memmove(queue->bytes, queue->bytes + queue->head, used);
		queue->head = 0;
		queue->tail = used;
	}
	return (struct ring_record *)(void *)(queue->bytes + queue->tail);
}

static size_t record_size(const struct ring *ring, const struct ring_record *record)
{
	return ring->config.shapes[ring_id(record)].size + record->items * sizeof(uint64_t);
}

const struct ring_record *ring_first(const struct ring *ring)
{
	const struct ring_queue *queue = &ring->queue;

	if (queue->head == queue->tail)
		return NULL;
	return (const struct ring_record *)(const void *)(queue->bytes + queue->head);
}

void ring_pop(struct ring *ring)
{
	struct ring_queue *queue = &ring->queue;

	queue->head += record_size(ring, ring_first(ring));
	if (queue->head == queue->tail)
		queue->head = queue->tail = 0;
}

/* --- life ------------------------------------------------------------------------------------ */

static int check_config(const void *memory, const struct ring_config *config, struct error *err)
{
	uint32_t size = config->data_bytes;

	if (size < RING_MIN_DATA || size & (size - 1) || size > UINT32_C(1) << 30)
		return error_set(err, EINVAL, "a ring cannot have %u bytes", size);
	if ((uintptr_t)memory % RING_RECORD_ALIGN)
		return error_set(err, EINVAL, "a ring's memory is not aligned");
	return 0;
}

void ring_publish_limit(struct ring *ring)
{
	const uint32_t size = ring->config.data_bytes;
	uint64_t limit = ring->consumed + size - ring_slack(size);

	if (ring->dead)
		limit = 0;
	__atomic_store_n(&ring->limit, limit, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->header->limit, limit, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->header->doorbell, 0, __ATOMIC_RELEASE);
}

int ring_init(struct ring *ring, void *memory, const struct ring_config *config, struct error *err)
{
	int ret = check_config(memory, config, err);

	*ring = (struct ring){.config = *config, .waiting = NO_POSITION, .later = NO_POSITION};
	if (ret)
		return ret;
	ret = config->queue_bytes ? queue_init(&ring->queue, config->queue_bytes, err) : 0;
	if (ret)
		return ret;
	memset(memory, 0, ring_stride(config->data_bytes));
	ring->header = memory;
	ring->data = (uint8_t *)memory + RING_HEADER_BYTES;
	ring_publish_limit(ring);
	return 0;
}

void ring_deinit(struct ring *ring)
{
	free(ring->queue.bytes);
	ring->queue = (struct ring_queue){0};
}

/* --- a pass ---------------------------------------------------------------------------------- */

/* In equal pieces, each but the last of whole words. */
void ring_zero(uint8_t *at, size_t bytes)
{
	const size_t pieces = bytes / ZERO_BYTES + 1, each = bytes / pieces & ~(size_t)7;

	for (size_t i = 1; i < pieces; i++, at += each)
		memset(at, 0, each);
	memset(at, 0, bytes - (pieces - 1) * each);
}

/*
 * Zero what is reserved up to `end`. Where it crosses the end of the data, the last record before
 * it may fill the tail; where it does not, the tail may belong to a record that starts at `end`.
 */
void ring_skip_to(struct ring *ring, uint64_t end)
{
	uint32_t size = ring->config.data_bytes, offset = ring_offset_of(ring, ring->consumed);
	uint64_t length = end - ring->consumed;

	ring->counts.skipped_bytes += length;
	ring->consumed = end;
	if (length <= size - offset) {
		memset(ring->data + offset, 0, length);
		return;
	}
	memset(ring->data + offset, 0, size - offset + RING_MAX_RECORD);
	memset(ring->data, 0, length - (size - offset));
}

/* The end of what is reserved. An impossible value makes the ring dead. */
uint64_t ring_snapshot(struct ring *ring)
{
	uint64_t reserve = __atomic_load_n(&ring->header->reserve, __ATOMIC_ACQUIRE);

	if (ring->closed)
		return ring->end;
	if (ring->dead)
		return ring->consumed;
	if (reserve - ring->consumed <= ring->config.data_bytes && reserve % RING_RECORD_ALIGN == 0)
		return reserve;
	ring->counts.malformed++;
	__atomic_store_n(&ring->dead, true, __ATOMIC_RELEASE);
	return ring->consumed;
}

/* Bytes of a record that a trampoline may have written; 0 if none writes such a record. */
static size_t valid_size(const struct ring *ring, const struct ring_record *record)
{
	const struct ring_shape *shape;
	size_t size;

	if (!(record->commit & RING_COMMITTED) || ring_id(record) >= ring->config.nr_shapes)
		return 0;
	shape = &ring->config.shapes[ring_id(record)];
	size = ring_shape_size(shape);
	if (!size || record->items > ring_shape_items(shape))
		return 0;
	return size + record->items * sizeof(uint64_t);
}

/* A record from after the pass began is left for the next pass, which is later than it. */
bool ring_is_later(struct ring *ring, uint64_t position, uint64_t tsc,
		   const struct ring_clock *clock)
{
	bool seen_before = ring->later == position;

	if (tsc <= ring_horizon(clock) || (seen_before && tsc > clock->tsc))
		return false;
	ring->later = position;
	return true;
}

uint64_t ring_clamp(struct ring *ring, uint64_t tsc, uint64_t horizon)
{
	uint64_t stamp = tsc > horizon ? horizon : tsc;

	if (stamp < ring->floor)
		stamp = ring->floor;
	ring->counts.clamped += stamp != tsc;
	ring->floor = stamp;
	return stamp;
}

/*
 * Complete records behind each other, which are copied and cleared at once. The guest may change
 * them meanwhile: the copies get the headers that were validated.
 */
enum { RUN_MAX = 64 };

struct run {
	struct {
		uint32_t commit, items;
		uint64_t tsc;
		size_t size;
	} records[RUN_MAX];
	size_t n, bytes;
};

enum step {
	STEP_ADDED,
	STEP_RUN_FULL, /* or its last record is the last before the ring's end */
	STEP_LATER,    /* nothing more before the horizon */
	STEP_UNCOMMITTED,
	STEP_MALFORMED,
	STEP_QUEUE_FULL,
};

static size_t queue_left(const struct ring_queue *queue)
{
	return queue->capacity - (queue->tail - queue->head);
}

static enum step add_next(struct ring *ring, struct run *run, uint64_t end,
			  const struct ring_clock *clock)
{
	const uint64_t position = ring->consumed + run->bytes;
	struct ring_record *source =
		(struct ring_record *)(void *)(ring->data + ring_offset_of(ring, position));
	struct ring_record head;
	size_t size;

	if (run->n == RUN_MAX || ((position ^ ring->consumed) & ring->config.data_bytes))
		return STEP_RUN_FULL;
	head.commit = __atomic_load_n(&source->commit, __ATOMIC_ACQUIRE);
	if (!head.commit)
		return STEP_UNCOMMITTED;
	head.items = __atomic_load_n(&source->items, __ATOMIC_RELAXED);
	size = valid_size(ring, &head);
	if (!size || size > end - position)
		return STEP_MALFORMED;
	head.tsc = __atomic_load_n(&source->tsc, __ATOMIC_RELAXED);
	if (ring_is_later(ring, position, head.tsc, clock))
		return STEP_LATER;
	if (run->bytes + size > queue_left(&ring->queue))
		return STEP_QUEUE_FULL;
	run->records[run->n].commit = head.commit;
	run->records[run->n].items = head.items;
	run->records[run->n].tsc = ring_clamp(ring, head.tsc, ring_horizon(clock));
	run->records[run->n++].size = size;
	run->bytes += size;
	return STEP_ADDED;
}

static void take(struct ring *ring, const struct run *run)
{
	uint8_t *source = ring->data + ring_offset_of(ring, ring->consumed);
	uint8_t *copy = (uint8_t *)queue_room(&ring->queue, run->bytes);

	memcpy(copy, source, run->bytes);
	memset(source, 0, run->bytes);
	for (size_t i = 0; i < run->n; copy += run->records[i++].size) {
		struct ring_record *record = (struct ring_record *)(void *)copy;

		record->commit = run->records[i].commit;
		record->items = run->records[i].items;
		record->tsc = run->records[i].tsc;
	}
	ring->queue.tail += run->bytes;
	ring->consumed += run->bytes;
	ring->counts.records += run->n;
}

/* Take a run; returns why it ended. */
static enum step take_run(struct ring *ring, uint64_t end, const struct ring_clock *clock)
{
	enum step step = STEP_ADDED;
	struct run run;

	run.n = run.bytes = 0;
	while (step == STEP_ADDED && ring->consumed + run.bytes != end)
		step = add_next(ring, &run, end, clock);
	if (run.n)
		take(ring, &run);
	return step;
}

/* Bytes of the complete record at `position`; 0: it is not complete, or damaged. */
static size_t complete_size(const struct ring *ring, const struct ring_record *record)
{
	struct ring_record head = {.commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE)};

	if (!(head.commit & RING_COMMITTED) || ring_id(&head) >= ring->config.nr_shapes)
		return 0;
	if (ring->config.shapes[ring_id(&head)].items)
		head.items = ring_read_items(&ring->config.shapes[ring_id(&head)], record);
	return valid_size(ring, &head);
}

bool ring_newest_stamp(const struct ring *ring, uint64_t *tsc)
{
	const uint64_t reserve = __atomic_load_n(&ring->header->reserve, __ATOMIC_ACQUIRE);
	uint64_t left = (ring->closed ? ring->end : reserve) - ring->consumed;
	uint64_t position = ring->consumed;
	bool found = false;

	if (ring->dead || left > ring->config.data_bytes)
		return false;
	for (;;) {
		const struct ring_record *record =
			(const struct ring_record *)(const void *)(ring->data +
								   ring_offset_of(ring, position));
		size_t size = left ? complete_size(ring, record) : 0;

		if (!size || size > left)
			return found;
		*tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
		found = true;
		position += size;
		left -= size;
	}
}

/* How long the pass knows that the next record is not committed. */
static uint64_t waited_ns(const struct ring *ring, const struct ring_clock *clock)
{
	return clock->now_ns - ring->waiting_since;
}

/* Its CPU writes no other record before it, but for a few of NMIs. */
bool ring_is_stalled(struct ring *ring, const struct ring_clock *clock)
{
	if (ring->waiting != ring->consumed) {
		ring->waiting = ring->consumed;
		ring->waiting_since = clock->now_ns;
	}
	if (waited_ns(ring, clock) >= clock->stall_ns)
		return true;
	return waited_ns(ring, clock) >= clock->late_ns && ring_room(ring) != RING_ROOM;
}

/* An unfinished record holds up others that may be later. */
static uint64_t unfinished_watermark(const struct ring *ring, const struct ring_clock *clock)
{
	return waited_ns(ring, clock) < clock->late_ns ? ring->floor : ring_horizon(clock);
}

/* Take all there is up to `end`; returns the watermark. */
static uint64_t consume_to(struct ring *ring, uint64_t end, const struct ring_clock *clock)
{
	while (ring->consumed != end) {
		switch (take_run(ring, end, clock)) {
		case STEP_ADDED:
		case STEP_RUN_FULL:
			break;
		case STEP_LATER:
			return ring_horizon(clock);
		case STEP_QUEUE_FULL:
			return ring->floor;
		case STEP_UNCOMMITTED:
			if (!ring_is_stalled(ring, clock))
				return unfinished_watermark(ring, clock);
			ring->counts.stalled++;
			ring_skip_to(ring, end);
			break;
		case STEP_MALFORMED:
			ring->counts.malformed++;
			ring_skip_to(ring, end);
			break;
		}
	}
	return ring_horizon(clock);
}

static void count_lost(struct ring *ring)
{
	uint64_t lost = __atomic_load_n(&ring->header->lost, __ATOMIC_RELAXED);

	if (lost >= ring->seen_lost)
		ring->counts.lost += lost - ring->seen_lost;
	else
		ring->counts.malformed++;
	ring->seen_lost = lost;
}

void ring_end_pass(struct ring *ring, uint64_t before)
{
	count_lost(ring);
	ring_publish_limit(ring);
	ring->stuck = ring->consumed == before && !ring->moved && ring_room(ring) != RING_ROOM;
	ring->moved = false;
}

uint64_t ring_consume(struct ring *ring, const struct ring_clock *clock)
{
	const uint64_t before = ring->consumed;
	uint64_t watermark = consume_to(ring, ring_snapshot(ring), clock);

	ring_end_pass(ring, before);
	return watermark > ring->floor ? watermark : ring->floor;
}

void ring_close(struct ring *ring)
{
	ring->end = ring_snapshot(ring);
	ring->closed = true;
}

bool ring_is_drained(const struct ring *ring)
{
	return ring->closed && ring->consumed == ring->end && !ring_first(ring);
}

/* An honest guest's `reserve` only grows. Beyond it is, as a distance, what was passed, too. */
bool ring_has_passed(const struct ring *ring, uint64_t mark)
{
	uint64_t reserve = __atomic_load_n(&ring->header->reserve, __ATOMIC_ACQUIRE);

	return ring->dead || mark == ring->consumed ||
	       mark - ring->consumed > reserve - ring->consumed;
}

bool ring_is_waiting(const struct ring *ring)
{
	return ring->waiting == ring->consumed;
}

void ring_find_stuck(const struct ring *rings, unsigned int n, struct ring_stuck *sum)
{
	for (unsigned int i = 0; i < n; i++) {
		sum->any |= rings[i].stuck;
		sum->alive |= rings[i].stuck && !rings[i].dead;
	}
}

void ring_show_life(struct ring *ring)
{
	__atomic_store_n(&ring->header->spin_deadline, 0, __ATOMIC_RELEASE);
}

void ring_raise_floor(struct ring *ring, uint64_t tsc)
{
	if (ring->floor < tsc)
		ring->floor = tsc;
}

enum ring_room ring_room(const struct ring *ring)
{
	uint64_t reserve = __atomic_load_n(&ring->header->reserve, __ATOMIC_RELAXED);

	if (__atomic_load_n(&ring->dead, __ATOMIC_ACQUIRE))
		return RING_DEAD;
	return reserve < __atomic_load_n(&ring->limit, __ATOMIC_ACQUIRE) ? RING_ROOM : RING_FULL;
}

bool ring_arm(struct ring *ring)
{
	struct ring_header *header = ring->header;

	if (ring_first(ring))
		return false;
	if (ring->dead) {
		ring_publish_limit(ring); /* the guest may have changed it */
		return true;
	}
	__atomic_store_n(&header->doorbell, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->limit, ring->consumed, __ATOMIC_RELEASE);
	__atomic_store_n(&header->limit, ring->consumed, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&header->reserve, __ATOMIC_ACQUIRE) == ring->consumed)
		return true;
	ring_publish_limit(ring);
	return false;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_RING_H
#define SONDE_PATCHER_RING_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/ring/layout.h"
#include "patcher/ring/stacks.h"

/*
 * The host's side of the rings (layout.h). A pass takes records out of memory that the guest
 * writes, and may damage, into queues that the guest cannot reach, and emits the records of all
 * CPUs in the order of their time stamps.
 *
 * Time stamps in a queue never go back, and are never later than the pass that took them: a stamp
 * outside of the two is clamped, and counted. One thread works on a ring; others may call
 * ring_room() at the same time.
 */

/* What a record may be to others. All but RING_OTHER begin with a key, and all but RING_OTHER and
 * RING_KEYED have no items. */
enum ring_role {
	RING_OTHER,
	RING_KEYED,  /* nothing more is known of it */
	RING_WHOLE,  /* it says all there is to say of a call */
	RING_CALL,   /* the call's return is recorded, too, with the same key ... */
	RING_RETURN, /* ... here, be it of this call or of another one */
};

/* Which of its fields a record of RING_RETURN has the result in, and the object's cache if it has
 * that. */
enum { RING_RETURN_RESULT = 1, RING_RETURN_CACHE = 2 };

/* The records with one id. */
struct ring_shape {
	uint16_t size;  /* bytes without items, 0 = there are no such records */
	uint16_t items; /* 8 bytes each; the most that one may have */
	/* Of direct records: where 32 bits say how many there are, in bytes from the start. 0: in
	 * the record's second word. */
	uint16_t items_at;
	uint16_t role; /* enum ring_role */
};

/*
 * Records of an id may become valid in the middle of a pass. Who reads the role, the size and the
 * items in this order has a size with a role, and items with a size. x86 keeps loads in order.
 */
static inline enum ring_role ring_shape_role(const struct ring_shape *at)
{
	return __atomic_load_n(&at->role, __ATOMIC_RELAXED);
}

static inline size_t ring_shape_size(const struct ring_shape *at)
{
	return __atomic_load_n(&at->size, __ATOMIC_RELAXED);
}

static inline uint32_t ring_shape_items(const struct ring_shape *at)
{
	return __atomic_load_n(&at->items, __ATOMIC_RELAXED);
}

static inline void ring_shape_write(struct ring_shape *at, const struct ring_shape *shape)
{
	__atomic_store_n(&at->items_at, shape->items_at, __ATOMIC_RELAXED);
	__atomic_store_n(&at->items, shape->items, __ATOMIC_RELAXED);
	__atomic_store_n(&at->size, shape->size, __ATOMIC_RELEASE);
	__atomic_store_n(&at->role, shape->role, __ATOMIC_RELEASE);
}

struct ring_config {
	uint32_t data_bytes; /* a power of two, at least RING_MIN_DATA */
	size_t queue_bytes;  /* of records that wait for those of other CPUs */
	/* By id; must outlive the ring. May change for ids of which no record is in the ring:
	 * between passes, or by ring_shape_write(). */
	const struct ring_shape *shapes;
	size_t nr_shapes;
};

/* When a pass happens. */
struct ring_clock {
	uint64_t tsc; /* the guest's, read before the pass */
	/*
	 * Ticks until a reservation is visible. A CPU may read its TSC while the store of its
	 * reservation is not visible yet: a ring that appears empty at `tsc` is known to be empty
	 * only some microseconds earlier. 0 for a stopped guest.
	 */
	uint64_t margin;
	uint64_t now_ns;   /* host time, monotonic */
	uint64_t stall_ns; /* how long a record may stay reserved and not committed */
	/*
	 * How long such a record holds up the records of other CPUs, and may have a full ring
	 * behind it; stall_ns where nothing waits for room.
	 */
	uint64_t late_ns;
};

/* All since ring_init(). Records that are damaged are lost; how many is not known. */
struct ring_counts {
	uint64_t records; /* taken out */
	uint64_t lost;    /* records, or items of them, that the guest counted as lost */
	/* Time stamps that were changed. A few are normal: an NMI's record is behind the one it
	 * interrupted and has the earlier stamp. */
	uint64_t clamped;
	uint64_t stalled;       /* damage: reserved and never committed */
	uint64_t malformed;     /* damage: what no trampoline writes */
	uint64_t skipped_bytes; /* by either */
};

/* Of these, the events that are lost, as far as that is known. */
static inline uint64_t ring_losses(const struct ring_counts *counts)
{
	return counts->lost + counts->stalled + counts->malformed;
}

/* The host's copies of a ring's records, oldest first, all of them validated. */
struct ring_queue {
	uint8_t *bytes;
	size_t capacity;
	size_t head, tail; /* offsets of the oldest record and behind the newest */
};

struct ring {
	struct ring_header *header; /* shared with the guest */
	uint8_t *data;              /* likewise */
	struct ring_config config;
	struct ring_queue queue;
	struct ring_counts counts;
	uint64_t consumed;      /* position of the next record to take */
	uint64_t limit;         /* what header->limit must be; read by other threads */
	uint64_t floor;         /* no time stamp from here on is smaller */
	uint64_t seen_lost;     /* header->lost at the last pass */
	uint64_t waiting;       /* position of a record that is not committed */
	uint64_t waiting_since; /* ns */
	uint64_t later;         /* position of a record from after the pass that saw it first */
	bool dead;              /* read by other threads */
	bool moved;             /* records were taken out since the last pass over it */
	bool stuck;             /* the last pass took nothing out, and left no room */
	bool closed;
	uint64_t end; /* closed: where the last pass stops */
};

/*
 * Make an empty ring in `memory`, before trampolines use it: ring_stride(data_bytes) bytes, 8-byte
 * aligned, borrowed. -EINVAL for impossible sizes, -ENOMEM.
 */
int ring_init(struct ring *ring, void *memory, const struct ring_config *config, struct error *err);
void ring_deinit(struct ring *ring);

/*
 * One pass: move what is committed, not later than the clock, and fits into the queue; give the
 * room back to the guest; disarm the doorbell. Every step is bounded by the ring's size.
 *
 * If a record stays uncommitted for stall_ns, or is malformed, everything up to the end of what is
 * reserved is lost: where the next record begins is not known. So it is after late_ns if the ring
 * behind it is full: its CPU has gone on without finishing it. An impossible position makes the
 * ring dead: its limit becomes 0, so that every writer takes the slow path from then on.
 *
 * Returns the ring's watermark, in ticks: no record that a later pass takes has a smaller stamp. An
 * uncommitted record may have any stamp from the last one on; after late_ns it gets one from behind
 * this pass.
 */
uint64_t ring_consume(struct ring *ring, const struct ring_clock *clock);

/*
 * Full rings of which the last pass took nothing out: a ring that is dead, or one whose queue is
 * full behind another CPU's unfinished record. A writer that waits for room in it must not wait for
 * ever. `alive`: any that is not dead.
 */
struct ring_stuck {
	bool any, alive;
};

/* Add what is so of `n` rings. */
void ring_find_stuck(const struct ring *rings, unsigned int n, struct ring_stuck *sum);

/* Clear spin_deadline of this ring: writers that wait for room may go on waiting, as the host makes
 * some. */
void ring_show_life(struct ring *ring);

/* The oldest record in the queue, valid until the next pass; NULL if there is none. */
const struct ring_record *ring_first(const struct ring *ring);
/* Drop it; there must be one. */
void ring_pop(struct ring *ring);

/* From now on passes take what is reserved at this moment, and nothing behind it: they come to an
 * end though the guest goes on writing. */
void ring_close(struct ring *ring);

/* Closed, and nothing is left in the ring or in its queue. */
bool ring_is_drained(const struct ring *ring);

/*
 * Whether all that was reserved when header->reserve was `mark` has left the ring. The guest may
 * have written any position there: one that is not reserved any more is nothing to wait for. By the
 * thread that makes the passes.
 */
bool ring_has_passed(const struct ring *ring, uint64_t mark);

/* Whether the last pass found a record that is reserved and not committed. */
bool ring_is_waiting(const struct ring *ring);

/*
 * The stamp of the newest record to take, as the guest wrote it: of those that are complete up to
 * the first one that is not. False: there is none. Reads the header of each.
 */
bool ring_newest_stamp(const struct ring *ring, uint64_t *tsc);

/* No later record of this ring shall have a smaller stamp than `tsc`: other rings' records up to it
 * were emitted. */
void ring_raise_floor(struct ring *ring, uint64_t tsc);

enum ring_room {
	RING_ROOM, /* a writer that tries again succeeds */
	RING_FULL, /* until after a pass or several */
	RING_DEAD, /* for ever: the writer has to skip its record */
};

/* For a vCPU in the slow path. Any thread. */
enum ring_room ring_room(const struct ring *ring);

/*
 * Have the very next record ring the doorbell, in drop mode too, until the next pass. Returns
 * false, and arms nothing, if there is something to take or in the queue. A record whose
 * reservation was not visible yet does not ring: call this again once, after the clock's margin.
 */
bool ring_arm(struct ring *ring);

/* --- all CPUs' rings in one order (merge.c) -------------------------------------------------- */

enum { RING_MERGE_MAX = 128 };

/*
 * A record that a pass takes, validated; or two: a call whose return is the next record of the same
 * ring, which have the return's stamp. Fields, and the items behind them, may be the guest's
 * memory, which may change meanwhile: each word is to be read once only.
 */
struct ring_taken {
	uint64_t tsc;
	const uint64_t *fields;
	/* Of a call: the fields of its return, whose record lies behind the call's; NULL: that is
	 * not here. */
	const uint64_t *returned;
	uint64_t key;             /* the first field, which is read already; 0 with RING_OTHER */
	uint32_t id, items;
	uint32_t returned_id;
	uint16_t ring; /* its number; of those in a struct ring_head set once */
	uint8_t alone; /* enum ring_alone */
};

/* Whether a record is RING_WHOLE, or a call with its return, and no call is open on its stack. */
enum ring_alone {
	RING_APART,    /* it is not */
	RING_ALONE,    /* it is */
	RING_IF_CLEAR, /* if none is when it is emitted: struct ring_stacks */
};

static inline bool ring_is_alone(const struct ring_taken *taken, const struct ring_stacks *stacks)
{
	return taken->alone == RING_ALONE ||
	       (taken->alone == RING_IF_CLEAR &&
		!stacks->open[ring_stack_hash(ring_stack_of(stacks, taken->key + RING_KEY_BIAS))]);
}

/* The next records of a ring in a pass, of which the headers were read: so many, and they begin in
 * so much memory. */
enum { RING_AHEAD = 64, RING_AHEAD_BYTES = 8192, RING_MIN_RECORD = 24 };

struct ring_head {
	struct ring_taken *next, *end; /* in `ahead`: those that were not emitted yet */
	struct ring_taken *until;      /* those of `next` that a window has end here */
	uint8_t *begin, *behind; /* the guest's memory: of the first in `ahead`, behind the last */
	uint64_t nr_records;     /* of all that is in `ahead` */
	uint64_t stop;           /* position where the pass ends */
	uint64_t kept;           /* bytes that left the ring, and are not the guest's yet */
	unsigned int nr_apart;
	bool has_other;                          /* one of RING_OTHER, whose stack is not known */
	uint8_t apart[RING_AHEAD];               /* numbers of those that are not whole */
	struct ring_taken ahead[RING_AHEAD + 1]; /* behind the last is one with the latest stamp */
};

/*
 * A pass first emits records straight from the rings until it meets one that is unusual: not
 * complete, damaged, or with a stamp that goes back. Mostly there is none. It does so in windows of
 * time: all that is in one is emitted before what is behind it. In a window, the records of one
 * ring, and those of calls on one stack, are in order; those of different rings only if such calls
 * are in more than one.
 *
 * Then it takes what it can from every ring and emits what is not later than the smallest of the
 * rings' watermarks: no record that is older can come any more. The rest waits in the rings'
 * queues, which do not grow: behind a full queue records stay in their ring, which then fills, so
 * that its writer blocks or loses records. That ends by itself: if a full queue's ring has the
 * smallest watermark, the pass emits the whole queue; if a ring with an uncommitted record has it,
 * the time of that record is limited.
 */
struct ring_merge {
	struct ring *rings[RING_MERGE_MAX]; /* by CPU */
	unsigned int nr_rings;
	const struct ring_stacks *stacks;
	uint64_t tsc;       /* the latest that any pass was given */
	uint64_t watermark; /* every record up to it was emitted */
	struct ring_place {
		uint64_t tsc; /* of the CPU's next record */
		unsigned int cpu;
	} order[RING_MERGE_MAX + 1]; /* CPUs with records, the one with the oldest first */
	unsigned int nr_order;
	unsigned int active[RING_MERGE_MAX]; /* CPUs that have records in `heads` */
	unsigned int nr_active;
	/* Of a window, by hash: which ring the records on this stack are in, if their order matters
	 * (straight.c). */
	uint8_t marks[RING_NR_STACKS];
	uint64_t marked[RING_NR_STACKS];  /* the stack */
	uint16_t touched[RING_NR_STACKS]; /* hashes of these */
	unsigned int nr_touched;
	bool has_other;                         /* the window may have records of RING_OTHER */
	struct ring_head heads[RING_MERGE_MAX]; /* by CPU */
};

/* `rings` must outlive the merge, and so must `stacks`, which who takes the records keeps.
 * -EINVAL for more than RING_MERGE_MAX, or none. */
int ring_merge_init(struct ring_merge *merge, struct ring *rings, unsigned int nr_rings,
		    const struct ring_stacks *stacks, struct error *err);

/* One in the host's memory. */
static inline struct ring_taken ring_take(const struct ring_record *record)
{
	return (struct ring_taken){.tsc = record->tsc,
				   .fields = record->fields,
				   .id = ring_id(record),
				   .items = record->items};
}

/* Takes records of one ring, valid during the call, in the order of their stamps; see struct
 * ring_merge. */
typedef void ring_emit_fn(void *arg, const struct ring_taken *taken, size_t n);

/*
 * One pass over all rings. No record is older than one that a pass before has emitted. A clock that
 * goes back stands still.
 *
 * With margin 0 and stall_ns 0, and all rings closed, one of any two passes emits a record or takes
 * one out of a ring, until all are drained: a pass skips what is not committed, takes what was
 * later than the pass before, and empties one of the full queues.
 */
void ring_merge_pass(struct ring_merge *merge, const struct ring_clock *clock, ring_emit_fn *emit,
		     void *arg);

#endif

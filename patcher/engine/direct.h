/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_DIRECT_H
#define SONDE_PATCHER_ENGINE_DIRECT_H

#include <pthread.h>
#include "introspect/tasks/quiesce.h"
#include "patcher/engine/code-arena.h"
#include "patcher/engine/engine.h"
#include "patcher/ring/direct.h"
#include "patcher/trampoline/trampoline.h"

/*
 * The direct lane of the ring engine: direct-lane.c has its slots and rings, direct-code.c its
 * code, direct-change.c brings it from one set of instances to the next, direct-retire.c takes away
 * what is left behind, direct-drain.c empties the rings, direct-mix.c takes what several slots have
 * written in turn, direct-read.c makes events of records, and call chains of copied stacks,
 * direct-count.c has the rings whose memory is for counts.
 */
enum {
	DIRECT_GROUPS =
		3, /* sets of rings, one per vCPU each; with the ordered lane's there are 4 */
	DIRECT_NO_PLACE = -1,
	DIRECT_BELL = -2,   /* instead of a place, and of a group */
	DIRECT_SLOT = -3,   /* instead of a place */
	DIRECT_INSIDE = -4, /* likewise */
};

/*
 * A slot is the id of an instance's records, and its bit in masks. It is used again only when no
 * code writes that id any more and the rings have been emptied since.
 */
enum direct_state {
	DIRECT_FREE,
	DIRECT_NEW, /* of a change that is prepared */
	DIRECT_LIVE,
	DIRECT_LEAVING,  /* the text no longer leads to its code, in which vCPUs may be */
	DIRECT_DRAINING, /* the code is gone; records may be in the rings */
};

/* How a field gets from a record to an event. */
enum direct_copy {
	DIRECT_COPY_TEXT,  /* 32 bits, sign-extended: an address of text */
	DIRECT_COPY_INT,   /* 32 bits */
	DIRECT_COPY_WORD,  /* 64 bits plus the bias */
	DIRECT_COPY_WORDS, /* so many times 64 bits */
};

struct direct_column {
	enum direct_copy copy;
	uint16_t from, to; /* bytes from the start of record and event */
	uint16_t words;
	int64_t bias;
};

enum { DIRECT_MAX_COLUMNS = 10 };

/* A long string, which is behind all fields of its record: its length, and where it goes. */
struct direct_string {
	uint16_t length, to; /* bytes from the start of record and event */
};

/* A long text, which lies among the other fields of its record. */
struct direct_text {
	uint16_t from, to; /* bytes from the start of record and event */
	uint16_t size;     /* less than FETCH_LONG_STRING */
};

/* How records of a slot become events: the whole of a run field by field. */
struct direct_plan {
	uint16_t stride; /* bytes of an event */
	uint16_t most;   /* events that DIRECT_EVENTS_BYTES have room for */
	uint16_t stack;  /* where its call chain is, if it has one */
	bool is_bare;    /* the address of the site is all that an event has: nothing to copy */
	uint16_t nr_columns;
	struct direct_column columns[DIRECT_MAX_COLUMNS];
	uint16_t strings_at; /* bytes from the start of a record: the first one, if it has some */
	uint16_t nr_strings;
	struct direct_string strings[EVENT_MAX_LONG_STRINGS];
	uint16_t nr_texts;
	struct direct_text texts[EVENT_MAX_LONG_STRINGS];
};

struct direct_slot {
	enum direct_state state;
	struct direct_want want;
	struct direct_layout layout;
	struct direct_plan plan;
	unsigned int group;
};

/* Where a vCPU in a slow path continues; whose ring it waits for. */
struct direct_slow {
	uint64_t retry, skip; /* gvas */
	int group;            /* -1: the ordered lane's; DIRECT_BELL */
};

/* What code is for: shared by sites, shared by return slots, of one instruction in the middle of a
 * function, or a probe's own trampoline with records for others. A bell is an OUT in front of
 * shared code. */
struct direct_use {
	uint32_t mask; /* the slots that it writes records for; of a bell, and of a probe, it may be
			* 0 */
	int place;     /* of the probe, in the plan; or DIRECT_NO_PLACE, _BELL, _SLOT, _INSIDE */
	size_t view_index; /* of a probe's: as in the trampoline set */
	uint64_t next; /* DIRECT_SLOT: gva of the thunk that it goes to; 0: it returns */
	struct displaced_insn insn; /* DIRECT_INSIDE */
};

/* Code in the arena. */
struct direct_piece {
	uint64_t gva;
	uint32_t size;
	struct direct_use use;
	enum direct_state state;
	bool used;    /* by the change that is prepared */
	bool reused;  /* other code stood in its place */
	bool guarded; /* records nothing while the CPU reads memory for a record */
	unsigned int nr_slow;
	struct {
		uint64_t trap;
		struct direct_slow slow;
	} slow[DIRECT_MAX_RECORDS + 1];
};

struct direct_lane {
	pthread_mutex_t change; /* of code: taken before `lock`, held while a change is prepared */
	pthread_mutex_t lock;   /* of slots and rings: the thread holds it during a pass, but not
				 * while that waits for the disk: who stops the guest waits for it */
	struct direct_slot slots[DIRECT_MAX];
	struct ring_shape shapes[DIRECT_MAX]; /* by slot */
	unsigned int nr_groups;               /* that there is memory for */
	uint64_t offset;                      /* of the first group's rings in the scratch memory */
	uint32_t ring_bytes;
	struct ring *rings;             /* of the groups in use: by group, then by vCPU */
	uint64_t losses[DIRECT_GROUPS]; /* that were noted */
	uint64_t *marks;       /* by ring: the position that empties it of DIRECT_DRAINING slots */
	unsigned int nr_rings; /* a multiple of the vCPUs */
	struct code_arena arena;
	struct direct_piece **pieces;
	size_t nr_pieces, room;
	struct u64_map by_trap; /* gva of a slow path -> struct direct_slow; changes with the guest
				   stopped */
	uint32_t task_fields;   /* of enum event_task_fields: whose facts are known */
	size_t view_index;      /* of the probes, as in the trampoline set */
	bool guarded;           /* so is its code: an instance reads memory */

	/* Code that is being left. What comes later waits until `quiesce` is over. */
	_Atomic bool retiring;
	struct quiesce quiesce;

	/* Of the change that is prepared. */
	bool next_guarded;
	size_t next_view_index;
	bool next_held; /* by who prepares it: the guest stands still meanwhile */
	struct patch_set next, next_slots, next_inside, difference;
	struct patch_set unseen; /* of the plan's: they did not stand at their sites */
	struct {
		size_t number; /* as of patch_plan_find_off() */
		uint8_t bytes[PATCH_MAX_SIZE];
	} * jumps; /* the probes' patches that get another jump */
	size_t nr_jumps;
	bool *off; /* by the plan's patches; NULL: as they are */
};
struct ring_engine;

/* --- direct-lane.c ---------------------------------------------------------------------------- */

/* Once, and at the end. */
void direct_init(struct ring_engine *x);
void direct_deinit(struct ring_engine *x);
/* With the memory: the arena is what the trampoline set has left of the code. */
void direct_begin(struct ring_engine *x);
/* With the memory gone: no slot is used any more. */
void direct_end(struct ring_engine *x);

/* With `change` held: ids[i] is the slot of wants[i]. -ENOSPC. */
int direct_find_slots(struct ring_engine *x, const struct direct_change *change, unsigned int *ids,
		      struct error *err);
void direct_drop_new_slots(struct direct_lane *lane);
/* Under the lane's lock, with the guest stopped: the text leads to code that writes its records. */
void direct_open_slot(struct direct_lane *lane, unsigned int id);
/* Under the lane's lock: no record of this slot can come any more. */
void direct_close_slot(struct ring_engine *x, unsigned int id);
bool direct_uses(struct engine *engine, const void *owner);
/* Rings of all groups that slots belong to. */
int direct_make_groups(struct ring_engine *x, struct error *err);
/* With `change` held: let the thread free what is being left. False: nothing is, or for too long.
 */
bool direct_wait_freed(struct ring_engine *x, unsigned int *tries);

/* --- direct-count.c --------------------------------------------------------------------------- */

/* With `change` held: functions whose calls are to be counted have room for that. -ENOSPC. */
int direct_add_counts(struct ring_engine *x, const struct direct_change *change, struct error *err);
/* What code of this use counts for a want. */
struct count_spec direct_count_spec(const struct ring_engine *x, const struct direct_want *want,
				    const struct direct_use *use);
/* Under the lane's lock: a slot has become free. */
void direct_leave_counts(struct direct_lane *lane, const struct direct_want *want);

/* The memory is about to go, and no code counts any more. */
void direct_keep_counts(struct ring_engine *x);

/* --- direct-code.c, with `change` held -------------------------------------------------------- */

/* The code for this use, which is made if there is none. */
int direct_find_piece(struct ring_engine *x, const struct direct_use *use,
		      const struct direct_piece **out, struct error *err);
void direct_drop_piece(struct direct_lane *lane, size_t i);
/* All that are live, or none. */
void direct_mark_used(struct direct_lane *lane, bool used);
/* Of pieces that are used. */
uint32_t direct_used_slots(const struct direct_lane *lane);
/* With the guest stopped: vCPUs that get to new code execute it, and not what stood there before.
 */
int direct_renew_code(struct ring_engine *x, struct error *err);
/* With the guest stopped: the slow paths of new code must be known before a vCPU gets there. */
int direct_publish_traps(struct direct_lane *lane, struct error *err);
void direct_forget_traps(struct direct_lane *lane, const struct direct_piece *piece);
void direct_forget_new_traps(struct direct_lane *lane);
/* With the memory gone. */
void direct_forget_code(struct direct_lane *lane);
/* Where to go on from a slow path, or NULL. On vCPUs' threads. */
const struct direct_slow *direct_slow_at(const struct ring_engine *x, uint64_t gva);

/* enum event_task_fields: of a view of the plan's probes; NULL: none. */
uint32_t direct_view_task_fields(const struct ring_engine *x, const struct probe_view *view);
/* Without `change` held, as this may stop the guest, and others hold it with the guest stopped:
 * find where the fields of the task are that the change wants. Errors as task_places_find() and
 * percpu_current_task(). */
int direct_find_tasks(struct ring_engine *x, const struct direct_change *change, struct error *err);

/* --- direct-change.c: operations of struct engine_ops ----------------------------------------- */

int direct_prepare(struct engine *engine, const struct direct_change *change, struct error *err);
int direct_commit(struct engine *engine, size_t *switched, struct error *err);
void direct_discard(struct engine *engine);

/* Of the change that is prepared: text as it is, and as it is to be. */
struct direct_texts {
	struct patch_set from, to;
};

/* A patch of the plan, whether it is off from then on; numbers as of patch_plan_find_off(). */
struct patch *direct_patch(const struct ring_engine *x, size_t number);
bool direct_will_be_off(const struct ring_engine *x, size_t number);
/* A probe's patch: its trampoline writes the records of the direct lane that `mask` says, too. */
int direct_add_private(struct ring_engine *x, size_t number, uint32_t mask,
		       struct direct_texts *texts, struct error *err);
/* Another site: code for this mask, to the lane's next patches. `place` may be DIRECT_BELL. */
int direct_add_shared(struct ring_engine *x, const struct patch *site, uint32_t mask, int place,
		      struct error *err);
/* Likewise a return slot that no probe holds, which goes on at the thunk `next`. */
int direct_add_slot(struct ring_engine *x, const struct patch *slot, uint32_t mask, uint64_t next,
		    struct error *err);

/* --- direct-keep.c ---------------------------------------------------------------------------- */

/* The direct lane goes on with what it records, and the plan's patches come and go. */
int direct_keep(struct ring_engine *x, struct direct_texts *texts, struct error *err);

/* --- direct-retire.c -------------------------------------------------------------------------- */

/* With `change` held and the guest stopped: all code that is DIRECT_LEAVING is being left from now
 * on, as DIRECT_DRAINING. */
void direct_begin_retiring(struct ring_engine *x);
/* Likewise: slots that no code writes any more have all records that there will be in the rings. */
void direct_drain_slots(struct ring_engine *x);
bool direct_is_retiring(struct ring_engine *x);
/* With the guest stopped, while `retiring`: no task or vCPU is inside the code that is being left.
 */
void direct_retire(struct ring_engine *x);

/* --- direct-read.c ---------------------------------------------------------------------------- */

void direct_plan_make(struct direct_plan *plan, const struct direct_want *want,
		      const struct direct_layout *layout);
enum {
	/* Of most classes those of a batch. */
	DIRECT_EVENTS_BYTES = 64 * EVENT_MAX_SHORT_SIZE,
};
_Static_assert((int)DIRECT_EVENTS_BYTES >= (int)EVENT_MAX_SIZE, "one that has");

/* Events of a run of `most` or fewer, one every `stride` bytes; of each only what the slot has
 * wanted is written: but for stacks. */
void direct_read(const struct direct_plan *plan, const struct direct_run *run, uint8_t *events);

/* Some of mixed records. */
struct direct_places {
	const uint8_t *numbers; /* theirs, in ascending order */
	size_t n;
	const uint8_t *const *at; /* where each of the mixed records begins */
	uint8_t *events;          /* of all of them, one every `stride` bytes */
	size_t stride;
};

/* What direct_read() copies, but for the first member of each event, long strings and texts. */
void direct_read_places(const struct direct_plan *plan, const struct direct_places *places);

/* The call chains of events of a slot that wants DIRECT_STACK. */
void direct_read_stacks(const struct ring_engine *x, const struct direct_slot *slot,
			const struct direct_run *run, uint8_t *events);

/* --- what direct-drain.c and direct-mix.c share ----------------------------------------------- */

/* Records of one ring, in one pass. */
struct direct_drained {
	struct ring_engine *x;
	unsigned int vcpu;
	uint32_t begun; /* slots that have some */
	uint64_t records[DIRECT_MAX];
	struct event_batch events;
};

/* So many records of this slot were events. */
void direct_count(struct direct_drained *d, uint32_t slot, size_t n);
/* Records of one slot. */
void direct_put_run(struct direct_drained *d, const struct direct_run *records);
/* Put mixed records of several slots. */
void direct_put_mixed(struct direct_drained *d, const struct direct_run *records);

/* --- direct-drain.c --------------------------------------------------------------------------- */

/* Move what is complete in the rings to the sinks, and tell the slots what was lost; returns how
 * many records. */
uint64_t direct_pass(struct ring_engine *x, const struct ring_clock *clock);
/* The guest's clock learns from the newest record of each ring; it has a tsc_seen(). */
void direct_show_stamps(struct ring_engine *x);
/* ring_find_stuck() of all groups. */
void direct_find_stuck(struct ring_engine *x, struct ring_stuck *sum);
bool direct_arm(struct ring_engine *x);
void direct_close_rings(struct ring_engine *x);
bool direct_is_drained(const struct ring_engine *x);
bool direct_is_waiting(struct ring_engine *x);

#endif

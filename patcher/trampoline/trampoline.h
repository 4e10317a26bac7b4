/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_TRAMPOLINE_H
#define SONDE_PATCHER_TRAMPOLINE_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/base/u64-map.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/probe/hist-program.h"
#include "patcher/probe/probe.h"
#include "patcher/ring/call-counts.h"
#include "patcher/ring/hist.h"
#include "patcher/ring/ring.h"
#include "patcher/text/displace.h"
#include "patcher/text/function.h"
#include "patcher/text/traps.h"

/*
 * Code that runs in the guest in place of a trap: it writes one record into the ring of its CPU
 * (patcher/ring/layout.h), or as many as its capture's items need, and goes on to where the guest
 * would have gone. An mcount site or a return slot becomes a jump to it. It leaves nothing on the
 * guest's stack. Interrupts are off inside, but for the first two instructions.
 *
 * At an entry it changes RAX, R10 and R11, which the calling convention leaves free there, and of
 * RDX, RCX and RSI those that hold no argument according to the capture. No caller relies on more:
 * a kernel with mcount sites is built without -fipa-ra. At a return it changes RCX, RDX, RSI, RDI,
 * R10 and R11, so that it is not for results of 128 bits. Of the flags only those of arithmetic
 * change, which hold nothing at either point.
 */

/* The rings, at the guest's addresses. */
struct trampoline_rings {
	uint64_t gva;        /* CPU 0's header, within 2 GiB of 0 or of the top */
	uint32_t data_bytes; /* a power of two, RING_MIN_DATA or more */
	uint32_t cpus;
	/* TRAMPOLINE_SPIN: ticks that a full ring is waited for; and the gva of 64 bits that hold
	 * until when (spin_deadline of layout.h), with the same restriction as that of the rings. */
	uint32_t patience;
	uint64_t deadline;
};

/* How to recognise a slab page: (32 bits at `offset` of struct page & mask) == value. */
struct slab_test {
	uint32_t offset, mask, value;
};

/* What of the kernel is written into code. Only what the capture needs must be filled in. */
struct trampoline_kernel {
	int32_t cpu_number;           /* %gs:this is the CPU's number, 32 bits */
	int32_t current_task;         /* %gs:this is the gva of the running task */
	uint32_t task_pid, task_comm; /* offsets in struct task_struct */
	uint32_t task_tgid;           /* likewise */
	uint32_t task_stack;          /* likewise, of the pointer to its stack ... */
	uint32_t stack_bytes;         /* ... of so many bytes */
	uint32_t user_regs; /* on the stack, from its lowest address: what user mode has entered
			     * the kernel with, a struct pt_regs */
	/* Offsets, of the first in struct task_struct: pointers that lead to the cgroup's id, which
	 * is the last. Each pointer may be NULL. */
	uint32_t cgroup_path[4];
	uint64_t page_offset, vmemmap; /* gvas: of physical address 0, and of its struct page */
	uint64_t pages;                /* up to the end of the direct map, of 4096 bytes */
	uint32_t page_size;            /* bytes of a struct page */
	uint32_t page_compound_head;   /* offsets in it */
	int32_t page_lowest_mask;      /* sign-extended; struct slab_page_facts */
	uint32_t page_slab_cache;
	struct slab_test slab;
	/* Items that are struct pages: a head has bit `page_head_bit` of its flags, and its order
	 * in the low 6 bits of the byte at `page_order`, maybe in the struct page behind it. */
	uint32_t page_flags, page_order;
	uint8_t page_head_bit; /* below 32 */
};

/* What a writer does when its ring is full. */
enum trampoline_full {
	TRAMPOLINE_BLOCK, /* rings the host for each record, which makes room */
	TRAMPOLINE_SPIN,  /* waits for room, where no host serves an OUT, until spin_deadline of
			     layout.h; then the record is lost */
	TRAMPOLINE_DROP,  /* the record is lost; rings if `doorbell` is set */
};

struct gate;
struct fetch_program;

/* A call is counted, instead of a record of it written (patcher/ring/call-counts.h). */
enum count_action {
	COUNT_HIT,   /* at an entry: that it was called */
	COUNT_START, /* the same; and when, for the return */
	COUNT_TAIL,  /* the same, of one that others may jump to; with tails only */
	COUNT_STOP,  /* at a return: the time since then */
};

struct count_spec {
	enum count_action action;
	struct call_counts_layout layout;
	uint32_t offset; /* of the function's counts; where code belongs to one function only */
};

/* An event is summed up, instead of a record of it written (patcher/ring/hist.h). */
struct hist_spec {
	const struct hist_program *program;
	struct hist_layout layout;
};

/*
 * A direct record (layout.h) that code at a function's entry, or at a return slot, writes for one
 * of several tracers, each into rings of its own choice.
 */
struct direct_spec {
	uint32_t id;     /* below RING_COMMITTED */
	uint32_t fields; /* of DIRECT_ENTRY_FIELDS or DIRECT_RETURN_FIELDS; with those of the task
			  * the kernel's figures must be known */
	struct trampoline_rings rings;
	enum trampoline_full full;
	/* The calls that it is written for; NULL: all. At returns, unless it is a pair's, on
	 * anything but arguments in registers. */
	const struct gate *gate;
	/* NULL: a record. Else the rings are where the counts are, and there are no fields. */
	const struct count_spec *count;
	const struct hist_spec *hist; /* likewise a histogram, also of what is fetched */
	/* What a dynamic probe fetches, behind the fields; NULL: nothing. */
	const struct fetch_program *fetch;
	/*
	 * Where fetches say that CPU 0 reads memory (struct ring_header), gva; that of the other
	 * CPUs lies as far from it as their rings from this one's. Meanwhile nothing is written:
	 * the functions that are called then are not the guest's calls. 0: only its own fetch
	 * looks, in its own ring, and reads no memory in the middle of another.
	 */
	uint64_t fetching;
};

enum { DIRECT_MAX_RECORDS = 16 }; /* of one call */

/* Of a record with these fields, and with what a dynamic probe fetches; NULL: nothing. */
struct direct_layout direct_layout_of(uint32_t fields, const struct fetch_program *fetch);

/* --- one trampoline -------------------------------------------------------------------------- */

struct trampoline_spec {
	uint64_t gva; /* where it will run */
	struct capture capture;
	uint32_t id; /* of its records, below RING_COMMITTED */
	struct trampoline_rings rings;
	uint64_t saved_arrays; /* gva of RING_SAVED_SLOTS, within 2 GiB likewise; 0 if not needed */
	const struct trampoline_kernel *kernel;
	uint64_t next; /* gva to go to: behind the site, or the return thunk; 0 = return */
	const struct epilogue *epilogue; /* in front of a return; NULL: none */
	enum trampoline_full full;
	/* The calls that the record is written for; NULL: all. Of a function whose returns are
	 * recorded, too, both have the same one, on gate_call_sources. */
	const struct gate *gate;
	uint64_t pids; /* gva of a pid_gate's bytes, within 2 GiB likewise; 0: all tasks */
	/* Direct records about the same point of the call; they are written behind the own one. */
	const struct direct_spec *extra;
	size_t nr_extra;   /* DIRECT_MAX_RECORDS or fewer */
	bool unprivileged; /* for tests in user mode: leaves interrupts on */
};

enum { TRAMPOLINE_MAX = 32 << 10 }; /* bytes: for dozens of dynamic probes' arguments */

/*
 * What code does when a record's ring is full: offsets of instructions. `trap` is an OUT to
 * GUEST_TRAP_PORT, reached with nothing reserved. The host makes room and moves RIP to `retry`, or
 * to `skip` if the record is to be lost. If it only lets the vCPU go on, the code counts the record
 * as lost. All three are about one record, not about the others of its call. With TRAMPOLINE_SPIN
 * `trap` is not an OUT but the start of a loop.
 */
struct slow_path {
	uint16_t trap, retry, skip;
};

struct trampoline {
	uint8_t bytes[TRAMPOLINE_MAX];
	uint16_t size;
	struct slow_path slow;
	struct slow_path extra[DIRECT_MAX_RECORDS];
	struct record_layout layout;
};

/*
 * Generate one trampoline and check it with the decoder: whole instructions, every branch to one of
 * them or to `next`. Errors:
 *   -EINVAL  the capture or the rings cannot be
 *   -ERANGE  an address is too far away
 *   -EILSEQ  the generated code is wrong
 */
int trampoline_generate(const struct trampoline_spec *spec, struct decoder *decoder,
			struct trampoline *out, struct error *err);

/* --- the trampolines of a plan (set.c) ------------------------------------------------------- */

/*
 * One for each place of the plan that has room for a jump; smaller places keep their trap. A
 * place's number is the id of its records: it counts the plan's entries, then its returns. All
 * places are there once more for each further view of the probes (struct probe_view), with the next
 * numbers: their code is what trampoline_set_extend() generates.
 */
struct trampoline_place {
	bool made;
	const struct probe_ref *ref; /* entries */
	uint64_t gva;                /* of the code */
	uint64_t next;               /* where it goes to; see struct trampoline_spec */
	struct epilogue epilogue;    /* likewise */
	uint64_t retry, skip;        /* gvas; see struct trampoline */
	struct capture capture;
	struct record_layout layout;
	struct ring_shape shape;    /* of its records */
	bool has_words;             /* stack or items */
	probe_take_fn *take;        /* the engine's, of what has no such words; or NULL */
	uint32_t fields;            /* of one word, CAPTURE(...) of each, that a hit has */
	uint8_t index[FIELD_COUNT]; /* of these: which word it is, as in struct probe_record */
	struct probe_hit hit;       /* of the last record; what records of this place lack is 0 */
};

/* Where the code goes. The figures of struct page come from the captures' page_lookup (probe.h),
 * not from `kernel`. */
struct trampoline_room {
	uint64_t gva;   /* of the code in the guest */
	uint8_t *bytes; /* the same memory in the host */
	size_t size;
	struct trampoline_rings rings;
	const struct trampoline_kernel *kernel;
	uint64_t saved_arrays; /* gva; see struct trampoline_spec */
	uint64_t pids;         /* likewise */
	enum trampoline_full full;
};

struct trampoline_set {
	struct trampoline_place *places;
	struct probe_writer *writers; /* likewise, for runs of records */
	struct ring_shape *shapes;    /* by place; size 0: it writes no records yet */
	size_t n;                     /* places of one view */
	/* The probes' views. The code of the first one is the set's own. */
	struct {
		unsigned int number; /* struct probe_view */
		bool open;           /* there may be records */
	} views[PROBE_VIEWS];
	size_t nr_views;
	struct u64_map by_trap; /* gva of the slow path's OUT -> uint32_t place */
	size_t code_bytes;
	size_t made;
	struct trampoline_room room;
	struct trampoline_kernel kernel; /* with the figures of struct page */
};

/*
 * Write the code and, for each place that has some now, the jump to it as the new bytes of its
 * patch in `plan`, for the caller to apply. -ENOSPC if there is too little room for code, else
 * what trampoline_generate() or a page_lookup says; `plan` keeps its traps then.
 */
int trampoline_set_make(struct trampoline_set *set, struct patch_plan *plan,
			const struct trap_table *traps, struct decoder *decoder,
			const struct trampoline_room *room, struct error *err);
void trampoline_set_deinit(struct trampoline_set *set);

/* Of all places that the set's arrays have room for. */
static inline size_t trampoline_set_room(const struct trampoline_set *set)
{
	return set->n * PROBE_VIEWS;
}

/* The number, in a view, of a place of the plan. */
static inline size_t trampoline_set_number(const struct trampoline_set *set, size_t view_index,
					   size_t place)
{
	return view_index * set->n + place;
}

/* Places for this view, unless there are some: *out is its index in set->views. -EINVAL: such
 * records are too large. */
int trampoline_set_add_view(struct trampoline_set *set, const struct patch_plan *plan,
			    const struct probe_view *view, size_t *out, struct error *err);
/* From now on its places may write records: also in the middle of a pass over the rings. */
void trampoline_set_open_view(struct trampoline_set *set, size_t index);

/*
 * Generate the trampoline of a place that is made once more, for another view, or with direct
 * records of its calls or returns, to run at `gva`. Of `task` only the figures of the current task
 * are used. Errors as trampoline_generate().
 */
int trampoline_set_extend(const struct trampoline_set *set, uint32_t number,
			  const struct direct_spec *records, size_t n, uint64_t gva,
			  const struct trampoline_kernel *task, struct decoder *decoder,
			  struct trampoline *out, struct error *err);

/* The place whose slow path has its OUT at `gva`, or NULL. */
const struct trampoline_place *trampoline_set_at(const struct trampoline_set *set, uint64_t gva);

/*
 * A record of this place as a hit: all but vCPU, time and batch. Each word is read once; the hit's
 * stack and items point into the record, which is to be the host's copy if it has any. The hit is
 * valid until the place's next record is read. One thread at a time.
 */
struct probe_hit *trampoline_read(struct trampoline_place *place, const struct ring_taken *taken);

/* --- code that sites share (shared.c) ----------------------------------------------------------
 */

/*
 * Code that all places with the same tracers share. It writes a direct record for each tracer
 * (layout.h), and leaves nothing on the guest's stack. Interrupts are off inside, but for its first
 * instruction; one that is pending at the end is taken in the guest's own code.
 *
 * At entries a mcount site becomes a call to it, which returns: the return address on the stack
 * names the site. It changes RAX, R10, R11 and the flags of arithmetic. Guest instructions with
 * call and return: 23 for one record, 14 for each further one; more for each record with the
 * caller's address (2), pid (3), tgid (3), comm (6), cgroup (12), frame (2), stack (27 and its
 * words), and 1 if its rings differ in size from those of the record before.
 *
 * At returns a return slot becomes a jump to it, and it ends with the instruction that stood there:
 * slots with the same one share it. It changes RCX, RSI, R10, R11 and those flags; the result in
 * RAX and RDX is kept. Guest instructions with jump and return: 25 for a record with the frame, 1
 * more with the result.
 */
struct shared_spec {
	uint64_t gva; /* where it will run */
	const struct direct_spec *records;
	size_t nr_records; /* 1..DIRECT_MAX_RECORDS */
	const struct trampoline_kernel *kernel;
	bool unprivileged; /* for tests in user mode: leaves interrupts on */
	enum probe_point point;
	uint64_t next; /* POINT_RETURN: gva of the return thunk to go to; 0: return */
};

struct shared_code {
	uint8_t bytes[TRAMPOLINE_MAX];
	uint16_t size;
	struct slow_path slow[DIRECT_MAX_RECORDS]; /* of each record */
};

/*
 * Generate the code and check it with the decoder. Errors:
 *   -EINVAL  there can be no such records, rings or gates
 *   -ENOSPC  the code does not fit into TRAMPOLINE_MAX bytes
 *   -ERANGE  an address is too far away
 *   -EILSEQ  the generated code is wrong
 */
int shared_generate(const struct shared_spec *spec, struct decoder *decoder,
		    struct shared_code *out, struct error *err);

/* --- code of an instruction in the middle of a function (inside.c) -----------------------------
 */

/*
 * Code that the instruction becomes a jump to. It writes direct records, executes the instruction,
 * and goes on behind it. All registers and flags are what they were: also to what is fetched. A
 * call returns to where it would have, so that nothing on the stack leads into this code.
 * Interrupts are off but for the first four instructions and from the last POPF on.
 */
struct inside_spec {
	uint64_t gva; /* where it will run */
	const struct direct_spec *records;
	size_t nr_records; /* 1..DIRECT_MAX_RECORDS; with DIRECT_TASK_FIELDS only */
	const struct trampoline_kernel *kernel;
	const struct displaced_insn *insn;
	bool unprivileged; /* for tests in user mode: leaves interrupts on */
};

/* Errors as shared_generate(). */
int inside_generate(const struct inside_spec *spec, struct decoder *decoder,
		    struct shared_code *out, struct error *err);

#endif

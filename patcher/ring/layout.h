/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_LAYOUT_H
#define SONDE_PATCHER_RING_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The memory that trampolines in the guest write and the host reads: one ring per CPU, each
 * ring_stride() bytes behind the one before:
 *
 *	header (RING_HEADER_BYTES) | data (a power of two) | tail (RING_MAX_RECORD)
 *
 * Positions count bytes since the ring was made and never wrap; position & (data_bytes - 1) is the
 * offset into the data. A record that starts before the end of the data runs on into the tail, so
 * that records are always contiguous; the next one starts at its position & mask nevertheless.
 *
 * Writer, with interrupts off on its own CPU (only an NMI can come between):
 *	if (reserve >= limit) take the slow path: `out` to the host, or count in `lost`;
 *	position = xadd(reserve, size); read the TSC; write the fields; write the commit word last.
 * Host: copies records whose commit word is not 0, zeroes them, and then raises `limit` to at most
 * consumed + data_bytes - ring_slack(). A lower limit makes an earlier record ring the doorbell:
 *with limit = reserve it is the very next one.
 *
 * Positions are in the order of reservations: the record of an NMI can lie behind the one it
 * interrupted and have the earlier time. The CPU may execute RDTSC a little before the stores ahead
 * of it, and other CPUs see these stores a little later; both together take less than a
 * microsecond. A host that reads the TSC and then `reserve` must allow for that.
 *
 * The guest can forge everything in here.
 */
enum {
	RING_HEADER_BYTES = 128,
	RING_MAX_RECORD = 4096, /* bytes: an ordered record with a slice of the stack */
	RING_MAX_ORDERED = 512, /* bytes of a record of the ordered lane without one */
	/* A writer checks before it reserves: room for its own record, and for three nested ones.
	 * In a ring of less than RING_MIN_LARGE bytes, half of it: records are no larger there than
	 * RING_MAX_ORDERED. */
	RING_SLACK = 4 * RING_MAX_RECORD,
	RING_MIN_DATA = 8 * RING_MAX_ORDERED, /* bytes */
	RING_MIN_LARGE = 2 * RING_SLACK,      /* of a ring with larger records */
	RING_RECORD_ALIGN = 8,
	RING_PATIENCE_BITS = 32,
};

static inline uint32_t ring_slack(uint32_t data_bytes)
{
	return data_bytes < RING_MIN_LARGE ? data_bytes / 2 : RING_SLACK;
}

/* Bytes of the largest record that a ring has room for, with three nested ones behind it. */
static inline uint32_t ring_max_record(uint32_t data_bytes)
{
	return ring_slack(data_bytes) / (RING_SLACK / RING_MAX_RECORD);
}

/* Guest-written and host-written fields lie in cache lines of their own. */
struct ring_header {
	uint64_t reserve; /* position of the next record; written by the guest only */
	/*
	 * Records lost: the ring was full in drop mode, or no host served the `out`. A record about
	 * many objects counts as many.
	 */
	uint64_t lost;
	/*
	 * In CPU 0's ring of the ordered lane, for the writers of all rings: until when they may
	 * wait for room, in ticks of the TSC. The first writer that waits sets it; none waits longer
	 * than 2^RING_PATIENCE_BITS. The host clears it in each pass. So writers wait as long as a
	 * slow host needs; if the host has died, all of them together wait only once, as nothing
	 * else would end it.
	 */
	uint64_t spin_deadline;
	/* Not 0: this CPU reads memory for a record; written by the guest only. */
	uint32_t fetching;
	uint32_t unused1[9];
	uint64_t limit; /* reserve >= limit: slow path; written by the host only */
	/* Written by the host: not 0 makes the slow path ring (`out`) in drop mode, too. */
	uint32_t doorbell;
	uint32_t unused2[13];
};

_Static_assert(sizeof(struct ring_header) == RING_HEADER_BYTES, "fixed by trampolines");
_Static_assert(offsetof(struct ring_header, limit) == 64, "a cache line of its own");

/* Bytes from one CPU's ring to the next. */
static inline uint32_t ring_stride(uint32_t data_bytes)
{
	return RING_HEADER_BYTES + data_bytes + RING_MAX_RECORD;
}

/*
 * A table that all CPUs share, zeroed before trampolines use it: the array of a call, from its
 * entry to its return. A key's slot is one of RING_SAVED_TRIES, from the one on that the key hashes
 * to; the entry takes the first free one. Written by the guest, and by the host when it takes an
 * entry out for a return that is a trap, or that will not be recorded.
 */
enum {
	RING_SAVED_HASH_BITS = 8,
	RING_SAVED_TRIES = 8,
	RING_SAVED_SLOTS = (1 << RING_SAVED_HASH_BITS) + RING_SAVED_TRIES - 1,
};

struct ring_saved_array {
	uint64_t key;   /* as in records; 0 = free */
	uint64_t words; /* gva of the first word of the array that is the call's work */
	uint64_t skip;  /* how many lie in front of it, or SAVED_ALL_OR_NONE + how many there are */
	uint64_t unused;
};

_Static_assert(sizeof(struct ring_saved_array) == 32, "fixed by trampolines");

/*
 * What precedes the 8-byte fields of every record; record_layout() (probe.h) has their order. The
 * reader knows for each id how many bytes of fields there are, and how many items there may be.
 */
struct ring_record {
	uint32_t commit; /* ring_commit(); 0 = not complete yet */
	uint32_t items;  /* 8-byte words behind the fields; not written where none can be */
	uint64_t tsc;    /* of the CPU, read after the reservation */
	uint64_t fields[];
};

_Static_assert(sizeof(struct ring_record) == 16, "fixed by trampolines");

/*
 * A direct record: an event by itself, about a call of a function or about its return. Behind it
 * lie, in this order and as far as wanted: the caller's address (32 bits), the current task's pid
 * and its process's (32 bits each); and, at multiples of 8, its name (16 bytes), its cgroup's id,
 * the call's frame and its result (64 bits each), the arguments of a system call, a slice of the
 * stack (struct direct_stack), and what a dynamic probe fetches (struct fetch_program), of which
 * long strings make the record longer. Addresses of text are sign-extended 32 bits.
 */
struct direct_record {
	uint32_t commit; /* as in struct ring_record */
	uint32_t ip;     /* of the instruction behind the function's mcount site; not written at
			  * returns, which many functions share the code of */
	uint64_t tsc;
};

_Static_assert(sizeof(struct direct_record) == 16, "fixed by trampolines");

enum { DIRECT_SITE_BYTES = 5 }; /* from the site to the instruction behind it */

enum direct_field {
	/* of the current task, as enum event_task_fields: the kernel's pid, a thread's; its
	 * process's; its name; the id of its cgroup, 0: none; and what the call chain is made of */
	DIRECT_PID = 1 << 0,
	DIRECT_TGID = 1 << 1,
	DIRECT_COMM = 1 << 2,
	DIRECT_CGROUP = 1 << 3,
	DIRECT_STACK = 1 << 4,
	DIRECT_PARENT = 1 << 5, /* where the function returns to */
	/* gva of the return address on the stack, minus DIRECT_FRAME_BIAS: the same at a call's
	 * entry and at its return, and of no other call that is open */
	DIRECT_FRAME = 1 << 6,
	DIRECT_RESULT = 1 << 7, /* RAX; of returns only */
	/* the registers that a system call has its arguments in, 64 bits each, out of the struct
	 * pt_regs that its function's parameter points to; of entries only */
	DIRECT_SYSCALL = 1 << 8,
	/* with DIRECT_SYSCALL: the registers are those of a 32-bit program's call */
	DIRECT_SYSCALL_IA32 = 1 << 9,
	DIRECT_TASK_FIELDS = DIRECT_PID | DIRECT_TGID | DIRECT_COMM | DIRECT_CGROUP | DIRECT_STACK,
	DIRECT_ENTRY_FIELDS = DIRECT_TASK_FIELDS | DIRECT_PARENT | DIRECT_FRAME | DIRECT_SYSCALL |
			      DIRECT_SYSCALL_IA32,
	DIRECT_RETURN_FIELDS = DIRECT_TASK_FIELDS | DIRECT_PARENT | DIRECT_FRAME | DIRECT_RESULT,
	DIRECT_FRAME_BIAS = 8,
	DIRECT_SYSCALL_ARGS = 6,
	DIRECT_COMM_SIZE = 16, /* bytes; TASK_COMM_LEN of Linux, include/linux/sched.h */
	/* Of a direct record's slice of the stack. A record without room for so many is too large.
	 */
	STACK_LEAST_WORDS = 240,
	STACK_MAX_WORDS = 480, /* of any record's slice */
};

/*
 * From the call's return address up, or in the middle of a function from where RSP points, as far
 * as memory is known to be there: to the end of the task's stack, or on another stack to that of
 * the page (direct_stack_words()). The last word of the stack of interrupts is where RSP was on the
 * task's stack (Linux, arch/x86/include/asm/irq_stack.h): as much as there is room for from there
 * on follows (direct_stack_rest()). Words behind are not written.
 */
struct direct_stack {
	uint64_t sp;                     /* gva of words[0] */
	uint64_t bp;                     /* RBP */
	uint64_t task;                   /* gva of the current task's stack: its lowest address */
	uint64_t words[STACK_MAX_WORDS]; /* a record has only some of them */
};

enum { DIRECT_PAGE_BYTES = 4096 };

static inline bool direct_stack_is_task(const struct direct_stack *stack, uint32_t stack_bytes)
{
	return stack->sp - stack->task < stack_bytes;
}

/* How many words were written into room for `most`. `stack_bytes` is the size of each task's stack.
 */
static inline uint32_t direct_stack_words(const struct direct_stack *stack, uint32_t stack_bytes,
					  uint32_t most)
{
	uint64_t bytes = direct_stack_is_task(stack, stack_bytes)
				 ? stack_bytes - (stack->sp - stack->task)
				 : DIRECT_PAGE_BYTES - stack->sp % DIRECT_PAGE_BYTES;

	bytes /= sizeof(uint64_t);
	return bytes < most ? (uint32_t)bytes : most;
}

/*
 * How many words of the task's stack follow the first `n`, which direct_stack_words() says. The
 * first of them is the one that words[n - 1] points to.
 */
static inline uint32_t direct_stack_rest(const struct direct_stack *stack, uint32_t stack_bytes,
					 uint32_t n, uint32_t most)
{
	uint64_t offset, words;

	if (!n || (stack->sp + n * sizeof(uint64_t)) % DIRECT_PAGE_BYTES)
		return 0;
	offset = stack->words[n - 1] - stack->task;
	if (offset >= stack_bytes)
		return 0;
	words = (stack_bytes - offset) / sizeof(uint64_t);
	return words < most - n ? (uint32_t)words : most - n;
}

/* Bytes from the record's start; only of fields that it has. */
struct direct_layout {
	uint16_t size, parent, pid, tgid, comm, cgroup, frame, result, syscall, stack;
	uint16_t stack_words; /* of the slice: as many as the record has room for */
	uint16_t values;      /* what a dynamic probe fetches, behind all others */
};

/*
 * Of a record that has `values` bytes of what a probe fetches, and up to `items` bytes behind
 * those, multiples of 8. With many of them, and a slice of the stack, it may be larger than
 * RING_MAX_RECORD.
 */
static inline struct direct_layout direct_layout_with(uint32_t fields, uint16_t values,
						      uint16_t items)
{
	const size_t stack_fixed = offsetof(struct direct_stack, words);
	struct direct_layout l = {.parent = sizeof(struct direct_record)};
	size_t room;

	l.pid = (uint16_t)(l.parent + (fields & DIRECT_PARENT ? sizeof(uint32_t) : 0));
	l.tgid = (uint16_t)(l.pid + (fields & DIRECT_PID ? sizeof(uint32_t) : 0));
	l.comm = (uint16_t)(l.tgid + (fields & DIRECT_TGID ? sizeof(uint32_t) : 0));
	l.comm = (uint16_t)((l.comm + RING_RECORD_ALIGN - 1) & ~(RING_RECORD_ALIGN - 1));
	l.cgroup = (uint16_t)(l.comm + (fields & DIRECT_COMM ? DIRECT_COMM_SIZE : 0));
	l.frame = (uint16_t)(l.cgroup + (fields & DIRECT_CGROUP ? sizeof(uint64_t) : 0));
	l.result = (uint16_t)(l.frame + (fields & DIRECT_FRAME ? sizeof(uint64_t) : 0));
	l.syscall = (uint16_t)(l.result + (fields & DIRECT_RESULT ? sizeof(uint64_t) : 0));
	l.stack =
		(uint16_t)(l.syscall +
			   (fields & DIRECT_SYSCALL ? DIRECT_SYSCALL_ARGS * sizeof(uint64_t) : 0));
	l.values = l.stack;
	if (fields & DIRECT_STACK) {
		room = (RING_MAX_RECORD - l.stack - stack_fixed - values - items) /
		       sizeof(uint64_t);
		room = room > STACK_LEAST_WORDS ? room : STACK_LEAST_WORDS;
		l.stack_words = (uint16_t)(room < STACK_MAX_WORDS ? room : STACK_MAX_WORDS);
		l.values = (uint16_t)(l.stack + stack_fixed + l.stack_words * sizeof(uint64_t));
	}
	l.size = (uint16_t)(l.values + values);
	return l;
}

static inline struct direct_layout direct_layout(uint32_t fields)
{
	return direct_layout_with(fields, 0, 0);
}

#define RING_COMMITTED (UINT32_C(1) << 31)

/* The commit word of records with this id, which is below RING_COMMITTED. */
static inline uint32_t ring_commit(uint32_t id)
{
	return RING_COMMITTED | id;
}

/* The id, of a record that is committed. */
static inline uint32_t ring_id(const struct ring_record *record)
{
	return record->commit & ~RING_COMMITTED;
}

#endif

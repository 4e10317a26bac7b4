/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_GATE_H
#define SONDE_PATCHER_PROBE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/filter/filter.h"

/*
 * A gate decides in the guest, before anything is reserved, for which calls of a function a record
 * is written. It is a program of terms. A term compares one value with a constant, and says where
 * to go on if that is true and if it is not: at a later term, or at the end with yes or no. So it
 * always ends, and the first term that decides ends it.
 */
enum gate_source {
	GATE_ARG0, /* RDI, RSI, RDX, RCX, R8, R9; only at entries */
	GATE_ARG1,
	GATE_ARG2,
	GATE_ARG3,
	GATE_ARG4,
	GATE_ARG5,
	GATE_PID,       /* of the current task: the kernel's pid, a thread's; 4 bytes */
	GATE_TGID,      /* its process's, likewise */
	GATE_CGROUP,    /* the id of its cgroup, 0: none; 8 bytes, unsigned; at entries, and at
			 * returns of direct records */
	GATE_VCPU,      /* the kernel's number of this CPU; 4 bytes; at entries, and at returns of
			 * direct records */
	GATE_CALL_SITE, /* where the function returns to; 8 bytes, unsigned; at entries, and at
			 * returns of direct records */
	GATE_RESULT,    /* what the function returns, in RAX; only at returns of direct records */
	/* What a system call is given, in the struct pt_regs of the task's user mode: its number,
	 * and six arguments, of 4 or 8 bytes. Only at entries of its function, whose parameter
	 * points there, and at returns of direct records. */
	GATE_SYSCALL,
	GATE_SYSCALL_ARG0,
	GATE_SYSCALL_ARG5 = GATE_SYSCALL_ARG0 + 5,
	GATE_SOURCES,
};

enum gate_op { GATE_EQ, GATE_NE, GATE_LT, GATE_LE, GATE_GT, GATE_GE };

enum { GATE_MAX_TERMS = 64, GATE_YES = 254, GATE_NO = 255 };

/*
 * x = the lowest `size` bytes of the source, extended to 64 bits as `is_signed` says; then
 * (x & mask) op value, in 64 bits, signed if `is_signed`.
 */
struct gate_term {
	enum gate_source source;
	uint8_t size; /* bytes: 1, 2, 4 or 8 */
	bool is_signed;
	enum gate_op op;
	uint8_t yes, no; /* a later term, GATE_YES or GATE_NO */
	uint64_t mask;   /* UINT64_MAX: all of it */
	uint64_t value;
};

/* Without terms it says yes. */
struct gate {
	struct gate_term terms[GATE_MAX_TERMS];
	unsigned int n;
};

/* --- construction ---------------------------------------------------------------------------- */

/*
 * Gates are made from left to right: append the terms of the left operand, note gate->n, append
 * those of the right one, and join them. A term that is appended says yes or no by itself. Operands
 * are not empty.
 */

/* A term about all of a source; pid and tgid are signed. */
struct gate_term gate_term(enum gate_source source, enum gate_op op, uint64_t value);

/* -E2BIG: the gate has GATE_MAX_TERMS. The term's `yes` and `no` do not matter. */
int gate_append(struct gate *gate, struct gate_term term, struct error *err);

/*
 * Append a search for the values of `like`'s source among `values`, sorted ascending as its sign
 * says, without doubles: yes if it is one of them. `like`'s op and value do not matter. A value
 * that is not among 15 is refused by 12 guest instructions or fewer. Values that follow each other
 * take two terms; 48 that do not take all terms of a gate. -EINVAL: no values, or not sorted.
 * -E2BIG. -ENOMEM.
 */
int gate_append_list(struct gate *gate, struct gate_term like, const uint64_t *values, size_t n,
		     struct error *err);

/* Append a search for the range that a source's value is in: yes if there is one. Ranges are
 * ascending, and apart from each other; there is one or more. -E2BIG: the gate stays as it was. */
int gate_append_ranges(struct gate *gate, enum gate_source source, const struct event_range *ranges,
		       size_t n, struct error *err);

/* Join the terms left..right-1 and right..n-1 to one operand. */
void gate_and(struct gate *gate, unsigned int left, unsigned int right);
void gate_or(struct gate *gate, unsigned int left, unsigned int right);
/* Negate the terms from..n-1. */
void gate_not(struct gate *gate, unsigned int from);

/* `gate` then says yes where both did; either may be empty. -E2BIG: `gate` stays as it was. */
int gate_conjoin(struct gate *gate, const struct gate *other, struct error *err);

/* --- use ------------------------------------------------------------------------------------- */

/* -EINVAL unless all terms are possible and lead forward. */
int gate_check(const struct gate *gate, struct error *err);

static inline uint32_t gate_source_bit(enum gate_source source)
{
	return UINT32_C(1) << source;
}

/*
 * What does not change during a call. Where a function's returns are recorded, too, entry and
 * return have the same gate, on these only: a return without its entry would look like damage.
 */
static const uint32_t gate_call_sources = UINT32_C(1) << GATE_PID | UINT32_C(1) << GATE_TGID;

/* What only functions of system calls have. */
static const uint32_t gate_syscall_sources = UINT32_C(0x7f) << GATE_SYSCALL;

/* Where such a source lies, from the beginning of the struct pt_regs (64-bit calls): orig_ax; di,
 * si, dx, r10, r8, r9 (arch/x86/include/asm/ptrace.h). */
static inline uint8_t gate_syscall_place(enum gate_source source)
{
	static const uint8_t places[] = {120, 112, 104, 96, 56, 72, 64};

	return places[source - GATE_SYSCALL];
}

/* The bits of the sources that it reads. */
uint32_t gate_sources(const struct gate *gate);

/* What of the task it reads: enum event_task_fields. */
uint32_t gate_task_fields(const struct gate *gate);

/* What is known of a call. */
struct gate_values {
	uint64_t source[GATE_SOURCES];
};

/* What the gate's code says in the guest, for a call that a trap has caught. The gate has passed
 * gate_check(). */
bool gate_eval(const struct gate *gate, const struct gate_values *values);

/* --- pids in memory -------------------------------------------------------------------------- */

/*
 * A gate whose pids lie in the guest's memory, so that they can change while its code runs: one
 * byte for each bucket of pids, by their lowest bits. A task that shares a bucket with another one
 * passes with it: the host looks again.
 */
enum { PID_GATE_BUCKETS = 4096 };
struct pid_gate {
	bool on;  /* there is one */
	bool all; /* all tasks pass, so that it decides nothing */
	uint8_t pass[PID_GATE_BUCKETS];
};

static inline bool pid_gate_passes(const struct pid_gate *gate, uint32_t pid)
{
	return gate->pass[pid % PID_GATE_BUCKETS];
}

/* --- filters (gate-filter.c) ------------------------------------------------------------------ */

/*
 * A filter on events, split for a point: what a gate can decide there, and what is left for the
 * host. Of an AND (or a negated OR) each operand goes where it can; everything else is decided as a
 * whole. What compares text is left for the host.
 */

/* A field of the event that is known at the point. */
struct gate_field {
	const char *name; /* as in the class; NULL for the event's vCPU */
	enum gate_source source;
	uint8_t size; /* bytes of the source that are the value */
	bool is_signed;
};

struct gate_split {
	struct gate gate;         /* without terms: it decides nothing */
	struct event_known known; /* what it has decided, of calls that have passed it */
	bool whole;               /* nothing is left for the host */
};

/* What a gate has left for the host. */
struct gate_rest {
	const struct event_predicate *predicate;
	struct event_known known;
};

void gate_split(const struct event_predicate *predicate, const struct gate_field *fields, size_t n,
		struct gate_split *out);

/* The operands that the gate has, or those that it has not, joined by " && "; "" if there are none.
 * Cut off at `size`. */
void gate_split_print(const struct gate_split *split, const struct event_predicate *predicate,
		      bool in_gate, char *out, size_t size);

#endif

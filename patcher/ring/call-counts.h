/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_CALL_COUNTS_H
#define SONDE_PATCHER_RING_CALL_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * Calls that code in the guest counts, by function, in the data of a group of rings that nothing
 * else uses; the rings' headers stay as they are. Each CPU's data holds
 *
 *	opens (of CPU 0: those of all CPUs) | counts (of this CPU)
 *
 * Counts are a hash table by `hash`, probed upwards without a wrap; the host alone adds functions,
 * the same at the same place for all CPUs, and there is always a free place at its end. CPUs write
 * their own counts only: a call that changes its CPU has its hit at one and its time at another.
 *
 * An open call is in one of CALL_OPEN_WAYS places, from the one that its frame (the gva of its
 * return address), less CALL_OPEN_BIAS, hashes to. Any CPU may write any place, without a lock:
 * `check` holds only with the `tsc` that was written with it, and says which call it is of:
 *
 *	check = tsc + frame + return address + offset of its function's counts << CALL_OPEN_SHIFT
 *
 * A call that finds no place takes that of another one, which has no time then.
 *
 * Without tails each call has a frame of its own: one that is found in the frame of a new one has
 * left it by a jump, and has no time. With tails such calls are a chain, which the return of the
 * last one ends. Then an open call is in one of CALL_TAIL_WAYS places.
 *
 * The guest can forge everything in here.
 */
struct call_count {
	uint64_t hash;    /* call_counts_hash() of where the function's site ends; 0: free */
	uint64_t hits;    /* entries */
	uint64_t timed;   /* returns whose entry was found */
	uint64_t ticks;   /* of these, in all */
	uint64_t longest; /* of these */
};

_Static_assert(sizeof(struct call_count) == 40, "fixed by trampolines");

/* With a histogram the timed calls follow, by the logarithm of their ticks, rounded down. */
enum { CALL_COUNT_BUCKETS = 64 };

struct call_open {
	uint64_t check; /* 0: free */
	uint64_t tsc;   /* of the entry */
};

_Static_assert(sizeof(struct call_open) == 16, "fixed by trampolines");

enum {
	CALL_OPEN_WAYS = 2,
	CALL_TAIL_WAYS = 4,
	CALL_OPEN_BIAS = 16,  /* to RSP in shared code */
	CALL_OPEN_SHIFT = 42, /* offsets are multiples of 8 below 4 MiB: the 19 bits on top */
	CALL_COUNTS_MAX = 1 << (64 - CALL_OPEN_SHIFT),
};

#define CALL_COUNTS_MIX UINT32_C(0x9e3779b1)
#define CALL_OPENS_MIX UINT32_C(0x85ebca77)

struct call_counts_layout {
	uint32_t ways;       /* places of a hash: CALL_OPEN_WAYS, or with tails CALL_TAIL_WAYS */
	uint32_t opens_bits; /* of the hash of a frame */
	uint32_t counts_at;  /* from the beginning of a CPU's data */
	uint32_t size;       /* of one function's counts, a multiple of 8 */
	uint32_t slots;      /* that a function hashes to; its place may lie behind them */
	uint32_t capacity;   /* places */
};

/* How many bytes of a ring's data are used; a power of two, RING_MIN_DATA or more. */
struct call_counts_layout call_counts_layout(uint32_t data_bytes, bool histogram, bool tails);

/* Of the low 32 bits of where a function's site ends: another one for each, as the factor is odd.
 */
static inline uint32_t call_counts_hash(uint32_t ip)
{
	return ip * CALL_COUNTS_MIX;
}

/* From the table's beginning to where the search for a function begins. */
static inline uint32_t call_counts_offset(const struct call_counts_layout *l, uint32_t ip)
{
	return (uint32_t)((uint64_t)call_counts_hash(ip) * l->slots >> 32) * l->size;
}

/* The host's side. */
struct call_counts {
	struct call_counts_layout layout;
	uint8_t *data; /* CPU 0's, the guest's memory */
	uint32_t stride, nr_cpus;
	uint32_t *ips; /* by place: what the guest has been told */
	uint32_t n;
};

struct call_totals {
	uint64_t hits, timed, ticks, longest;
};

/* The memory is zeroed. -ENOMEM. */
int call_counts_init(struct call_counts *counts, const struct call_counts_layout *layout,
		     void *data, uint32_t stride, uint32_t nr_cpus, struct error *err);
/* Zeroes the memory: no code may use it any more. Also of one that is zeroed. */
void call_counts_deinit(struct call_counts *counts);

/* The offset of a function's counts; it may be there already. The guest may run. -ENOSPC. */
int call_counts_add(struct call_counts *counts, uint32_t ip, uint32_t *offset, struct error *err);

/* The sum over all CPUs. `buckets` may be NULL, and is all 0 without a histogram. `longest` is set
 * to 0 in the guest if `restart`. */
void call_counts_read(const struct call_counts *counts, uint32_t offset, bool restart,
		      struct call_totals *out, uint64_t buckets[CALL_COUNT_BUCKETS]);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_PROFILE_H
#define SONDE_PATCHER_RING_PROFILE_H

#include "formats/base/budget.h"
#include "introspect/guest/clock.h"
#include "patcher/ring/call-counts.h"

/*
 * What was counted of functions' calls, over all times that code in the guest counted them: the
 * counts of earlier times are kept when the memory goes. Any thread may read it at any time.
 */
struct profile;

/* With one user. `tails`: calls that end by a jump to another function are timed, too. `budget`: of
 * the guest, for what is kept of each function; or NULL; outlives it. -ENOMEM. */
int profile_create(bool histogram, bool tails, struct budget *budget, struct profile **out,
		   struct error *err);
/* One more user, which is returned; one less: the last one frees it, when it is counted nowhere any
 * more. NULL-safe. */
struct profile *profile_get(struct profile *profile);
void profile_put(struct profile *profile);
/* Whether there are several users. */
bool profile_is_shared(const struct profile *profile);

/* --- where it is counted now: by an engine --------------------------------------------------- */

struct profile_memory {
	void *data;          /* CPU 0's */
	uint32_t data_bytes; /* of each CPU: a power of two */
	uint32_t stride, nr_cpus;
	struct tsc_clock clock; /* of the CPUs' counters */
};

/* Count there from now on, if it is counted nowhere. Zeroes the memory. -ENOMEM. */
int profile_attach(struct profile *profile, const struct profile_memory *memory, struct error *err);
/* Code that counts is gone: keep the counts, and zero the memory. */
void profile_detach(struct profile *profile);

/* A function whose site ends at `ip`, by the address of its site; `returns`: its calls are timed.
 * It may be there already. If a function of another name was, which nothing counts any more, that
 * one keeps its counts. Attached. -ENOSPC: no room. -ENOMEM. */
int profile_add(struct profile *profile, uint64_t ip, uint64_t site, const char *name, bool returns,
		struct error *err);
/* For code that counts. Attached. */
struct call_counts_layout profile_layout(const struct profile *profile);
/* Of a function's counts, by its site; it has been added. */
uint32_t profile_offset(struct profile *profile, uint64_t site);

/* --- results --------------------------------------------------------------------------------- */

struct profile_row {
	const char *name; /* the profile's */
	uint64_t site;
	bool returns; /* its calls are timed; else there are hits only */
	uint64_t hits;
	uint64_t timed; /* calls whose entry and return were seen; of these: */
	uint64_t total_ns, longest_ns;
	uint64_t *buckets; /* CALL_COUNT_BUCKETS; NULL: no histogram */
};

struct profile_rows {
	struct profile_row *v; /* in the order in which functions were added */
	size_t n;
	uint64_t *buckets;                      /* that they point to */
	uint64_t bucket_ns[CALL_COUNT_BUCKETS]; /* from how many ns on a call is in a bucket */
};

/* Since the profile began, or was cleared. -ENOMEM. */
int profile_read(struct profile *profile, struct profile_rows *out, struct error *err);
/* Also of one that is zeroed. */
void profile_rows_deinit(struct profile_rows *rows);
/* Count from 0 again. Calls that are open now are timed when they return, in whole. */
void profile_clear(struct profile *profile);

#endif

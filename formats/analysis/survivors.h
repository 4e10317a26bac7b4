/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_SURVIVORS_H
#define SONDE_FORMATS_ANALYSIS_SURVIVORS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/analysis/sites.h"

/* What is still live at the end, by origin (call site and cache), and whether it looks like a leak.
 */

enum { SURVIVOR_PARTS = 16 /* of the time, by which births are counted */ };

/* What grows is judged from so many seconds on, in ns: until then it may only be freed late. */
#define SURVIVORS_LEAST_NS INT64_C(10000000000)

enum verdict {
	VERDICT_LEAK,    /* most are freed, but some of each time's stay */
	VERDICT_GROWS,   /* hardly anything is freed, and more comes all the time */
	VERDICT_RECLAIM, /* so does a cache that the guest can shrink, or user memory */
	VERDICT_SETTLED, /* it came early, and no more does */
	VERDICT_RECENT,  /* it came lately */
	VERDICT_UNCLEAR,
	VERDICT_UNKNOWN, /* frees are missing: what is live may have been freed */
	NR_VERDICTS
};

/* The survivors of an origin. */
struct survivors {
	uint32_t origin;
	uint64_t objects, bytes;
	uint64_t aged_objects, aged_bytes; /* of the age that was asked for */
	double ages_ns;                    /* sum of the ages of these */
	int64_t old_age_ns;                /* hardly anything that is freed gets to be so old */
	uint64_t old_objects, old_bytes;   /* of those asked for, of at least that age */
	uint64_t old_since_init; /* of all of that age, born since init began (sites->init) */
	int64_t first_ns;                  /* birth of the oldest one in the window */
	uint64_t births[SURVIVOR_PARTS];   /* objects, by time of birth in the window */
	uint64_t judged[SURVIVOR_PARTS];   /* the same in the time that is judged */
	uint64_t before;                   /* objects that are older than the window */
	enum verdict verdict;
	double per_s;    /* bytes per second that stay */
	double evenness; /* how near the births are to an even rate, from 0 to 1 */
	double score;
};

/*
 * All origins with live objects of at least this age at the end of a replay, what looks most like a
 * leak first; verdicts are by objects of any age. The caller frees *out. Returns 0 or -ENOMEM.
 */
int survivors_find(const struct sites *sites, int64_t older_ns, struct survivors **out, size_t *n);

/* Whether the window is too short to judge what grows, without the guest's boot, or has no record;
 * and what to say then. */
bool survivors_are_short(const struct sites *sites);
const char *survivors_time_text(const struct sites *sites); /* "10 s" */

/* Whether the trace has the guest's boot, but nothing in it says where that ends: what only the
 * boot keeps is judged like the rest then. */
bool survivors_lack_init(const struct sites *sites);

/* "leak", "only grows" */
const char *verdict_name(enum verdict verdict);

/* The share of the site's allocations in the window that was freed, in percent. */
double site_freed_percent(const struct site *site);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_SITES_H
#define SONDE_FORMATS_ANALYSIS_SITES_H

#include <stddef.h>
#include <stdint.h>
#include "formats/analysis/replay.h"
#include "formats/heap/course.h"
#include "formats/heap/heap.h"

/*
 * What each origin (call site and cache) did over time: its live bytes, its allocations, and how
 * long its objects lived. At most SITES_MAX origins; the rest are left out.
 */
enum { SITES_MAX = 1 << 14, LIFE_CLASSES = 44 /* of powers of two ns, up to two hours */ };

struct site {
	uint64_t live_objects, live_bytes, live_requested;
	/* in the window: */
	uint64_t hits, frees, allocated;
	uint64_t peak_bytes;
	uint64_t at_peak;   /* live bytes at the peak of all, if that is still the one of: */
	uint64_t peak_seen; /* number of that peak */
	struct course live; /* live bytes; without steps: none yet */
	uint32_t lives[LIFE_CLASSES];
};

struct sites {
	const struct replay *replay;
	struct site *all; /* by origin */
	size_t n;
	/* Live bytes of all, each counted once: those of objects and of pages without slabs. */
	uint64_t used_bytes;
	uint64_t peak; /* number of the last peak of all */
};

void sites_init(struct sites *sites, const struct replay *replay);
void sites_deinit(struct sites *sites);

/* Add a change of the heap. Returns 0 or -ENOMEM. */
int sites_add(struct sites *sites, const struct heap_change *change);

/* All live bytes of what is selected. Of a part of the allocations, nothing says what pages the
 * slabs take for them. */
uint64_t sites_live_bytes(const struct sites *sites);

/* All memory is at its peak now. */
void sites_note_peak(struct sites *sites);
/* The site's live bytes at the last peak. */
uint64_t site_at_peak(const struct sites *sites, const struct site *site);

/* The life that this share of the freed objects did not outlive, in ns, as the middle of its power
 * of two; 0 without frees. */
double site_life_ns(const struct site *site, double share);
static inline double site_median_life_ns(const struct site *site)
{
	return site_life_ns(site, 0.5);
}

/* How live bytes went on in the window. */
struct course_trend site_trend(const struct sites *sites, const struct site *site);

/*
 * The origins that `value` is positive for, the greatest first, at most n, without those whose
 * memory is counted elsewhere. Returns how many.
 */
typedef double site_value_fn(const struct sites *sites, const struct site *site);
size_t sites_top(const struct sites *sites, site_value_fn *value, uint32_t *origins, size_t n);

/* "alloc_inode+0x59/0xc0 (ext4_inode_cache)": call site, and cache if it has one of its own. */
struct text site_text(const struct replay *replay, uint32_t origin);
/* The same as an object with address, symbol and cache; NULL: no memory. */
json_t *site_json(const struct replay *replay, uint32_t origin);

#endif

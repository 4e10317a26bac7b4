/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_SITES_H
#define SONDE_FORMATS_ANALYSIS_SITES_H

#include <stddef.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/report/since-init.h"
#include "formats/groups/groups.h"
#include "formats/heap/course.h"
#include "formats/heap/heap.h"
#include "formats/trace/sidecar.h"

/*
 * What each origin (call site and cache) did over time: its live bytes, its allocations, and how
 * long its objects lived; and what all of them did. A replay keeps this once, for all analyses
 * (replay->sites). All origins have sums. The course and the lives of a site take more memory than
 * the sums: the first SITES_WITH_COURSE that change in the window have them.
 */
enum {
	LIFE_CLASSES = 44, /* of powers of two ns, up to two hours */
	SITES_MEMORY = 64 << 20,
	SITE_MEMORY = COURSE_STEPS_OF_SITE * sizeof(uint64_t) + LIFE_CLASSES * sizeof(uint32_t),
	SITES_WITH_COURSE = SITES_MEMORY / SITE_MEMORY /* 155,344 */
};

/* A part of a site: the objects of another role than the first one has. */
struct site_other {
	struct group sums;
	uint32_t in_group;
};

struct site {
	/* Of what is live, and of what happened in the window. Its role is that of the first
	 * object; its peak is that of the window: see site_peak_bytes(). */
	struct group sums;
	uint32_t in_group;  /* groups_number(); 0: sites keep no groups */
	bool is_beyond;     /* there is no room for its course and lives */
	uint64_t at_peak;   /* live bytes at the peak of all, if that is still the one of: */
	uint64_t peak_seen; /* number of that peak */
	struct course live; /* live bytes but for the last value, which is that of the sums; without
			       steps: none yet, or is_beyond */
	uint32_t *lives;    /* LIFE_CLASSES of them; NULL: no frees, or is_beyond */
	uint64_t new_frees; /* of the frees, those of objects that were allocated in the window */
	uint64_t missed_frees;    /* in the window: the addresses were allocated again */
	struct site_other *other; /* NULL: there are none */
};

/* What sites are of; it must outlive them. */
struct sites_source {
	const struct heap *heap;
	const struct sidecar *sidecar; /* or NULL */
	bool selects;                  /* some allocations are not selected */
	bool lacks_frees;              /* what is live may have been freed, all of it */
	bool from_first;               /* the guest's first allocation is there */
	/* Of the pass, and of its window so far: */
	const bool *in_window;
	const uint64_t *records;
	const int64_t *first_ns; /* where its time begins: known from the first record on */
	const int64_t *last_ns;  /* and ends: when the pass is over */
};

struct sites {
	struct sites_source of;
	struct groups *groups; /* or NULL: see sites_keep_groups() */
	struct group *all_groups;
	struct site *all; /* by origin */
	size_t n;
	size_t nr_courses, nr_beyond; /* sites with a course, and those without room for one */
	uint64_t peak;                /* number of the last peak of all: see sites_note_peak() */
	uint64_t live_bytes;          /* see sites_live_bytes() */
	struct since_init init;       /* where the guest's init begins: see sites_note_init() */
	/* In the window: */
	uint64_t frees, unknown_frees, missed_frees, invalid; /* of all */
	struct course course; /* of sites_live_bytes(); without steps: nothing has changed */
	uint64_t peak_bytes;  /* their greatest value */
	int64_t peak_ns;      /* and when that was reached first */
};

/* The time of the window, in ns. */
static inline uint64_t sites_duration_ns(const struct sites *sites)
{
	return (uint64_t)*sites->of.last_ns - (uint64_t)*sites->of.first_ns;
}

/* NULL: no memory. */
struct sites *sites_create(const struct sites_source *of);
/* NULL-safe. */
void sites_destroy(struct sites *sites);

/* These groups, which stay the caller's, are of whole origins (groups_are_of_origins()): have their
 * live bytes and peaks kept. Before the first change. */
void sites_keep_groups(struct sites *sites, struct groups *groups);
/* Before output: give them their other sums. */
void sites_fill_groups(const struct sites *sites);

/* Add a change of the heap to `sites`. Returns 0 or -ENOMEM. */
int sites_add(void *sites, const struct heap_change *change);

/* The same of one that is not added, for where init begins. */
void sites_note_init(struct sites *sites, const struct heap_change *change);

/* Records of one vCPU that follow each other. */
struct sites_briefs {
	const struct kmem_brief *first;
	size_t n, more; /* `more` come soon */
	unsigned int vcpu;
	bool is_new; /* none of them, and of those, was at hand before */
};

/*
 * Instead of heap_apply() with sites_add(), for records of a window that is the whole trace, where
 * all allocations are selected, and nobody else is told of changes: `heap` tells sites_add(), which
 * this calls for those that are not like most. Returns 0 or -ENOMEM.
 */
int sites_take_briefs(struct sites *sites, struct heap *heap, const struct sites_briefs *briefs);

/* What is live now is what the window begins with, if something has changed before. Returns 0 or
 * -ENOMEM. */
int sites_begin_window(struct sites *sites);

/* Of a window in which nothing has changed, what was live before is the course. Returns 0 or
 * -ENOMEM. */
int sites_finish(struct sites *sites);

/* All live bytes of what is selected. Of a part of the allocations, nothing says what pages the
 * slabs take for them. */
uint64_t sites_live_bytes(const struct sites *sites);

/* Live bytes of all sites, each counted once: those of objects and of pages without slabs. */
uint64_t sites_used_bytes(const struct sites *sites);

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

/* The greatest live bytes in the window, those that it begins with included. */
uint64_t site_peak_bytes(const struct site *site);

/* Live bytes at the ends of equal parts of the window; zeros if there is no room for a course. */
void site_course(const struct sites *sites, const struct site *site,
		 uint64_t values[COURSE_STEPS_OF_SITE]);
/* The same as an array, which is empty without a course. NULL: no memory. */
json_t *site_course_json(const struct sites *sites, const struct site *site);

/*
 * The origins that `value` is positive for, the greatest first, at most n, without those whose
 * memory is counted elsewhere. Returns how many.
 */
typedef double site_value_fn(const struct sites *sites, const struct site *site);
size_t sites_top(const struct sites *sites, site_value_fn *value, uint32_t *origins, size_t n);

/* "alloc_inode+0x59/0xc0 (ext4_inode_cache)": call site, and cache if it has one of its own. */
struct text site_text(const struct sites *sites, uint32_t origin);
/* The same with the cache of kmalloc(), too, if one of `others` has the same text without it. */
struct text site_text_among(const struct sites *sites, uint32_t origin, const uint32_t *others,
			    size_t n);
/* The same where the others may be many: they are in the order of sites_sort_by_call_site(). */
struct text site_text_among_sorted(const struct sites *sites, uint32_t origin,
				   const uint32_t *others, size_t n);
void sites_sort_by_call_site(const struct sites *sites, uint32_t *origins, size_t n);
/* Where it is in the source (source_text()); "" without debug information. */
struct text site_source_text(const struct sites *sites, uint32_t origin);
/* Whether that is there: tables have a column then. */
bool sites_have_source(const struct sites *sites);
/* "Limit", a line, if there are sites without a course. */
void sites_print_limit(const struct sites *sites, FILE *out, int indent);
/* Their number as "call_sites_without_course". Returns 0, or -1 without memory. */
int sites_put_limit(const struct sites *sites, json_t *root);
/* The site as an object with address, symbol, cache and perhaps source; NULL: no memory. */
json_t *site_json(const struct sites *sites, uint32_t origin);

#endif

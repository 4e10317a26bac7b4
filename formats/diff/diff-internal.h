/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_DIFF_DIFF_INTERNAL_H
#define SONDE_FORMATS_DIFF_DIFF_INTERNAL_H

#include "formats/analysis/analysis.h"
#include "formats/diff/diff.h"
#include "formats/groups/groups.h"

/* Groups of one trace. An analysis of its own, as each side has a pass of its own. */
struct side {
	struct analysis base;
	struct replay replay;
	struct groups *groups;
	uint64_t live_bytes; /* of what is selected, at the end */
};

/* What has the same name on both sides. Addresses differ from boot to boot. */
struct pair {
	char *name;
	char *full;   /* with the sizes of functions; NULL: they differ */
	char *source; /* where its call site is in the source; NULL: none */
	uint64_t hits[2], live[2], allocated[2];
	double rates[2];  /* allocations per second */
	double sigmas;    /* of the difference of rates, if allocations come at random */
	double live_diff; /* bytes, B less A */
	bool is_significant;
};

struct diff {
	struct side sides[2];
	struct replay_bound bounds[2];
	int without_chains; /* the side that has no call chains where the other one has; or -1 */
	struct pair *pairs;
	size_t n, room;
};

/* Read and compare. Diff_destroy() is to be called also on failure. Returns an exit status. */
int diff_compare(const char *verb, struct diff *diff, const struct replay_view views[2],
		 const struct diff_options *options);
void diff_destroy(struct diff *diff);

double diff_seconds(const struct diff *diff, int side);
/* Whether the guests' kernels are of different builds. False if that is not known. */
bool diff_has_two_kernels(const struct diff *diff);

#endif

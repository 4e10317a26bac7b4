/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_PART_H
#define SONDE_VMM_TOP_PART_H

#include "formats/analysis/analysis.h"
#include "vmm/top/model.h"

/*
 * An analysis of the trace that is only shown here. It is told of events or of changes of the heap,
 * and fills tables of the model.
 */
struct top_part {
	struct analysis analysis; /* its `ops` and `replay` */
	/* -ENOMEM. A table that the trace has nothing for gets the reason. */
	int (*put)(struct top_part *part, struct top_model *model, struct error *err);
};

/* Make one for a replay, which outlives it. To be destroyed by analysis_destroy(). -ENOMEM. */
typedef int top_part_fn(const struct replay *replay, struct top_part **out, struct error *err);

top_part_fn top_kmem_create;      /* kmem.c: call sites and caches */
top_part_fn top_functions_create; /* calls.c: of graph, unless functions are profiled */
top_part_fn top_syscalls_create;  /* likewise */
top_part_fn top_stacks_create;    /* stacks.c: call chains of the model's site */

#endif

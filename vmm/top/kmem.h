/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_KMEM_H
#define SONDE_VMM_TOP_KMEM_H

#include "vmm/top/model.h"

/* Allocations of a trace while it is recorded, by call site and by cache. */
struct top_kmem;

/* -ENOENT: `dir` is no trace, or has no allocations. -errno as trace_reader_open(). */
int top_kmem_open(const char *dir, struct top_kmem **out, struct error *err);
/* NULL-safe. */
void top_kmem_close(struct top_kmem *kmem);

/* Read what has come since, and fill the tables of call sites and caches. Takes long for the first
 * time, if the trace is. -ENOMEM, and errors of reading. */
int top_kmem_sample(struct top_kmem *kmem, struct top_model *model, struct error *err);

#endif

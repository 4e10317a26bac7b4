/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_ARRAYS_H
#define SONDE_FORMATS_ALLOCATORS_ARRAYS_H

#include "formats/allocators/simulation.h"

/*
 * Finds out what was allocated or freed as an array, and how many objects a caller took out of a
 * sheaf that it had filled beforehand. A trace has a record for each of its objects:
 * they follow each other on a vCPU; those of an array have one call site, and one time for so many
 * as the tracer took at once.
 */
enum {
	ARRAY_TAKEN_AT_ONCE = 32,
	PREFILLED_MOST = 32, /* objects that one caller takes out of a sheaf filled beforehand */
};

struct one_free {
	uint64_t ptr, call_site;
	int64_t ns;
	unsigned int cpu;
	uint16_t cache;    /* that the record names; 0: none */
	bool is_kmalloc;   /* kfree(), or an array of it */
	bool is_after_rcu; /* the call site is one of array_site_is_of_rcu() */
};

/* What the simulation has not been told yet, as more of the array may come. A zeroed one has
 * nothing. */
struct pending {
	struct allocation allocs[PREFILLED_MOST]; /* several only of a sheaf filled beforehand */
	size_t nr_allocs;
	int64_t alloc_ns; /* of the last */
	struct one_free last_free;
	size_t nr_frees;
	uint64_t ptrs[ARRAY_MOST];
};

/* Functions that free what kfree_rcu() has collected: mm/slab_common.c, and RCU itself. */
bool array_site_is_of_rcu(const char *function);

/* Tell the simulation what is pending, unless this belongs to it, and make this pending. The texts
 * of an allocation must stay. 0 or -ENOMEM. */
int pending_alloc(struct pending *pending, struct simulation *simulation,
		  const struct allocation *allocation, int64_t ns);
int pending_free(struct pending *pending, struct simulation *simulation,
		 const struct one_free *one);
/* Before anything else happens in the simulation, and at its end. 0 or -ENOMEM. */
int pending_flush(struct pending *pending, struct simulation *simulation);

#endif

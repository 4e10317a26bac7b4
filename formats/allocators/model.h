/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_MODEL_H
#define SONDE_FORMATS_ALLOCATORS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * The parameters of a model of the guest's slab allocator: one of the models that are built in, or
 * one that the user describes in a file. Plain data, copied whole.
 */
enum {
	MODEL_PAGE_SIZE = 4096,
	MODEL_MAX_ORDER = 10,
	MODEL_MAX_SIZES = 32,
	MODEL_MAX_RULES = 64,
	MODEL_MAX_FILE = 1 << 20, /* bytes */
};

/* A number that the allocator finds itself, from the size of objects and the number of CPUs. */
#define MODEL_AUTO INT64_C(-1)

/* What can differ between the caches of a model. */
struct cache_params {
	int64_t align;       /* bytes; AUTO: objects take what they took in the guest */
	int64_t extra;       /* bytes more for each object */
	int64_t order;       /* of slabs; AUTO: by the rules below */
	int64_t order_max;   /* beyond that only if an object needs it */
	int64_t min_objects; /* of a slab, if order_max allows it */
	int64_t cpu_partial; /* objects that a CPU's list of partial slabs is meant for */
	int64_t min_partial; /* partial slabs of a node from which on empty ones are given back */
	int64_t sheaf;       /* objects of a sheaf; 0: no sheaves, but slabs of CPUs */
	int64_t prefilled;   /* callers that may not wait fill a sheaf beforehand (prefilled.c) */
	int64_t cpu_array;   /* SLAB: free objects that a CPU keeps */
};

/* "In caches whose names match the glob, this parameter has this value." */
struct model_rule {
	char glob[64];
	uint16_t offset; /* in struct cache_params */
	int64_t value;
};

struct allocator_ops;

struct model {
	char name[64];
	const char *about; /* a line for --list */
	const struct allocator_ops *ops;
	int64_t cpus;            /* AUTO: those of the trace */
	int64_t nodes;           /* NUMA nodes; CPUs are divided among them in their order */
	int64_t order_relaxes;   /* fewer objects are tried before a slab wastes more: until 6.6 */
	int64_t partial_objects; /* a CPU's partial list is bounded by free objects: until 5.15 */
	int64_t merge;           /* caches whose objects take the same bytes are one */
	int64_t kmalloc_copies;  /* of each cache of kmalloc(), used by call site */
	int64_t kmalloc_buckets; /* caches of their own for what users fill (buckets.c) */
	uint32_t kmalloc_sizes[MODEL_MAX_SIZES]; /* ascending */
	size_t nr_kmalloc_sizes;                 /* 0: those of the guest */
	struct cache_params cache;
	struct model_rule rules[MODEL_MAX_RULES]; /* later ones win */
	size_t nr_rules;
};

/* A model that is built in. -ENOENT: there is none of that name. */
int model_find(const char *name, struct model *out, struct error *err);

/*
 * A model file, described in sonde-replay(1). `file` names it in errors, which say FILE:LINE.
 * Returns 0, -EINVAL, or -E2BIG for more rules than there is room for.
 */
int model_parse(const char *file, const char *text, size_t size, struct model *out,
		struct error *err);

/*
 * That of a kernel with this allocator ("slub", "slab", "slob"; "": not known, which is taken for
 * SLUB) and linux_banner, with the guest's own kmalloc() sizes. -EINVAL: the banner names no
 * version, or there is no such allocator.
 */
#define MODEL_OF_GUEST "guest"
int model_of_guest(const char *allocator, const char *banner, struct model *out, struct error *err);

/* The model that a user names: a built-in one, or a path with a slash or a dot. */
int model_load(const char *name, struct model *out, struct error *err);

/* The parameters of a cache, with the rules that match its name. */
struct cache_params model_cache_params(const struct model *model, const char *cache);

/* The built-in models; the last one has no name. */
extern const struct model model_table[];

/* --- buckets.c ------------------------------------------------------------------------------- */

/*
 * Sets of kmalloc() caches of their own, for objects whose size and content users choose: "msg_msg-
 * 64" and so on, "memdup_user-64" and so on. Kernels have them since 6.11 with CONFIG_SLAB_BUCKETS
 * (kmem_buckets_create() in mm/slab_common.c; its callers are in ipc/msgutil.c and mm/util.c).
 */

/* The set that a cache is of, by its name; NULL: of none. */
const char *buckets_of_cache(const char *cache);

/*
 * The set that kmalloc() in this function takes objects from, or would in a kernel with such sets;
 * NULL: none. `copies` says that it was called with exactly the flags of memdup_user(),
 * whose own name no call site has: its objects are attributed to its callers.
 */
const char *buckets_of_call(const char *function, bool copies);

/* --- prefilled.c ----------------------------------------------------------------------------- */

/*
 * For objects that this function allocates without waiting, of a cache with cache_params.prefilled:
 * the least number of them that the caller had a sheaf filled for beforehand; 0: it had none.
 */
unsigned int prefilled_for_call(const char *function);

/*
 * A kernel makes the sheaves of kmalloc() in one go, before which it has called kmalloc() without.
 * What it does when this function calls kmalloc().
 */
enum first_sheaves {
	FIRST_SHEAVES_OTHER,
	FIRST_SHEAVES_EITHER, /* it makes a sheaf, of kmalloc() or of another cache */
	FIRST_SHEAVES_MADE,
};
enum first_sheaves first_sheaves_for_call(const char *function);

#endif

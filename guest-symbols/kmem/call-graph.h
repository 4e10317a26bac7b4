/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_CALL_GRAPH_H
#define SONDE_GUEST_SYMBOLS_KMEM_CALL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * The callers of some functions of a kernel, as far as it takes to prove that all calls come
 * through functions that are known. Instructions are not decoded: whatever may be a reference
 * counts as one. So a proof may fail where it need not, but it does not succeed where it must not.
 */
struct call_graph;

/*
 * Find the callers of `functions` (link-time addresses), their callers, and so on for a few levels;
 * the callers of the functions in `known` do not matter. -ENOMEM.
 */
int call_graph_create(const struct kernel_image *image, const uint64_t *functions, size_t n,
		      const uint64_t *known, size_t nr_known, struct call_graph **out,
		      struct error *err);
void call_graph_destroy(struct call_graph *graph);

enum { CALL_PROOF_OTHERS = 3 };
struct call_proof {
	bool proven;
	bool called; /* by anything at all */
	/* If not proven: why calls may come from anywhere; if that is NULL, the callers that are
	 * neither among the roots nor called by roots alone, `nr_others` in all. */
	const char *anywhere;
	const char *others[CALL_PROOF_OTHERS];
	size_t nr_others;
};

/* Whether one of `functions` is called by `roots` alone, or by functions of which that is true. */
struct call_proof call_graph_prove(struct call_graph *graph, uint64_t function,
				   const uint64_t *roots, size_t nr_roots);

enum { CALL_SITES_MAX = 32 };
struct call_sites {
	uint64_t v[CALL_SITES_MAX]; /* return addresses */
	size_t n;
};

/*
 * The calls that reach `function` and not through any of `roots`: those of the function itself,
 * and of functions that jump to it in their end. A call that returns elsewhere has come through a
 * root. False if they cannot be told apart, or not all of them are known.
 */
bool call_graph_sites(struct call_graph *graph, uint64_t function, const uint64_t *roots,
		      size_t nr_roots, struct call_sites *out);

/* Whether a function calls another one directly, or jumps to it. */
bool call_is_direct(const struct kernel_image *image, const struct symbol *from, uint64_t function);

/* The function that an address lies in; a part such as fn.cold counts as fn. NULL if none. */
const struct symbol *call_graph_function(const struct kernel_image *image, uint64_t address);

#endif

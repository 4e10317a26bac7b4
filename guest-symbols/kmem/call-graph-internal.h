/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_CALL_GRAPH_INTERNAL_H
#define SONDE_GUEST_SYMBOLS_KMEM_CALL_GRAPH_INTERNAL_H

#include <string.h>
#include "guest-symbols/kmem/call-graph.h"

/* Inside of the call graph: call-graph.c finds callers, call-proof.c reasons about them. */
enum {
	CALL_GRAPH_NODES = 256,
	CALL_REL32 = 4, /* bytes of a displacement */
	CALL_ENDBR = 4, /* bytes of endbr64, which a direct branch may leave out */
	/* Bytes in front of a function (CONFIG_CALL_PADDING). A running kernel that counts calls
	 * for its return stack has code there, and has made all calls lead to that
	 * (arch/x86/kernel/callthunks.c). */
	CALL_PADDING = 16,
};

/* A function whose callers are wanted. */
struct call_node {
	uint64_t address;
	const char *anywhere; /* why it may be called from anywhere, or NULL */
	bool complete;        /* all its callers are among the edges */
	unsigned int nr_callers, nr_edges;
	bool in_proof;
};

/* One call or jump to a node from a function, which may have several. */
struct call_edge {
	size_t callee; /* node */
	const struct symbol *caller;
	uint64_t back; /* where a call returns to; 0: a jump */
};

struct call_graph {
	const struct kernel_image *image;
	struct call_node nodes[CALL_GRAPH_NODES];
	size_t nr_nodes;
	struct call_edge *edges;
	size_t nr_edges, room;
};

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Whether what is in front of a displacement makes it a call or a jump. */
static inline bool is_branch(const uint8_t *displacement, size_t before)
{
	const uint8_t *p = displacement;

	return (before >= 1 && (p[-1] == 0xe8 || p[-1] == 0xe9)) ||
	       (before >= 2 && p[-2] == 0x0f && (p[-1] & 0xf0) == 0x80);
}

static inline bool is_call(const uint8_t *displacement, size_t before)
{
	return before >= 1 && displacement[-1] == 0xe8;
}

/* Whether what is in front of a displacement calls a function, or jumps to it, as the displacement
 * leads to `target`. */
static inline bool call_leads_to(uint64_t function, uint64_t target, const uint8_t *displacement,
				 size_t before)
{
	const uint64_t into = target - function;

	return is_branch(displacement, before) &&
	       (into == 0 || into == CALL_ENDBR ||
		(is_call(displacement, before) && function - target < CALL_PADDING));
}

static inline bool call_is_among(uint64_t address, const uint64_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == address)
			return true;
	return false;
}

static inline struct call_node *call_graph_node(struct call_graph *g, uint64_t address)
{
	for (size_t i = 0; i < g->nr_nodes; i++)
		if (g->nodes[i].address == address)
			return &g->nodes[i];
	return NULL;
}

/* Whether no edge in front of `before` is of the same two functions. */
static inline bool call_edge_is_first(const struct call_graph *g, size_t callee,
				      const struct symbol *caller, size_t before)
{
	for (size_t i = 0; i < before; i++)
		if (g->edges[i].callee == callee && g->edges[i].caller == caller)
			return false;
	return true;
}

#endif

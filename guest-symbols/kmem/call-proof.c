/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/kmem/call-graph-internal.h"

enum { MAX_BODIES = 256 }; /* of functions that are searched for jumps */

/*
 * Whether a function has callers, and all of them are roots or nested themselves. One without
 * callers may be called in a way that is not seen, from a table of displacements for instance.
 */
static bool is_nested(struct call_graph *g, uint64_t function, const uint64_t *roots, size_t n)
{
	bool nested = true, called = false;
	struct call_node *node;

	if (call_is_among(function, roots, n))
		return true;
	node = call_graph_node(g, function);
	if (!node || node->anywhere || !node->complete || node->in_proof)
		return false;
	node->in_proof = true;
	for (size_t i = 0; nested && i < g->nr_edges; i++) {
		uint64_t caller = g->edges[i].caller->address;

		if (&g->nodes[g->edges[i].callee] != node || caller == function)
			continue;
		called = true;
		nested = is_nested(g, caller, roots, n);
	}
	node->in_proof = false;
	return nested && called;
}

struct call_proof call_graph_prove(struct call_graph *g, uint64_t function, const uint64_t *roots,
				   size_t nr_roots)
{
	const struct call_node *node = call_graph_node(g, function);
	struct call_proof proof = {0};

	if (!node || !node->complete)
		proof.anywhere = "its callers are not known";
	else
		proof.anywhere = node->anywhere;
	for (size_t i = 0; node && i < g->nr_edges; i++) {
		const struct symbol *caller = g->edges[i].caller;

		if (&g->nodes[g->edges[i].callee] != node || caller->address == function ||
		    !call_edge_is_first(g, g->edges[i].callee, caller, i))
			continue;
		proof.called = true;
		if (is_nested(g, caller->address, roots, nr_roots))
			continue;
		if (proof.nr_others < CALL_PROOF_OTHERS)
			proof.others[proof.nr_others] = caller->name;
		proof.nr_others++;
	}
	proof.proven = !proof.anywhere && !proof.nr_others;
	return proof;
}

/* --- calls that do not come through roots ---------------------------------------------------- */

struct collection {
	struct call_graph *graph;
	const uint64_t *roots;
	size_t nr_roots;
	struct call_sites *out;
	unsigned int bodies; /* that may still be searched for jumps */
};

/* Whether a root calls the function, or a function that does, as far as callers are known. */
static bool is_below_root(const struct collection *c, uint64_t function)
{
	struct call_graph *g = c->graph;
	struct call_node *node = call_graph_node(g, function);
	bool below = false;

	if (!node || node->in_proof)
		return false;
	node->in_proof = true;
	for (size_t i = 0; !below && i < g->nr_edges; i++) {
		uint64_t caller = g->edges[i].caller->address;

		if (&g->nodes[g->edges[i].callee] == node && caller != function)
			below = call_is_among(caller, c->roots, c->nr_roots) ||
				is_below_root(c, caller);
	}
	node->in_proof = false;
	return below;
}

/* The function that a jump with this displacement leads into, at its start; NULL if none. */
static const struct symbol *jump_target(const struct kernel_image *image, uint64_t at,
					const uint8_t *displacement, size_t before)
{
	uint64_t target = at + CALL_REL32 + (uint64_t)(int64_t)(int32_t)get32(displacement);
	const struct symbol *symbol;

	if (!is_branch(displacement, before) || is_call(displacement, before))
		return NULL;
	symbol = symbols_covering(image->symbols, target);
	return symbol && target - symbol->address <= CALL_ENDBR ? symbol : NULL;
}

/* Whether a function seems to end in a root, or in a function of which that is true. */
static bool ends_in_root(struct collection *c, const struct symbol *function)
{
	const struct kernel_image *image = c->graph->image;
	const uint8_t *body = kernel_image_bytes(image, function->address, function->size);

	if (!body || !c->bodies)
		return !c->bodies;
	c->bodies--;
	for (size_t i = 1; i + CALL_REL32 <= function->size; i++) {
		const struct symbol *to = jump_target(image, function->address + i, body + i, i);

		if (!to || to->address == function->address)
			continue;
		if (call_is_among(to->address, c->roots, c->nr_roots) || ends_in_root(c, to))
			return true;
	}
	return false;
}

static bool add_site(struct collection *c, const struct call_edge *edge)
{
	if (is_nested(c->graph, edge->caller->address, c->roots, c->nr_roots))
		return true;
	if (c->out->n == CALL_SITES_MAX || is_below_root(c, edge->caller->address))
		return false;
	c->out->v[c->out->n++] = edge->back;
	return true;
}

/* The calls of a function, and of those that jump to it. */
static bool collect(struct collection *c, uint64_t function)
{
	struct call_graph *g = c->graph;
	struct call_node *node = call_graph_node(g, function);
	bool known = true;

	if (node && node->in_proof)
		return true;
	if (!node || node->anywhere || !node->complete ||
	    ends_in_root(c, call_graph_function(g->image, function)))
		return false;
	node->in_proof = true;
	for (size_t i = 0; known && i < g->nr_edges; i++) {
		const struct call_edge *edge = &g->edges[i];
		uint64_t caller = edge->caller->address;

		if (&g->nodes[edge->callee] != node || caller == function ||
		    call_is_among(caller, c->roots, c->nr_roots))
			continue;
		known = edge->back ? add_site(c, edge) : collect(c, caller);
	}
	node->in_proof = false;
	return known;
}

bool call_graph_sites(struct call_graph *graph, uint64_t function, const uint64_t *roots,
		      size_t nr_roots, struct call_sites *out)
{
	struct collection c = {graph, roots, nr_roots, out, MAX_BODIES};

	out->n = 0;
	return collect(&c, function) && out->n;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/kmem/call-graph-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"

enum {
	MAX_LEVELS = 3, /* of callers */
	MAX_CALLERS = 64,
	MAX_REFERENCES = 256, /* of the callers of one function */
	SHORT_REACH = 128,    /* bytes, of a jump of SHORT_JUMP bytes */
	SHORT_JUMP = 2,
};

static const char by_modules[] = "modules may call it";
static const char by_pointer[] = "its address is taken";

const struct symbol *call_graph_function(const struct kernel_image *image, uint64_t address)
{
	const struct symbol *symbol = symbols_covering(image->symbols, address), *whole;
	const char *part = symbol ? strstr(symbol->name, ".cold") : NULL;
	char name[128];

	if (!part)
		return symbol;
	snprintf(name, sizeof(name), "%.*s", (int)(part - symbol->name), symbol->name);
	whole = symbols_find(image->symbols, name);
	return whole ? whole : symbol;
}

/* --- nodes and edges ------------------------------------------------------------------------- */

static bool is_exported(const struct kernel_image *image, uint64_t function)
{
	const struct symbol *symbol = symbols_covering(image->symbols, function);
	char name[160];

	if (!symbol)
		return true;
	snprintf(name, sizeof(name), "__ksymtab_%s", symbol->name);
	return symbols_find(image->symbols, name);
}

static void add_node(struct call_graph *g, uint64_t function)
{
	if (g->nr_nodes == CALL_GRAPH_NODES || call_graph_node(g, function))
		return;
	g->nodes[g->nr_nodes++] = (struct call_node){
		.address = function,
		.anywhere = is_exported(g->image, function) ? by_modules : NULL,
	};
}

static int append_edge(struct call_graph *g, struct call_edge edge, struct error *err)
{
	if (!array_grow(&g->edges, sizeof(*g->edges), g->nr_edges, &g->room))
		return error_set(err, ENOMEM, "out of memory");
	g->edges[g->nr_edges++] = edge;
	return 0;
}

static int add_edge(struct call_graph *g, size_t callee, uint64_t from, uint64_t back,
		    struct error *err)
{
	const struct symbol *caller = call_graph_function(g->image, from);
	struct call_node *node = &g->nodes[callee];

	if (!caller)
		node->anywhere = "code without a symbol calls it";
	if (node->anywhere)
		return 0;
	node->nr_callers += call_edge_is_first(g, callee, caller, g->nr_edges);
	node->nr_edges++;
	if (node->nr_callers > MAX_CALLERS || node->nr_edges > MAX_REFERENCES) {
		node->anywhere = "too many functions call it";
		return 0;
	}
	return append_edge(g, (struct call_edge){callee, caller, back}, err);
}

/* --- references ------------------------------------------------------------------------------ */

/* The nodes of one level, and the range of their addresses. */
struct search {
	struct call_graph *graph;
	size_t from, to;
	uint64_t low, high;
};

/* lea disp(%rip),%r64 */
static bool is_lea(const uint8_t *displacement, size_t before)
{
	const uint8_t *p = displacement;

	return before >= 3 && (p[-3] & 0xf8) == 0x48 && p[-2] == 0x8d && (p[-1] & 0xc7) == 0x05;
}

/* A displacement of 32 bits at `at` that leads to `target`. */
static int see_displacement(const struct search *s, uint64_t at, const uint8_t *p, size_t before,
			    uint64_t target, struct error *err)
{
	struct call_graph *g = s->graph;
	int ret = 0;

	for (size_t i = s->from; !ret && i < s->to; i++) {
		const uint64_t address = g->nodes[i].address;

		if (call_leads_to(address, target, p, before))
			ret = add_edge(g, i, at - 1, is_call(p, before) ? at + CALL_REL32 : 0, err);
		else if (target == address && is_lea(p, before))
			g->nodes[i].anywhere = by_pointer;
	}
	return ret;
}

static void see_pointer(const struct search *s, uint64_t value)
{
	for (size_t i = s->from; i < s->to; i++)
		if (s->graph->nodes[i].address == value)
			s->graph->nodes[i].anywhere = by_pointer;
}

/* Every position may be an operand. Hardly any other bytes are that very address or distance. */
static int search_text(const struct search *s, uint64_t start, uint64_t stop, struct error *err)
{
	const struct kernel_image *image = s->graph->image;
	const uint8_t *text = stop > start ? kernel_image_bytes(image, start, stop - start) : NULL;
	uint64_t low = s->low, reach = s->high - s->low;
	int ret = 0;

	for (size_t i = 0; text && !ret && i + CALL_REL32 <= stop - start; i++) {
		uint64_t word = (uint64_t)(int64_t)(int32_t)get32(text + i);
		uint64_t target = start + i + CALL_REL32 + word;

		if (target - low <= reach)
			ret = see_displacement(s, start + i, text + i, i, target, err);
		if (word - image->bytes_slide - low <= reach)
			see_pointer(s, word - image->bytes_slide);
	}
	return ret;
}

bool call_is_direct(const struct kernel_image *image, const struct symbol *from, uint64_t function)
{
	const uint8_t *body = kernel_image_bytes(image, from->address, from->size);

	for (size_t i = 1; body && i + CALL_REL32 <= from->size; i++) {
		const uint64_t word = (uint64_t)(int64_t)(int32_t)get32(body + i);

		if (call_leads_to(function, from->address + i + CALL_REL32 + word, body + i, i))
			return true;
	}
	return false;
}

static bool is_short_jump(const uint8_t *p)
{
	return p[0] == 0xeb || (p[0] & 0xf0) == 0x70;
}

/* Jumps of two bytes, from functions nearby. Two bytes that may be one count. */
static int search_short(const struct search *s, size_t node, struct error *err)
{
	struct call_graph *g = s->graph;
	uint64_t target = g->nodes[node].address, at = target - SHORT_REACH - SHORT_JUMP;
	const uint8_t *p = kernel_image_bytes(g->image, at, 2 * SHORT_REACH + SHORT_JUMP);
	int ret = 0;

	for (; p && !ret && at + SHORT_JUMP <= target + SHORT_REACH; at++, p++) {
		uint64_t to = at + SHORT_JUMP + (uint64_t)(int64_t)(int8_t)p[1];
		const struct symbol *from;

		if (!is_short_jump(p) || to != target)
			continue;
		from = call_graph_function(g->image, at);
		if (from && from->address != target)
			ret = add_edge(g, node, at, 0, err);
	}
	return ret;
}

static void search_data(const struct search *s)
{
	const struct kernel_image *image = s->graph->image;
	uint64_t sites = symbols_address(image->symbols, "__start_mcount_loc");
	uint64_t sites_end = symbols_address(image->symbols, "__stop_mcount_loc");

	for (size_t i = 0; i + sizeof(uint64_t) <= image->init_size; i += sizeof(uint64_t)) {
		uint64_t at = image->text + i, value;

		memcpy(&value, image->init_bytes + i, sizeof(value));
		value -= image->bytes_slide;
		if (value - s->low <= s->high - s->low && (at < sites || at >= sites_end) &&
		    !kernel_image_is_text(image, at))
			see_pointer(s, value);
	}
}

static int search_level(struct call_graph *g, size_t from, struct error *err)
{
	const struct kernel_image *image = g->image;
	struct search s = {.graph = g, .from = from, .to = g->nr_nodes, .low = UINT64_MAX};
	int ret;

	for (size_t i = s.from; i < s.to; i++) {
		uint64_t address = g->nodes[i].address;

		s.low = address - CALL_PADDING < s.low ? address - CALL_PADDING : s.low;
		s.high = address + CALL_ENDBR > s.high ? address + CALL_ENDBR : s.high;
	}
	ret = search_text(&s, image->text, image->etext, err);
	if (!ret)
		ret = search_text(&s, symbols_address(image->symbols, "_sinittext"),
				  symbols_address(image->symbols, "_einittext"), err);
	for (size_t i = s.from; !ret && i < s.to; i++) {
		ret = search_short(&s, i, err);
		g->nodes[i].complete = true;
	}
	search_data(&s);
	return ret;
}

/* Callers become nodes, but for those in `known` and those of a function that fails anyway. */
static void add_callers(struct call_graph *g, size_t first_edge, const uint64_t *known, size_t n)
{
	for (size_t i = first_edge; i < g->nr_edges; i++) {
		uint64_t caller = g->edges[i].caller->address;

		if (!g->nodes[g->edges[i].callee].anywhere && !call_is_among(caller, known, n))
			add_node(g, caller);
	}
}

int call_graph_create(const struct kernel_image *image, const uint64_t *functions, size_t n,
		      const uint64_t *known, size_t nr_known, struct call_graph **out,
		      struct error *err)
{
	struct call_graph *g = calloc(1, sizeof(*g));
	size_t from = 0;
	int ret = 0;

	if (!g)
		return error_set(err, ENOMEM, "out of memory");
	g->image = image;
	for (size_t i = 0; i < n; i++)
		add_node(g, functions[i]);
	for (int level = 0; !ret && level < MAX_LEVELS && from < g->nr_nodes; level++) {
		size_t edges = g->nr_edges, nodes = g->nr_nodes;

		ret = search_level(g, from, err);
		from = nodes;
		if (!ret)
			add_callers(g, edges, known, nr_known);
	}
	if (ret)
		call_graph_destroy(g);
	else
		*out = g;
	return ret;
}

void call_graph_destroy(struct call_graph *g)
{
	if (!g)
		return;
	free(g->edges);
	free(g);
}

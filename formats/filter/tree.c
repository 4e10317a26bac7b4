/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a bound filter consists of. */
#include <stdio.h>
#include <string.h>
#include "formats/filter/internal.h"

unsigned int event_predicate_root(const struct event_predicate *predicate)
{
	return predicate->filter->root;
}

struct event_node event_predicate_node(const struct event_predicate *predicate, unsigned int node)
{
	const struct filter_node *n = &predicate->filter->nodes[node];
	const struct bound_term *term;

	if (n->kind != FILTER_TERM)
		return (struct event_node){.kind = n->kind, .left = n->left, .right = n->right};
	term = &predicate->terms[n->left];
	return (struct event_node){.kind = FILTER_TERM,
				   .field = term->field,
				   .op = term->op,
				   .by_text = term->by_text || term->in_cpus,
				   .value = term->value,
				   .text = term->text,
				   .ranges = term->ranges,
				   .nr_ranges = term->nr_ranges};
}

bool event_known_has(const struct event_known *known, unsigned int node)
{
	return known->nodes[node / 64] >> (node % 64) & 1;
}

void event_known_set(struct event_known *known, unsigned int node, bool value)
{
	uint64_t bit = UINT64_C(1) << (node % 64);

	known->nodes[node / 64] |= bit;
	if (value)
		known->values[node / 64] |= bit;
	else
		known->values[node / 64] &= ~bit;
}

static void print_term(const struct filter_term *term, FILE *out)
{
	static const char *const ops[] = {
		[FILTER_EQ] = "==", [FILTER_NE] = "!=", [FILTER_LT] = "<",  [FILTER_LE] = "<=",
		[FILTER_GT] = ">",  [FILTER_GE] = ">=", [FILTER_AND] = "&", [FILTER_GLOB] = "~",
	};
	bool plain = term->is_number || term->is_cpus;
	const char *quote = plain ? "" : strchr(term->text, '"') ? "'" : "\"";

	fprintf(out, "%s %s %s%s%s", term->field, ops[term->op], quote, term->text, quote);
}

static void print_node(const struct event_filter *filter, unsigned int index,
		       enum filter_node_kind inside, FILE *out)
{
	const struct filter_node *node = &filter->nodes[index];
	bool grouped = node->kind != inside;

	if (node->kind == FILTER_TERM) {
		print_term(&filter->terms[node->left], out);
		return;
	}
	if (node->kind == FILTER_NOT) {
		fputs("!(", out);
		print_node(filter, node->left, filter->nodes[node->left].kind, out);
		fputc(')', out);
		return;
	}
	if (grouped)
		fputc('(', out);
	print_node(filter, node->left, node->kind, out);
	fputs(node->kind == FILTER_BOTH ? " && " : " || ", out);
	print_node(filter, node->right, node->kind, out);
	if (grouped)
		fputc(')', out);
}

void event_predicate_print(const struct event_predicate *predicate, unsigned int node, char *out,
			   size_t size)
{
	FILE *stream = fmemopen(out, size, "w");

	*out = '\0';
	if (!stream)
		return;
	print_node(predicate->filter, node, FILTER_BOTH, stream);
	fclose(stream);
	out[size - 1] = '\0';
}

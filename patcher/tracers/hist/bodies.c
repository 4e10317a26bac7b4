/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the functions that are counted lie, and the gate that refuses calls from there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "patcher/tracers/hist/hist.h"

enum { NEAR = 1 << 20 /* bytes; parts of functions that one comparison excludes together */ };

bool hist_is_counted(const struct alloc_entry *entry, unsigned int types)
{
	return types >> entry->type & 1 && entry->action == ALLOC_ACTION_ALLOC;
}

static int by_begin(const void *a, const void *b)
{
	const struct hist_range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* A return address may lie right behind the body, but not at its beginning. */
static void add_range(struct hist_bodies *r, const struct kernel *kernel, uint64_t link,
		      uint64_t size)
{
	const uint64_t begin = kernel_gva(kernel, link) + 1;

	if (size)
		r->v[r->n++] = (struct hist_range){begin, begin + size};
}

int hist_bodies_find(const struct alloc_points *points, const struct kernel *kernel,
		     unsigned int type, struct hist_bodies *out, struct error *err)
{
	char name[128];

	*out = (struct hist_bodies){.v = calloc(2 * points->n + 1, sizeof(*out->v))};
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *point = &points->v[i];
		const struct symbol *cold;

		if (!hist_is_counted(&point->entry, 1u << type))
			continue;
		add_range(out, kernel, point->address, point->size);
		snprintf(name, sizeof(name), "%s.cold", point->entry.name);
		cold = symbols_find(kernel->image->symbols, name);
		if (cold)
			add_range(out, kernel, cold->address, cold->size);
	}
	qsort(out->v, out->n, sizeof(*out->v), by_begin);
	return 0;
}

/* Yes outside of a range. */
static int append_outside(struct gate *gate, uint64_t begin, uint64_t end, struct error *err)
{
	const unsigned int left = gate->n;
	unsigned int right;
	int ret = gate_append(gate, gate_term(GATE_CALL_SITE, GATE_LT, begin), err);

	right = gate->n;
	if (!ret)
		ret = gate_append(gate, gate_term(GATE_CALL_SITE, GATE_GE, end), err);
	if (!ret)
		gate_or(gate, left, right);
	return ret;
}

/* Yes outside of ranges that lie near each other: most calls need the first two terms. */
static int append_cluster(struct gate *gate, const struct hist_range *v, size_t n,
			  struct error *err)
{
	const unsigned int from = gate->n;
	unsigned int inner;
	int ret = append_outside(gate, v[0].begin, v[n - 1].end, err);

	inner = gate->n;
	for (size_t i = 0; n > 1 && !ret && i < n; i++) {
		const unsigned int before = gate->n;

		ret = append_outside(gate, v[i].begin, v[i].end, err);
		if (!ret && i)
			gate_and(gate, inner, before);
	}
	if (!ret && n > 1)
		gate_or(gate, from, inner);
	return ret;
}

int hist_bodies_append(struct gate *gate, const struct hist_bodies *bodies, struct error *err)
{
	int ret = 0;

	for (size_t i = 0, n; !ret && i < bodies->n; i += n) {
		struct gate one = {0};

		for (n = 1;
		     i + n < bodies->n && bodies->v[i + n].begin - bodies->v[i].begin < NEAR;)
			n++;
		ret = append_cluster(&one, bodies->v + i, n, err);
		if (!ret)
			ret = gate_conjoin(gate, &one, err);
	}
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocations, counted at the entries of the kmem tracer's functions: what a call asks for is in
 * its registers there. What it gets is known at its return, when they hold something else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/kmem.h"
#include "guest-symbols/kmem/allocators.h"
#include "patcher/tracers/functions.h"
#include "patcher/tracers/hist/hist.h"

enum { NEAR = 1 << 20 /* bytes; parts of functions that one comparison excludes together */ };

/* By the number of an argument, from 1. */
static const uint8_t argument_regs[] = {0, 7, 6, 2, 1, 8, 9};

static const struct {
	const char *name;
	enum alloc_role role;
	uint8_t size;
	bool is_signed;
	enum hist_show show;
} roles[] = {
	{"call_site", ALLOC_ROLE_CALLER, 8, false, HIST_SYM_OFFSET},
	{"bytes_req", ALLOC_ROLE_SIZE, 8, false, HIST_UNSIGNED},
	{"gfp_flags", ALLOC_ROLE_GFP, 4, false, HIST_HEX},
	{"node", ALLOC_ROLE_NODE, 4, true, HIST_SIGNED},
};
enum { NR_ROLES = sizeof(roles) / sizeof(roles[0]) };

static const struct event_names no_names;

/* What a filter may ask for of a call, as far as the guest can decide it. */
static const struct event_class *counted_class(void)
{
	return &kmem_classes_of(EVENT_TASK_ALL)[KMEM_CLASS_KMALLOC];
}

/* --- without a guest -------------------------------------------------------------------------- */

void hist_allocs_fields(struct hist_fields *out)
{
	for (size_t i = 0; i < NR_ROLES; i++)
		hist_fields_add(out, &(struct hist_field){roles[i].name,
							  {.source = HIST_PARENT, .size = 8},
							  roles[i].show,
							  0,
							  0});
}

static int check_term(const struct hist_term *term, struct error *err)
{
	static const char *const at_return[] = {"ptr", "bytes_alloc", "cache", "order"};

	for (size_t i = 0; i < sizeof(at_return) / sizeof(at_return[0]); i++)
		if (!strcmp(term->name, at_return[i]))
			return error_set_column(err, ENOTSUP, term->column,
						"trace spec, character %u: '%s' is known when a "
						"call returns, and calls are counted at their "
						"entry",
						term->column, term->name);
	return 0;
}

int hist_allocs_check(const struct trace_spec *spec, struct error *err)
{
	const uint32_t types = spec->words & ((1u << KMEM_TYPE_COUNT) - 1);
	int ret = 0;

	if (types != 1u << KMEM_TYPE_KMALLOC)
		return error_set(err, ENOTSUP,
				 "'%s': of allocations only kmem:kmalloc can be counted in the "
				 "guest: what a cache's object, or pages, are asked for by is "
				 "found out by the host",
				 spec->text);
	if (spec->words & ~types)
		return error_set(err, EINVAL,
				 "'%s': a histogram records no tasks and call chains: name pid or "
				 "comm as a key",
				 spec->text);
	for (size_t i = 0; !ret && i < spec->hist->nr_keys; i++)
		ret = check_term(&spec->hist->keys[i], err);
	for (size_t i = 0; !ret && i < spec->hist->nr_values; i++)
		ret = check_term(&spec->hist->values[i], err);
	return ret ? ret : trace_spec_check_filter(spec, counted_class(), &no_names, err);
}

/* --- which calls ------------------------------------------------------------------------------ */

struct range {
	uint64_t begin, end; /* gvas */
};

struct ranges {
	struct range *v;
	size_t n;
};

static bool is_counted(const struct alloc_entry *entry)
{
	return entry->type == KMEM_TYPE_KMALLOC && entry->action == ALLOC_ACTION_ALLOC;
}

static int by_begin(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* A return address may lie right behind the body, but not at its beginning. */
static void add_range(struct ranges *r, const struct kernel *kernel, uint64_t link, uint64_t size)
{
	const uint64_t begin = kernel_gva(kernel, link) + 1;

	if (size)
		r->v[r->n++] = (struct range){begin, begin + size};
}

/* The bodies of the functions that are counted, with their parts elsewhere. */
static int find_bodies(const struct alloc_points *points, const struct kernel *kernel,
		       struct ranges *out, struct error *err)
{
	char name[128];

	*out = (struct ranges){.v = calloc(2 * points->n + 1, sizeof(*out->v))};
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *point = &points->v[i];
		const struct symbol *cold;

		if (!is_counted(&point->entry))
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
static int append_cluster(struct gate *gate, const struct range *v, size_t n, struct error *err)
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

/*
 * Functions of kmalloc call each other, for what is larger than any cache holds: as in the kmem
 * tracer, one of these calls is counted, that which comes from elsewhere.
 */
static int append_bodies(struct gate *gate, const struct ranges *bodies, struct error *err)
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

static int add_term(struct gate *gate, struct gate_term term, struct error *err)
{
	struct gate one = {0};
	int ret = gate_append(&one, term, err);

	return ret ? ret : gate_conjoin(gate, &one, err);
}

static enum gate_source source_of(const struct alloc_entry *entry, enum alloc_role role)
{
	return (enum gate_source)(GATE_ARG0 + entry->argument[role] - 1);
}

/* kmalloc(0) allocates nothing. */
static int append_size(struct gate *gate, const struct alloc_entry *entry, struct error *err)
{
	return add_term(gate, gate_term(source_of(entry, ALLOC_ROLE_SIZE), GATE_NE, 0), err);
}

static int append_vcpus(struct gate *gate, const struct trace_spec *spec, struct error *err)
{
	const struct gate_term vcpu = gate_term(GATE_VCPU, GATE_EQ, 0);
	uint64_t vcpus[TRACE_SPEC_MAX_VCPUS];
	struct gate one = {0};
	size_t n = 0;
	int ret;

	if (spec->vcpus == UINT64_MAX)
		return 0;
	for (uint64_t left = spec->vcpus; left; left &= left - 1)
		vcpus[n++] = (uint64_t)__builtin_ctzll(left);
	ret = gate_append_list(&one, vcpu, vcpus, n, err);
	return ret ? ret : gate_conjoin(gate, &one, err);
}

static size_t list_gate_fields(const struct alloc_entry *entry, struct gate_field *out)
{
	size_t n = 0;

	out[n++] = (struct gate_field){.name = "pid", .source = GATE_PID, .size = 4};
	out[n++] = (struct gate_field){.name = "tgid", .source = GATE_TGID, .size = 4};
	out[n++] = (struct gate_field){.name = "cgroup", .source = GATE_CGROUP, .size = 8};
	out[n++] = (struct gate_field){.name = "vcpu", .source = GATE_VCPU, .size = 4};
	for (size_t i = 0; i < NR_ROLES; i++)
		if (entry->argument[roles[i].role])
			out[n++] = (struct gate_field){.name = roles[i].name,
						       .source = source_of(entry, roles[i].role),
						       .size = roles[i].size,
						       .is_signed = roles[i].is_signed};
	if (!entry->argument[ALLOC_ROLE_CALLER])
		out[n++] = (struct gate_field){
			.name = "call_site", .source = GATE_CALL_SITE, .size = 8};
	return n;
}

static int append_filter(struct gate *gate, const struct trace_spec *spec,
			 const struct alloc_entry *entry, struct error *err)
{
	struct gate_field fields[NR_ROLES + 5];
	struct event_predicate *predicate;
	struct gate_split split;
	char rest[200];
	int ret;

	if (!spec->filter)
		return 0;
	ret = event_filter_bind(spec->filter, counted_class(), &no_names, &predicate, err);
	if (ret)
		return ret;
	gate_split(predicate, fields, list_gate_fields(entry, fields), &split);
	gate_split_print(&split, predicate, false, rest, sizeof(rest));
	event_predicate_destroy(predicate);
	if (!split.whole)
		return error_set(err, ENOTSUP,
				 "the guest cannot decide '%s' at calls of %s, and a histogram is "
				 "made in the guest",
				 rest, entry->name);
	return gate_conjoin(gate, &split.gate, err);
}

static int make_gate(struct gate *gate, const struct trace_spec *spec,
		     const struct alloc_entry *entry, const struct ranges *bodies,
		     struct error *err)
{
	int ret = functions_add_pids(gate, spec, err);

	if (!ret)
		ret = append_vcpus(gate, spec, err);

	if (!ret)
		ret = append_filter(gate, spec, entry, err);
	if (!ret)
		ret = append_size(gate, entry, err);
	return ret ? ret : append_bodies(gate, bodies, err);
}

/* --- parts ------------------------------------------------------------------------------------ */

static struct hist_operand operand_of(const struct alloc_entry *entry, size_t i)
{
	const uint8_t argument = entry->argument[roles[i].role];
	struct hist_operand o = {.source = HIST_REGISTER,
				 .reg = argument_regs[argument],
				 .size = roles[i].size,
				 .is_signed = roles[i].is_signed};

	if (!argument && roles[i].role == ALLOC_ROLE_CALLER)
		o.source = HIST_PARENT;
	else if (!argument) /* any node; the other two are always there */
		o = (struct hist_operand){.source = HIST_CONSTANT, .at = -1, .size = 8};
	return o;
}

static void list_fields(const struct alloc_entry *entry, struct hist_fields *out)
{
	*out = (struct hist_fields){0};
	for (size_t i = 0; i < NR_ROLES; i++)
		hist_fields_add(out, &(struct hist_field){roles[i].name, operand_of(entry, i),
							  roles[i].show, 0, 0});
	hist_fields_add_common(out);
}

static bool is_equal(const struct hist_part *a, const struct hist_part *b)
{
	return !memcmp(&a->program, &b->program, sizeof(a->program)) && a->gate.n == b->gate.n &&
	       !memcmp(a->gate.terms, b->gate.terms, a->gate.n * sizeof(a->gate.terms[0]));
}

/* Functions that have the same registers for what is asked for share a part. */
static size_t keep_part(struct hist_allocs *a, const struct hist_part *part)
{
	for (size_t i = 0; i < a->nr_parts; i++)
		if (is_equal(&a->parts[i], part))
			return i;
	a->parts[a->nr_parts] = *part;
	return a->nr_parts++;
}

static int add_point(struct hist_allocs *a, const struct trace_spec *spec,
		     const struct kernel *kernel, const struct alloc_point *point,
		     const struct ranges *bodies, struct hist_config *config, struct error *err)
{
	struct hist_fields fields;
	struct hist_part part;
	int ret;

	memset(&part, 0, sizeof(part));
	if (point->entry.nr_calls)
		return error_set(err, ENOTSUP, "only some calls of %s allocate", point->entry.name);
	list_fields(&point->entry, &fields);
	ret = hist_make_program(spec, &fields, &part.program, config, err);
	if (!ret)
		ret = make_gate(&part.gate, spec, &point->entry, bodies, err);
	if (ret)
		return ret;
	a->sites[a->nr_sites++] =
		(struct hist_alloc_site){kernel_gva(kernel, point->site), keep_part(a, &part)};
	return 0;
}

static int check_unresolved(const struct alloc_points *points, struct error *err)
{
	for (size_t i = 0; i < points->nr_unresolved; i++) {
		const struct alloc_unresolved *u = &points->unresolved[i];

		if (u->type == KMEM_TYPE_KMALLOC && !u->frees)
			return error_set(err, ENOTSUP, "calls of %s cannot be counted: %s", u->name,
					 u->reason);
	}
	return 0;
}

int hist_allocs_create(const struct trace_spec *spec, const struct kernel *kernel,
		       struct hist_allocs *out, struct hist_config *config, struct error *err)
{
	const struct alloc_points *points;
	struct ranges bodies = {0};
	int ret = alloc_points_of(kernel->image, &points, err);

	*out = (struct hist_allocs){0};
	if (!ret)
		ret = check_unresolved(points, err);
	if (!ret)
		ret = find_bodies(points, kernel, &bodies, err);
	if (ret)
		return ret;
	out->parts = calloc(points->n + 1, sizeof(*out->parts));
	out->sites = calloc(points->n + 1, sizeof(*out->sites));
	if (!out->parts || !out->sites)
		ret = error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < points->n; i++)
		if (is_counted(&points->v[i].entry))
			ret = add_point(out, spec, kernel, &points->v[i], &bodies, config, err);
	if (!ret && !out->nr_sites)
		ret = error_set(err, ENOTSUP, "this kernel has no function of kmalloc");
	free(bodies.v);
	if (ret)
		hist_allocs_deinit(out);
	return ret;
}

void hist_allocs_deinit(struct hist_allocs *a)
{
	free(a->parts);
	free(a->sites);
	*a = (struct hist_allocs){0};
}

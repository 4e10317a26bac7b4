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
#include "patcher/tracers/condition-names.h"
#include "patcher/tracers/functions.h"
#include "patcher/tracers/hist/hist.h"

enum { CACHE_MEMBER_BYTES = 4 };

/* By the number of an argument, from 1. */
static const uint8_t argument_regs[] = {0, 7, 6, 2, 1, 8, 9};

enum {
	KMALLOC = 1 << KMEM_TYPE_KMALLOC,
	CACHE = 1 << KMEM_TYPE_CACHE,
	PAGES = 1 << KMEM_TYPE_PAGES,
	ALL_TYPES = KMALLOC | CACHE | PAGES,
};

static const struct role {
	const char *name;
	enum alloc_role role; /* ALLOC_ROLE_NONE: the cache alone knows it */
	uint8_t size;
	bool is_signed;
	enum hist_show show;
	unsigned int types;       /* of allocations that have it */
	const char *cache_member; /* of struct kmem_cache, which has it where no argument has it */
} roles[] = {
	{"call_site", ALLOC_ROLE_CALLER, 8, false, HIST_SYM_OFFSET, KMALLOC | CACHE, NULL},
	{"bytes_req", ALLOC_ROLE_SIZE, 8, false, HIST_UNSIGNED, KMALLOC | CACHE, "object_size"},
	{"bytes_alloc", ALLOC_ROLE_NONE, 4, false, HIST_UNSIGNED, KMALLOC | CACHE, "size"},
	{"gfp_flags", ALLOC_ROLE_GFP, 4, false, HIST_HEX, ALL_TYPES, NULL},
	{"node", ALLOC_ROLE_NODE, 4, true, HIST_SIGNED, ALL_TYPES, NULL},
	{"order", ALLOC_ROLE_ORDER, 4, false, HIST_UNSIGNED, PAGES, NULL},
};
enum { NR_ROLES = sizeof(roles) / sizeof(roles[0]), BYTES_ALLOC = 2 };

/* Those of kmem's types that a spec means: all without any. */
static unsigned int types_of(const struct trace_spec *spec)
{
	const unsigned int types = spec->words & ALL_TYPES;

	return types ? types : ALL_TYPES;
}

/* Whether all allocations of these types have it. */
static bool has_role(const struct role *role, unsigned int types)
{
	return !(types & ~role->types);
}

/* What a filter may ask for of a call, as far as the guest can decide it. */
static const struct event_class *counted_class(enum kmem_type_id type)
{
	return &kmem_classes_of(EVENT_TASK_ALL)[KMEM_CLASS_KMALLOC + type];
}

/* --- without a guest -------------------------------------------------------------------------- */

void hist_allocs_fields(const struct trace_spec *spec, struct hist_fields *out)
{
	for (size_t i = 0; i < NR_ROLES; i++)
		if (has_role(&roles[i], types_of(spec)))
			hist_fields_add(out,
					&(struct hist_field){roles[i].name,
							     {.source = HIST_PARENT, .size = 8},
							     roles[i].show,
							     0,
							     0});
}

/* Why a field that events have is none of a call that is counted. */
static const struct {
	const char *name;
	unsigned int types; /* of which one must be counted */
	const char *why;
} unknown[] = {
	{"ptr", ALL_TYPES,
	 "is known when a call returns, and a histogram counts calls at their entry: record "
	 "events, without hist:, and use 'sonde report --by pointer'"},
	{"cache", ALL_TYPES, "is a name that the host looks up: use 'sonde report --by cache'"},
	{"call_site", PAGES,
	 "of pages is found by the host, which unwinds their stacks: use the key 'stacktrace', "
	 "use 'sonde report', or count only kmem:kmalloc,cache"},
	{"bytes_req", PAGES, "is of slab memory: pages have an 'order'; count them by themselves"},
	{"bytes_alloc", PAGES,
	 "is of slab memory: pages have an 'order'; count them by themselves"},
	{"order", KMALLOC | CACHE, "is of pages: count only kmem:pages"},
};

/* The host has what a call asks for, and no caches of the guest's. */
static bool is_refused_on_host(const struct trace_spec *spec, const struct hist_term *term,
			       unsigned int types)
{
	return types & KMALLOC && hist_is_on_host(spec) && !strcmp(term->name, "bytes_alloc");
}

static int check_term(const struct trace_spec *spec, const struct hist_term *term,
		      unsigned int types, struct error *err)
{
	if (is_refused_on_host(spec, term, types))
		return error_set_column(err, ENOTSUP, term->column,
					"trace spec, character %u: '%s' of kmalloc is known to the "
					"guest, and with the key 'stacktrace' the host makes the "
					"histogram: record events, without hist:, and use 'sonde "
					"report --by callsite --sort bytes'",
					term->column, term->name);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		if (!strcmp(term->name, unknown[i].name) && types & unknown[i].types)
			return error_set_column(err, ENOTSUP, term->column,
						"trace spec, character %u: '%s' %s", term->column,
						term->name, unknown[i].why);
	return 0;
}

static bool asks_for(const struct event_predicate *predicate, unsigned int index, const char *name)
{
	const struct event_node node = event_predicate_node(predicate, index);

	if (node.kind == FILTER_TERM)
		return node.field && !strcmp(node.field->name, name);
	return asks_for(predicate, node.left, name) ||
	       (node.kind != FILTER_NOT && asks_for(predicate, node.right, name));
}

/* The guest looks it up behind the condition, and the host does not have it. */
static int check_kmalloc_filter(const struct trace_spec *spec, const struct event_names *names,
				struct error *err)
{
	struct event_predicate *predicate;
	int ret = event_filter_bind(spec->filter, counted_class(KMEM_TYPE_KMALLOC), names,
				    &predicate, err);

	if (ret)
		return ret;
	if (asks_for(predicate, event_predicate_root(predicate), "bytes_alloc"))
		ret = error_set_column(err, ENOTSUP, trace_spec_filter_column(spec, 1),
				       "a condition of a histogram cannot ask for 'bytes_alloc' of "
				       "kmalloc: make it a key, or ask for 'bytes_req'");
	event_predicate_destroy(predicate);
	return ret;
}

static int check_filter(const struct trace_spec *spec, const struct kernel_image *image,
			struct error *err)
{
	const unsigned int types = types_of(spec);
	struct condition_names known;
	int ret = 0;

	condition_names_init(&known, image, 0);
	for (unsigned int left = types; !ret && left; left &= left - 1)
		ret = trace_spec_check_filter(spec,
					      counted_class((enum kmem_type_id)__builtin_ctz(left)),
					      &known.names, err);
	if (ret || !spec->filter || !(types & KMALLOC))
		return ret;
	return check_kmalloc_filter(spec, &known.names, err);
}

int hist_allocs_check(const struct trace_spec *spec, struct error *err)
{
	const unsigned int types = types_of(spec);
	int ret = 0;

	if (spec->words & ~(uint32_t)ALL_TYPES)
		return error_set(err, EINVAL,
				 "'%s': a histogram records no tasks and call chains: name pid, "
				 "comm or stacktrace as a key",
				 spec->text);
	for (size_t i = 0; !ret && i < spec->hist->nr_keys; i++)
		ret = check_term(spec, &spec->hist->keys[i], types, err);
	for (size_t i = 0; !ret && i < spec->hist->nr_values; i++)
		ret = check_term(spec, &spec->hist->values[i], types, err);
	return ret ? ret : check_filter(spec, NULL, err);
}

int hist_allocs_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			    struct error *err)
{
	return check_filter(spec, image, err);
}

/* --- which calls ------------------------------------------------------------------------------ */

/* What points are made from. */
struct maker {
	const struct trace_spec *spec;
	const struct kernel *kernel;
	unsigned int types;
	struct hist_bodies bodies[KMEM_TYPE_COUNT]; /* of the functions that are counted */
	uint32_t members[NR_ROLES];            /* where a cache has them */
};

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
	if (entry->type != KMEM_TYPE_KMALLOC)
		return 0;
	return add_term(gate, gate_term(source_of(entry, ALLOC_ROLE_SIZE), GATE_NE, 0), err);
}

static size_t list_gate_fields(const struct alloc_entry *entry, struct gate_field *out)
{
	size_t n = 0;

	out[n++] = (struct gate_field){.name = "pid", .source = GATE_PID, .size = 4};
	out[n++] = (struct gate_field){.name = "tgid", .source = GATE_TGID, .size = 4};
	out[n++] = (struct gate_field){.name = "cgroup", .source = GATE_CGROUP, .size = 8};
	out[n++] = (struct gate_field){.source = GATE_VCPU, .size = 4};
	for (size_t i = 0; i < NR_ROLES; i++)
		if (entry->argument[roles[i].role])
			out[n++] = (struct gate_field){.name = roles[i].name,
						       .source = source_of(entry, roles[i].role),
						       .size = roles[i].size,
						       .is_signed = roles[i].is_signed};
	if (!entry->argument[ALLOC_ROLE_CALLER] && entry->type != KMEM_TYPE_PAGES)
		out[n++] = (struct gate_field){
			.name = "call_site", .source = GATE_CALL_SITE, .size = 8};
	return n;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* The kernel follows the pointer to the cache, too, whatever it is. */
static bool is_of_cache(const struct alloc_entry *entry, size_t i)
{
	return entry->argument[ALLOC_ROLE_CACHE] && roles[i].cache_member &&
	       !entry->argument[roles[i].role];
}

/* kmalloc() finds the cache itself. */
static bool is_of_kmalloc(const struct alloc_entry *entry, size_t i)
{
	return entry->type == KMEM_TYPE_KMALLOC && roles[i].role == ALLOC_ROLE_NONE;
}

static struct hist_operand operand_of(const struct maker *m, const struct alloc_entry *entry,
				      size_t i)
{
	const uint8_t argument = entry->argument[roles[i].role];
	struct hist_operand o = {.source = HIST_REGISTER,
				 .reg = argument_regs[argument],
				 .size = roles[i].size,
				 .is_signed = roles[i].is_signed};

	if (is_of_cache(entry, i))
		o = (struct hist_operand){.source = HIST_POINTED,
					  .reg = argument_regs[entry->argument[ALLOC_ROLE_CACHE]],
					  .at = m->members[i],
					  .size = CACHE_MEMBER_BYTES};
	else if (is_of_kmalloc(entry, i))
		o = (struct hist_operand){.source = HIST_KMALLOC,
					  .reg = argument_regs[entry->argument[ALLOC_ROLE_SIZE]],
					  .size = 8};
	else if (!argument && roles[i].role == ALLOC_ROLE_CALLER)
		o.source = HIST_PARENT;
	else if (!argument) /* as the kmem tracer records it: any node, no flags */
		o = (struct hist_operand){.source = HIST_CONSTANT,
					  .at = roles[i].role == ALLOC_ROLE_NODE ? -1 : 0,
					  .size = 8};
	return o;
}

/* What all allocations of these types have. */
static void list_fields(const struct maker *m, const struct alloc_entry *entry, unsigned int types,
			struct hist_fields *out)
{
	*out = (struct hist_fields){0};
	for (size_t i = 0; i < NR_ROLES; i++)
		if (has_role(&roles[i], types))
			hist_fields_add(out,
					&(struct hist_field){roles[i].name, operand_of(m, entry, i),
							     roles[i].show, 0, 0});
	hist_fields_add_common(out);
}

static int append_filter(struct hist_part *part, const struct maker *m,
			 const struct alloc_entry *entry, struct error *err)
{
	struct gate_field in_guest[NR_ROLES + 5];
	struct hist_fields known;
	const struct hist_condition condition = {.spec = m->spec,
						 .image = m->kernel->image,
						 .slide = m->kernel->virt_slide,
						 .class = counted_class(entry->type),
						 .in_guest = in_guest,
						 .nr_in_guest = list_gate_fields(entry, in_guest),
						 .known = &known,
						 .what = entry->name};

	list_fields(m, entry, 1u << entry->type, &known);
	return hist_rest_create(&condition, &part->gate, &part->rest, err);
}

static int make_gate(struct hist_part *part, const struct maker *m, const struct alloc_entry *entry,
		     struct error *err)
{
	struct gate *gate = &part->gate;
	int ret = functions_add_pids(gate, m->spec, err);

	if (!ret)
		ret = functions_add_vcpus(gate, m->spec, err);
	if (!ret)
		ret = append_filter(part, m, entry, err);
	if (!ret)
		ret = append_size(gate, entry, err);
	return ret ? ret : hist_bodies_append(gate, &m->bodies[entry->type], err);
}

static bool is_equal(const struct hist_part *a, const struct hist_part *b)
{
	return !memcmp(&a->program, &b->program, sizeof(a->program)) && a->gate.n == b->gate.n &&
	       !memcmp(a->gate.terms, b->gate.terms, a->gate.n * sizeof(a->gate.terms[0])) &&
	       hist_rest_is_equal(a->rest, b->rest);
}

/* Functions that have the same registers for what is asked for share a part. Takes `part`. */
static size_t keep_part(struct hist_allocs *a, const struct hist_part *part)
{
	for (size_t i = 0; i < a->nr_parts; i++) {
		if (!is_equal(&a->parts[i], part))
			continue;
		hist_rest_destroy(part->rest);
		return i;
	}
	a->parts[a->nr_parts] = *part;
	return a->nr_parts++;
}

static int use_kmalloc(struct hist_program *program, const struct maker *m, struct error *err)
{
	const char *allocator = slab_allocator_of(m->kernel->image);

	if (strcmp(allocator, "slub") != 0)
		return error_set(err, ENOTSUP,
				 "'bytes_alloc' is known with the allocator SLUB only, and this "
				 "kernel has %s",
				 *allocator ? allocator : "no types that tell");
	program->kmalloc.caches = (int64_t)kernel_symbol(m->kernel, "kmalloc_caches");
	program->kmalloc.size_at = m->members[BYTES_ALLOC];
	if (!program->kmalloc.caches)
		return error_set(err, ENOTSUP,
				 "'bytes_alloc' takes the symbol 'kmalloc_caches', which is not "
				 "known: give --system-map");
	return 0;
}

static int add_point(struct hist_allocs *a, const struct maker *m, const struct alloc_point *point,
		     struct hist_config *config, struct error *err)
{
	struct hist_fields fields;
	struct hist_part part;
	int ret;

	memset(&part, 0, sizeof(part));
	if (point->entry.nr_calls)
		return error_set(err, ENOTSUP, "only some calls of %s allocate", point->entry.name);
	list_fields(m, &point->entry, m->types, &fields);
	ret = hist_make_program(m->spec, &fields, &part.program, config, err);
	if (!ret && hist_program_uses(&part.program, HIST_KMALLOC))
		ret = use_kmalloc(&part.program, m, err);
	if (ret)
		error_prefix(err, "calls of %s: ", point->entry.name);
	if (!ret)
		ret = make_gate(&part, m, &point->entry, err);
	if (ret) {
		hist_rest_destroy(part.rest);
		return ret;
	}
	a->sites[a->nr_sites++] =
		(struct hist_alloc_site){kernel_gva(m->kernel, point->site), keep_part(a, &part)};
	return 0;
}

static int check_unresolved(const struct alloc_points *points, unsigned int types,
			    struct error *err)
{
	for (size_t i = 0; i < points->nr_unresolved; i++) {
		const struct alloc_unresolved *u = &points->unresolved[i];

		if (types >> u->type & 1 && !u->frees)
			return error_set(err, ENOTSUP, "calls of %s cannot be counted: %s", u->name,
					 u->reason);
	}
	return 0;
}

static int find_members(struct maker *m, struct error *err)
{
	struct btf_field field = {0};
	const bool needed = m->types & (KMALLOC | CACHE);
	int ret = needed ? kernel_image_check_btf(m->kernel->image, err) : 0;

	for (size_t i = 0; needed && !ret && i < NR_ROLES; i++) {
		if (!roles[i].cache_member)
			continue;
		ret = btf_field(m->kernel->image->btf, "kmem_cache", roles[i].cache_member, &field,
				err);
		if (!ret && (field.bit_size || field.size != CACHE_MEMBER_BYTES))
			ret = error_set(err, EPROTO, "struct kmem_cache has another '%s'",
					roles[i].cache_member);
		m->members[i] = field.offset;
	}
	return ret;
}

static int make(struct maker *m, const struct alloc_points *points, struct hist_allocs *out,
		struct hist_config *config, struct error *err)
{
	int ret = check_unresolved(points, m->types, err);

	if (!ret)
		ret = find_members(m, err);
	for (unsigned int i = 0; !ret && i < KMEM_TYPE_COUNT; i++)
		ret = hist_bodies_find(points, m->kernel, i, &m->bodies[i], err);
	for (size_t i = 0; !ret && i < points->n; i++)
		if (hist_is_counted(&points->v[i].entry, m->types))
			ret = add_point(out, m, &points->v[i], config, err);
	if (!ret && !out->nr_sites)
		ret = error_set(err, ENOTSUP, "this kernel has no function for such allocations");
	return ret;
}

int hist_allocs_create(const struct trace_spec *spec, const struct kernel *kernel,
		       struct hist_allocs *out, struct hist_config *config, struct error *err)
{
	struct maker m = {.spec = spec, .kernel = kernel, .types = types_of(spec)};
	const struct alloc_points *points;
	int ret = alloc_points_of(kernel->image, &points, err);

	*out = (struct hist_allocs){0};
	if (ret)
		return ret;
	out->parts = calloc(points->n + 1, sizeof(*out->parts));
	out->sites = calloc(points->n + 1, sizeof(*out->sites));
	ret = out->parts && out->sites ? make(&m, points, out, config, err)
				       : error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < KMEM_TYPE_COUNT; i++)
		free(m.bodies[i].v);
	if (ret)
		hist_allocs_deinit(out);
	return ret;
}

void hist_allocs_deinit(struct hist_allocs *a)
{
	for (size_t i = 0; i < a->nr_parts; i++)
		hist_rest_destroy(a->parts[i].rest);
	free(a->parts);
	free(a->sites);
	*a = (struct hist_allocs){0};
}

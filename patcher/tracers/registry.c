/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tracers by name, and those that a session's specs ask for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/tracer.h"

/* One row for each tracer: its name. */
#define TRACERS(ROW) \
	ROW(kmem)    \
	ROW(function)

#define DECLARATION(name) extern const struct tracer_ops tracer_##name;
#define ADDRESS(name) &tracer_##name,

TRACERS(DECLARATION)
static const struct tracer_ops *const tracers[] = {TRACERS(ADDRESS)};

enum { NR_TRACERS = sizeof(tracers) / sizeof(tracers[0]) };

int tracer_parse_spec(const char *text, struct trace_spec *out, struct error *err)
{
	struct trace_grammar grammars[NR_TRACERS];

	for (size_t i = 0; i < NR_TRACERS; i++)
		grammars[i] = (struct trace_grammar){tracers[i]->name, tracers[i]->words,
						     tracers[i]->takes};
	return trace_spec_parse(text, grammars, NR_TRACERS, out, err);
}

const struct tracer_ops *tracer_ops_of(const struct trace_spec *spec)
{
	return tracers[spec->tracer];
}

static void free_specs(struct trace_spec *specs, size_t n)
{
	while (n)
		trace_spec_deinit(&specs[--n]);
	free(specs);
}

/* *out is for free_specs(). */
static int parse_specs(const char *const *texts, size_t n, struct trace_spec **out,
		       struct error *err)
{
	struct trace_spec *specs = calloc(n + 1, sizeof(*specs));
	int ret = specs ? 0 : error_set(err, ENOMEM, "out of memory");
	size_t parsed = 0;

	for (; !ret && parsed < n; parsed += !ret)
		ret = tracer_parse_spec(texts[parsed], &specs[parsed], err);
	if (!ret)
		ret = trace_specs_check_names(specs, n, err);
	if (ret)
		free_specs(specs, parsed);
	else
		*out = specs;
	return ret;
}

int tracer_check_specs(const char *const *specs, size_t nr_specs, struct error *err)
{
	struct trace_spec *parsed;
	int ret = parse_specs(specs, nr_specs, &parsed, err);

	if (!ret)
		free_specs(parsed, nr_specs);
	return ret;
}

/* The specs of one tracer, and their streams. */
struct own_specs {
	const struct trace_spec **v;
	struct tracer_stream *streams;
	size_t n;
};

static int pick_specs(size_t tracer, const struct trace_spec *specs, size_t nr_specs,
		      const struct tracer_stream *streams, struct own_specs *out, struct error *err)
{
	*out = (struct own_specs){calloc(nr_specs + 1, sizeof(struct trace_spec *)),
				  calloc(nr_specs + 1, sizeof(*out->streams)), 0};
	if (!out->v || !out->streams)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < nr_specs; i++) {
		if (specs[i].tracer != tracer)
			continue;
		if (streams)
			out->streams[out->n] = streams[i];
		out->v[out->n++] = &specs[i];
	}
	return 0;
}

/* Create tracer number `tracer` if any spec names it. */
static int create_tracer(struct tracer_set *set, size_t tracer, const struct trace_spec *specs,
			 size_t nr_specs, const struct tracer_context *context, struct error *err)
{
	struct tracer_context own_context = *context;
	struct own_specs own;
	int ret = pick_specs(tracer, specs, nr_specs, context->streams, &own, err);

	own_context.streams = own.streams;
	if (!ret && own.n) {
		ret = tracers[tracer]->create(&own_context, own.v, own.n, &set->v[set->n], err);
		set->n += !ret;
	}
	free(own.streams);
	free(own.v);
	return ret;
}

static int list_probes(struct tracer_set *set, struct error *err)
{
	size_t total = 0, n;

	for (size_t t = 0; t < set->n; t++) {
		set->v[t]->ops->probes(set->v[t], &n);
		total += n;
	}
	set->refs = calloc(total + 1, sizeof(*set->refs));
	if (!set->refs)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t t = 0; t < set->n; t++) {
		const struct probe *probes = set->v[t]->ops->probes(set->v[t], &n);

		for (size_t i = 0; i < n; i++, set->nr_refs++)
			set->refs[set->nr_refs] =
				(struct probe_ref){set->v[t], &probes[i], (uint32_t)set->nr_refs};
	}
	return 0;
}

static int list_gaps(struct tracer_set *set, struct error *err)
{
	for (size_t t = 0; t < set->n; t++) {
		const struct tracer_ops *ops = set->v[t]->ops;
		const struct probe_gap *gaps;
		struct probe_gap *all;
		size_t n;

		if (!ops->gaps)
			continue;
		gaps = ops->gaps(set->v[t], &n);
		all = reallocarray(set->gaps, set->nr_gaps + n + 1, sizeof(*all));
		if (!all)
			return error_set(err, ENOMEM, "out of memory");
		set->gaps = all;
		memcpy(all + set->nr_gaps, gaps, n * sizeof(*all));
		set->nr_gaps += n;
	}
	return 0;
}

static int create_all(struct tracer_set *set, const struct trace_spec *specs, size_t nr_specs,
		      const struct tracer_context *context, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < NR_TRACERS; i++)
		ret = create_tracer(set, i, specs, nr_specs, context, err);
	if (!ret)
		ret = list_probes(set, err);
	return ret ? ret : list_gaps(set, err);
}

int tracer_set_create(struct tracer_set *set, const char *const *specs, size_t nr_specs,
		      const struct tracer_context *context, struct error *err)
{
	struct trace_spec *parsed;
	int ret;

	*set = (struct tracer_set){.v = calloc(NR_TRACERS, sizeof(struct tracer *))};
	if (!set->v)
		return error_set(err, ENOMEM, "out of memory");
	ret = parse_specs(specs, nr_specs, &parsed, err);
	if (!ret) {
		ret = create_all(set, parsed, nr_specs, context, err);
		free_specs(parsed, nr_specs);
	}
	if (ret)
		tracer_set_destroy(set);
	return ret;
}

void tracer_set_destroy(struct tracer_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		set->v[i]->ops->destroy(set->v[i]);
	free(set->gaps);
	free(set->refs);
	free(set->v);
	*set = (struct tracer_set){0};
}

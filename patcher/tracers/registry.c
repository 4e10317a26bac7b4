/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tracers by name, and those that a session's specs ask for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/tracer.h"

/* One row for each tracer: its name. */
#define TRACERS(ROW)  \
	ROW(kmem)     \
	ROW(function) \
	ROW(graph)    \
	ROW(profile)  \
	ROW(syscalls) \
	ROW(probe)

#define DECLARATION(name) extern const struct tracer_ops tracer_##name;
#define ADDRESS(name) &tracer_##name,

TRACERS(DECLARATION)
static const struct tracer_ops *const tracers[] = {TRACERS(ADDRESS)};

enum { NR_TRACERS = sizeof(tracers) / sizeof(tracers[0]) };

/* Of specs that ask for a histogram, whichever tracer has the events. */
extern const struct tracer_ops tracer_hist;

/* As trace_spec_parse() it leaves nothing behind. */
static int check_spec(struct trace_spec *spec, struct error *err)
{
	const struct tracer_ops *ops = tracer_ops_of(spec);
	int ret = ops->check ? ops->check(spec, err) : 0;

	if (ret)
		trace_spec_deinit(spec);
	return ret;
}

int tracer_parse_spec(const char *text, struct trace_spec *out, struct error *err)
{
	struct trace_grammar grammars[NR_TRACERS];
	int ret;

	for (size_t i = 0; i < NR_TRACERS; i++)
		grammars[i] = (struct trace_grammar){tracers[i]->name, tracers[i]->words,
						     tracers[i]->takes, tracers[i]->readers,
						     tracers[i]->aliases};
	ret = trace_spec_parse(text, grammars, NR_TRACERS, out, err);
	return ret ? ret : check_spec(out, err);
}

const struct tracer_ops *tracer_source_of(const struct trace_spec *spec)
{
	return tracers[spec->tracer];
}

const struct tracer_ops *tracer_ops_of(const struct trace_spec *spec)
{
	return spec->hist ? &tracer_hist : tracers[spec->tracer];
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

int tracer_check_image(const char *text, const struct kernel_image *image, bool boots,
		       struct error *err)
{
	const struct tracer_ops *ops;
	struct trace_spec spec;
	int ret = tracer_parse_spec(text, &spec, err);

	if (ret)
		return ret;
	ops = tracer_ops_of(&spec);
	if (ops->check_image && (boots || tracer_source_of(&spec)->in_image))
		ret = ops->check_image(&spec, image, err);
	if (ret)
		error_prefix(err, "instance '%s': ", spec.name);
	if (ret && err)
		err->parsed = text;
	trace_spec_deinit(&spec);
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

/* --- changes --------------------------------------------------------------------------------- */

static bool any_wants(const struct own_specs *own, const struct probe_ref *ref)
{
	bool wanted = false;

	for (size_t i = 0; !wanted && i < own->n; i++)
		wanted = ref->tracer->ops->wants(ref->tracer, own->v[i], ref->probe);
	return wanted;
}

static int add_gaps(const struct tracer_ops *ops, const struct tracer_config *config,
		    struct tracer_change *change, struct error *err)
{
	const struct probe_gap *gaps;
	struct probe_gap *all;
	size_t n;

	if (!ops->gaps)
		return 0;
	gaps = ops->gaps(config, &n);
	all = reallocarray(change->gaps, change->nr_gaps + n + 1, sizeof(*all));
	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	change->gaps = all;
	if (n)
		memcpy(all + change->nr_gaps, gaps, n * sizeof(*all));
	change->nr_gaps += n;
	return 0;
}

/* Of the tracer's own probes. */
static void set_view(const struct tracer_set *set, const struct tracer *tracer,
		     const struct tracer_config *config, struct tracer_change *change)
{
	const struct probe *probes = NULL;

	if (tracer->ops->view)
		probes = tracer->ops->view(config, &change->view.number);
	for (size_t r = 0; r < set->nr_refs; r++)
		if (set->refs[r].tracer == tracer)
			change->probes[r] = probes ? probes++ : set->refs[r].probe;
}

static int configure(struct tracer_set *set, size_t i, const struct trace_spec *specs,
		     size_t nr_specs, const struct tracer_stream *streams,
		     enum tracer_capture capture, struct tracer_change *out, struct error *err)
{
	struct tracer *tracer = set->v[i];
	struct own_specs own;
	int ret = pick_specs(set->index[i], specs, nr_specs, streams, &own, err);

	if (!ret)
		ret = tracer->ops->configure(tracer, own.v, own.n, own.streams, capture,
					     &out->configs[i], err);
	if (!ret)
		ret = add_gaps(tracer->ops, out->configs[i], out, err);
	if (!ret)
		set_view(set, tracer, out->configs[i], out);
	for (size_t r = 0; !ret && r < set->nr_refs; r++)
		if (set->refs[r].tracer == tracer)
			out->off[r] = !any_wants(&own, &set->refs[r]);
	free(own.streams);
	free(own.v);
	return ret;
}

void tracer_set_give_up(struct tracer_set *set, const struct error *why)
{
	for (size_t i = 0; i < set->n; i++)
		set->why[set->index[i]] = *why;
}

/* A tracer that could not be created has no instance. */
static int check_tracers(const struct tracer_set *set, const struct trace_spec *specs,
			 size_t nr_specs, struct error *err)
{
	for (size_t i = 0; i < nr_specs; i++) {
		const struct error *why = &set->why[specs[i].tracer];

		if (!why->code)
			continue;
		if (err)
			*err = *why;
		return -why->code;
	}
	return 0;
}

int tracer_set_prepare(struct tracer_set *set, const char *const *specs,
		       const struct tracer_stream *streams, size_t nr_specs,
		       enum tracer_capture capture, struct tracer_change *out, struct error *err)
{
	struct trace_spec *parsed;
	int ret = parse_specs(specs, nr_specs, &parsed, err);

	*out = (struct tracer_change){0};
	if (ret)
		return ret;
	out->configs = calloc(set->n + 1, sizeof(struct tracer_config *));
	out->off = calloc(set->nr_refs + 1, sizeof(*out->off));
	out->probes = calloc(set->nr_refs + 1, sizeof(struct probe *));
	out->view.probes = out->probes;
	if (!out->configs || !out->off || !out->probes)
		ret = error_set(err, ENOMEM, "out of memory");
	if (!ret)
		ret = check_tracers(set, parsed, nr_specs, err);
	for (size_t i = 0; !ret && i < set->n; i++)
		ret = configure(set, i, parsed, nr_specs, streams, capture, out, err);
	free_specs(parsed, nr_specs);
	if (ret)
		tracer_change_deinit(set, out);
	return ret;
}

void tracer_set_adopt(struct tracer_set *set, const struct tracer_change *change)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->v[i]->ops->adopt)
			set->v[i]->ops->adopt(set->v[i], change->configs[i]);
	set->view = change->view.number;
}

void tracer_set_use(struct tracer_set *set, struct tracer_change *change)
{
	for (size_t i = 0; i < set->n; i++)
		change->configs[i] = set->v[i]->ops->use(set->v[i], change->configs[i]);
	for (size_t i = 0; i < set->nr_refs; i++)
		atomic_store(&set->refs[i].off, change->off[i]);
}

void tracer_set_take_gaps(struct tracer_set *set, struct tracer_change *change)
{
	free(set->gaps);
	set->gaps = change->gaps;
	set->nr_gaps = change->nr_gaps;
	change->gaps = NULL;
	change->nr_gaps = 0;
}

void tracer_change_deinit(const struct tracer_set *set, struct tracer_change *change)
{
	for (size_t i = 0; change->configs && i < set->n; i++)
		set->v[i]->ops->config_destroy(change->configs[i]);
	free(change->configs);
	free(change->off);
	free(change->probes);
	free(change->gaps);
	*change = (struct tracer_change){0};
}

/* --- all tracers ----------------------------------------------------------------------------- */

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
			set->refs[set->nr_refs] = (struct probe_ref){.tracer = set->v[t],
								     .probe = &probes[i],
								     .id = (uint32_t)set->nr_refs,
								     .off = true};
	}
	return 0;
}

static int create_one(struct tracer_set *set, size_t tracer, const struct trace_spec *specs,
		      size_t nr_specs, const struct tracer_context *context, struct error *err)
{
	struct own_specs own;
	int ret = pick_specs(tracer, specs, nr_specs, NULL, &own, err);

	if (!ret &&
	    !tracers[tracer]->create(context, own.v, own.n, &set->v[set->n], &set->why[tracer]))
		set->index[set->n++] = tracer;
	free(own.streams);
	free(own.v);
	return ret;
}

static int create_all(struct tracer_set *set, const char *const *texts, size_t nr_specs,
		      const struct tracer_context *context, struct error *err)
{
	struct trace_spec *specs;
	int ret = parse_specs(texts, nr_specs, &specs, err);

	if (ret)
		return ret;
	for (size_t i = 0; !ret && i < NR_TRACERS; i++)
		if (tracers[i]->lane == LANE_ORDERED)
			ret = create_one(set, i, specs, nr_specs, context, err);
	free_specs(specs, nr_specs);
	return ret ? ret : list_probes(set, err);
}

int tracer_set_create(struct tracer_set *set, const char *const *specs,
		      const struct tracer_stream *streams, size_t nr_specs,
		      const struct tracer_context *context, struct error *err)
{
	struct tracer_change change;
	int ret = 0;

	*set = (struct tracer_set){.v = calloc(NR_TRACERS, sizeof(struct tracer *)),
				   .index = calloc(NR_TRACERS, sizeof(*set->index)),
				   .why = calloc(NR_TRACERS, sizeof(*set->why))};
	if (!set->v || !set->index || !set->why)
		ret = error_set(err, ENOMEM, "out of memory");
	if (!ret)
		ret = create_all(set, specs, nr_specs, context, err);
	if (!ret)
		ret = tracer_set_prepare(set, specs, streams, nr_specs, TRACER_CAPTURES_ONLY,
					 &change, err);
	if (ret) {
		tracer_set_destroy(set);
		return ret;
	}
	tracer_set_adopt(set, &change);
	tracer_set_use(set, &change);
	tracer_set_take_gaps(set, &change);
	tracer_change_deinit(set, &change);
	return 0;
}

void tracer_set_destroy(struct tracer_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		set->v[i]->ops->destroy(set->v[i]);
	free(set->gaps);
	free(set->refs);
	free(set->why);
	free(set->index);
	free(set->v);
	*set = (struct tracer_set){0};
}

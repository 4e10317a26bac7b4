/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the instances of a time want: types, filters, streams. They come and go while hits come. */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_TYPES = (1 << KMEM_TYPE_COUNT) - 1 };

/* A spec without one asks for all. */
uint32_t kmem_types_of(const struct trace_spec *spec)
{
	return spec->words & ALL_TYPES ? spec->words & ALL_TYPES : ALL_TYPES;
}

uint32_t kmem_task_fields(const struct trace_spec *spec)
{
	return spec->words >> KMEM_TYPE_COUNT;
}

uint32_t kmem_captured_fields(const struct trace_spec *spec)
{
	return kmem_task_fields(spec) | (spec->nr_pids ? EVENT_TASK_PID : 0);
}

const struct event_class *kmem_spec_classes(const struct trace_spec *spec, size_t *n)
{
	*n = KMEM_NR_CLASSES;
	return kmem_classes_of(kmem_task_fields(spec));
}

static bool is_wanted(uint32_t types, const struct alloc_entry *entry)
{
	bool slab_bulk_free =
		entry->type == KMEM_TYPE_CACHE && entry->action == ALLOC_ACTION_FREE_BULK;

	/* kfree_bulk() is kmem_cache_free_bulk() without a cache */
	if (slab_bulk_free && (types & 1u << KMEM_TYPE_KMALLOC))
		return true;
	return types & 1u << entry->type;
}

void kmem_config_destroy(struct tracer_config *tracer_config)
{
	struct kmem_config *config = (struct kmem_config *)tracer_config;

	if (!config)
		return;
	for (size_t i = 0; i < config->nr_outputs; i++)
		kmem_filter_destroy(config->outputs[i].filter);
	free(config->outputs);
	free(config->gaps);
	free(config);
}

bool kmem_wants(const struct tracer *tracer, const struct trace_spec *spec,
		const struct probe *probe)
{
	(void)tracer;
	return is_wanted(kmem_types_of(spec), probe->data);
}

static int set_view(struct kmem_tracer *t, const struct trace_spec *const *specs, size_t nr_specs,
		    enum tracer_capture capture, struct kmem_config *config, struct error *err)
{
	uint32_t fields = capture == TRACER_CAPTURES_ALSO ? t->adopted->task.fields : 0;

	for (size_t i = 0; i < nr_specs; i++)
		fields |= kmem_captured_fields(specs[i]);
	return kmem_view_find(t, fields, &config->view, err);
}

static int make_outputs(struct kmem_tracer *t, const struct trace_spec *const *specs,
			size_t nr_specs, const struct tracer_stream *streams,
			struct kmem_config *config, struct error *err)
{
	int ret = 0;

	config->outputs = calloc(nr_specs + 1, sizeof(*config->outputs));
	if (!config->outputs)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < nr_specs; i++) {
		struct kmem_output *output = &config->outputs[config->nr_outputs++];

		output->types = kmem_types_of(specs[i]);
		output->vcpus = specs[i]->vcpus;
		output->needs = kmem_capture_of(kmem_captured_fields(specs[i]));
		memcpy(output->pids, specs[i]->pids, sizeof(output->pids));
		output->nr_pids = specs[i]->nr_pids;
		config->types |= output->types;
		if (streams && streams[i].sinks)
			output->stream = streams[i];
		else
			output->types = 0;
		if (specs[i]->filter)
			ret = kmem_filter_create(&t->context, specs[i], &output->filter, err);
	}
	return ret;
}

static int pick_gaps(const struct kmem_tracer *t, struct kmem_config *config, struct error *err)
{
	config->gaps = calloc(t->nr_gaps + 1, sizeof(*config->gaps));
	if (!config->gaps)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < t->nr_gaps; i++)
		if (config->types & t->gaps[i].types)
			config->gaps[config->nr_gaps++] = t->gaps[i].gap;
	return 0;
}

static int check_probes(const struct kmem_tracer *t, const struct kmem_config *config,
			struct error *err)
{
	bool any = !config->nr_outputs;

	for (size_t i = 0; !any && i < t->nr_probes; i++)
		any = is_wanted(config->types, t->probes[i].data);
	if (any)
		return 0;
	return error_set(err, ENOENT, "no allocator can be traced: %s: %s",
			 config->gaps[0].function, config->gaps[0].reason);
}

/* Types decide which functions are patched. All else is known only when a record is complete. */
void kmem_conditions(const struct tracer *tracer, const struct trace_spec *spec,
		     enum tracer_decider decider, char *out, size_t size)
{
	(void)tracer;
	*out = '\0';
	if (decider == DECIDED_BY_HOST)
		trace_spec_print_conditions(spec, out, size);
}

int kmem_configure(struct tracer *tracer, const struct trace_spec *const *specs, size_t nr_specs,
		   const struct tracer_stream *streams, enum tracer_capture capture,
		   struct tracer_config **out, struct error *err)
{
	struct kmem_tracer *t = (struct kmem_tracer *)tracer;
	struct kmem_config *config = calloc(1, sizeof(*config));
	int ret;

	if (!config)
		return error_set(err, ENOMEM, "out of memory");
	ret = set_view(t, specs, nr_specs, capture, config, err);
	if (!ret)
		ret = make_outputs(t, specs, nr_specs, streams, config, err);
	if (!ret)
		ret = pick_gaps(t, config, err);
	if (!ret)
		ret = check_probes(t, config, err);
	if (ret)
		kmem_config_destroy((struct tracer_config *)config);
	else
		*out = (struct tracer_config *)config;
	return ret;
}

/* Pages are noted for bulk calls, which are forgotten with their probes. */
struct tracer_config *kmem_use(struct tracer *tracer, struct tracer_config *tracer_config)
{
	struct kmem_tracer *t = (struct kmem_tracer *)tracer;
	struct kmem_config *config = (struct kmem_config *)tracer_config, *former = t->config;

	t->config = config;
	t->view = config->view;
	t->types = config->types;
	t->outputs = config->outputs;
	t->nr_outputs = config->nr_outputs;
	if (!(t->types & 1u << KMEM_TYPE_PAGES))
		filled_pages_clear(t->filled);
	return (struct tracer_config *)former;
}

const struct probe_gap *kmem_gaps(const struct tracer_config *tracer_config, size_t *n)
{
	const struct kmem_config *config = (const struct kmem_config *)tracer_config;

	*n = config->nr_gaps;
	return config->gaps;
}

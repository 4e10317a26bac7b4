/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/report/progress.h"
#include "formats/report/trace-text.h"

const char *const export_value_names[] = {[EXPORT_COUNT] = "count",
					  [EXPORT_BYTES] = "bytes",
					  [EXPORT_LIVE] = "live",
					  [EXPORT_TIME] = "time",
					  NULL};

const struct exporter_ops *exporter_find(const char *name)
{
	for (size_t i = 0; exporter_names[i]; i++)
		if (!strcmp(exporter_names[i], name))
			return exporters[i];
	return NULL;
}

const char *export_banner(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);

	return sidecar ? sidecar->info.banner : "";
}

bool export_has_class(const struct export_input *input, const struct trace_instance *instance,
		      const struct event_class *class)
{
	return !input->part || trace_part_has_class(input->part, instance, class);
}

bool export_has_instance(const struct export_input *input, const struct trace_instance *instance)
{
	return !input->part || trace_part_has_instance(input->part, instance);
}

static bool has_allocations(const struct trace_reader *reader, const struct trace_part *part)
{
	size_t n;
	const struct trace_instance *instances = trace_reader_instances(reader, &n);
	bool has = false;

	for (size_t i = 0; i < n; i++)
		for (size_t c = 0; !has && c < instances[i].nr_classes; c++)
			has = kmem_class_is_alloc(&instances[i].classes[c]) &&
			      (!part || trace_part_has_instance(part, &instances[i]));
	return has;
}

bool export_has_sums(const struct exporter_ops *ops, const struct trace_reader *reader,
		     const struct trace_part *part)
{
	return ops->sums == EXPORT_SUMS_EVENTS ||
	       (ops->sums == EXPORT_SUMS_ALLOCATIONS && has_allocations(reader, part));
}

struct text export_overlap(const struct exporter_ops *ops, const struct trace_reader *reader,
			   const struct trace_part *part, enum export_value value)
{
	size_t n, nr_memory = 0;
	const struct trace_instance *instances = trace_reader_instances(reader, &n);
	struct text out = {""};

	if (ops->sums != EXPORT_SUMS_EVENTS || value == EXPORT_TIME)
		return out;
	for (size_t i = 0; i < n; i++)
		nr_memory += kmem_has_events(&instances[i]) &&
			     (!part || trace_part_has_instance(part, &instances[i]));
	if (nr_memory > 1)
		snprintf(out.s, sizeof(out.s),
			 "of %zu instances of kmem, which may have the same events", nr_memory);
	return out;
}

struct text export_about(const struct exporter *exporter)
{
	const struct export_input *input = &exporter->input;
	const struct text missing = text_missing(input->reader);
	const struct text overlap =
		export_overlap(exporter->ops, input->reader, input->part, input->value);
	struct text part = {""}, out;

	if (input->part)
		part = trace_part_text(input->part);
	snprintf(out.s, sizeof(out.s), "%s%.300s%s%.100s%s%.150s", *part.s ? "part: " : "", part.s,
		 *part.s && *overlap.s ? "; " : "", overlap.s,
		 (*part.s || *overlap.s) && *missing.s ? "; " : "", missing.s);
	return out;
}

static int take_event(struct exporter *exporter, const struct event *event,
		      struct part_place *place, uint64_t *nr_events)
{
	const struct trace_part *part = exporter->input.part;
	bool is_of_part;
	int ret = 0;

	if (exporter->ops->select && part && part->selection && place->in_instance)
		ret = exporter->ops->select(exporter, event, &place->is_selected);
	if (ret)
		return ret;
	is_of_part = place->in_time && place->is_selected;
	*nr_events += is_of_part;
	if (is_of_part)
		return exporter->ops->event(exporter, event);
	return place->in_instance && exporter->ops->other
		       ? exporter->ops->other(exporter, event, place)
		       : 0;
}

static int export_events(struct trace_reader *reader, struct trace_part *part,
			 struct exporter *exporter, uint64_t *nr_events, struct error *err)
{
	const struct export_file *file = exporter->input.file;
	struct part_place place = {true, true, true};
	struct progress progress;
	struct event event;
	int ret;

	progress_begin(&progress, reader);
	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		if (part && !trace_part_place(part, &event, &place)) {
			ret = 0;
			break;
		}
		progress_count(&progress, 1);
		ret = take_event(exporter, &event, &place, nr_events);
		if (ret)
			export_file_error(file, ret, err);
		if (ret || file->error)
			break;
	}
	progress_end(&progress);
	return ret < 0 ? ret : 0;
}

static int run(struct exporter *exporter, struct trace_reader *reader, struct trace_part *part,
	       uint64_t *nr_events, struct error *err)
{
	int ret = exporter->ops->init(exporter, err);

	if (!ret)
		ret = export_events(reader, part, exporter, nr_events, err);
	if (!ret)
		ret = exporter->ops->finish(exporter, err);
	exporter->ops->deinit(exporter);
	return ret ? ret : export_file_finish(exporter->input.file, err);
}

static int allocate_and_run(const struct exporter_ops *ops, struct trace_reader *reader,
			    const struct export_input *input, struct trace_part *part,
			    uint64_t *nr_events, struct error *err)
{
	struct exporter *exporter = calloc(1, ops->size);
	int ret;

	if (!exporter)
		return error_set(err, ENOMEM, "out of memory");
	exporter->ops = ops;
	exporter->input = *input;
	ret = run(exporter, reader, part, nr_events, err);
	free(exporter);
	return ret;
}

int export_trace(const struct exporter_ops *ops, struct trace_reader *reader, const char *path,
		 bool replace, const struct export_options *options, uint64_t *nr_events,
		 struct error *err)
{
	struct export_input input = {.reader = reader,
				     .value = options->value,
				     .host = options->host,
				     .part = options->part};
	int ret = export_file_create(path, replace, &input.file, err);

	*nr_events = 0;
	if (!ret)
		ret = event_texts_create(trace_reader_sidecar(reader), &input.texts, err);
	if (!ret)
		ret = allocate_and_run(ops, reader, &input, options->part, nr_events, err);
	event_texts_destroy(input.texts);
	export_file_destroy(input.file);
	return ret;
}

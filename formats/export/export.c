/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/export.h"

#include <string.h>

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

static int export_events(struct trace_reader *reader, struct exporter *exporter,
			 uint64_t *nr_events, struct error *err)
{
	const struct export_file *file = exporter->input.file;
	struct event event;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		ret = exporter->ops->event(exporter, &event);
		if (ret)
			return error_set(err, -ret, "%s", strerror(-ret));
		if (file->error)
			return 0;
		++*nr_events;
	}
	return ret;
}

static int run(const struct exporter_ops *ops, struct trace_reader *reader,
	       const struct export_input *input, uint64_t *nr_events, struct error *err)
{
	struct exporter *exporter;
	int ret = ops->create(input, &exporter, err);

	if (ret)
		return ret;
	exporter->ops = ops;
	exporter->input = *input;
	ret = export_events(reader, exporter, nr_events, err);
	if (!ret)
		ret = ops->finish(exporter, err);
	ops->destroy(exporter);
	return ret ? ret : export_file_finish(input->file, err);
}

int export_trace(const struct exporter_ops *ops, struct trace_reader *reader, const char *path,
		 bool replace, const struct export_options *options, uint64_t *nr_events,
		 struct error *err)
{
	struct export_input input = {
		.reader = reader, .value = options->value, .host = options->host};
	int ret = export_file_create(path, replace, &input.file, err);

	*nr_events = 0;
	if (!ret)
		ret = event_texts_create(trace_reader_sidecar(reader), &input.texts, err);
	if (!ret)
		ret = run(ops, reader, &input, nr_events, err);
	event_texts_destroy(input.texts);
	export_file_destroy(input.file);
	return ret;
}

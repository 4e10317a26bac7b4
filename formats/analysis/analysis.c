/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/analysis.h"

#include <errno.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

const struct analysis_ops *analysis_find(const char *name)
{
	size_t i = 0;

	while (analysis_names[i] && strcmp(analysis_names[i], name))
		i++;
	return analysis_table[i];
}

int analysis_create(const struct analysis_ops *ops, const struct analysis_config *config,
		    struct analysis **out, struct error *err)
{
	int ret = ops->create(config, out, err);

	if (ret)
		return ret;
	(*out)->ops = ops;
	(*out)->config = *config;
	return 0;
}

void analysis_destroy(struct analysis *analysis)
{
	if (analysis)
		analysis->ops->destroy(analysis);
}

static int feed(struct analysis *analysis, const struct event *event)
{
	const struct analysis_ops *ops = analysis->ops;

	if (ops->wants(event->class))
		return ops->event(analysis, event);
	analysis->passed_over++;
	return 0;
}

int analysis_run(struct trace_reader *reader, struct analysis *const *analyses, size_t n,
		 struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		for (size_t i = 0; i < n; i++) {
			if (feed(analyses[i], &event))
				return error_set(err, ENOMEM, "out of memory");
		}
	}
	for (size_t i = 0; !ret && i < n; i++) {
		if (analyses[i]->ops->finish)
			analyses[i]->ops->finish(analyses[i]);
	}
	return ret;
}

static int print(const char *verb, const struct analysis *analysis, bool json)
{
	const struct analysis_ops *ops = analysis->ops;
	int ret;

	if (json) {
		ret = text_print_json(verb, ops->print_json(analysis));
	} else {
		ops->print_text(analysis, stdout);
		ret = cli_flush(verb);
	}
	if (ret)
		return ret;
	return ops->failed && ops->failed(analysis) ? CLI_FAILED : CLI_OK;
}

int analysis_show(const char *verb, const struct analysis_ops *ops,
		  const struct analysis_config *config, const char *dir, bool json)
{
	struct analysis_config all = *config;
	struct trace_reader *reader = NULL;
	struct analysis *analysis = NULL;
	struct error err;
	int ret = trace_reader_open(dir, &reader, &err);

	if (!ret) {
		all.reader = reader;
		if (all.kernel)
			ret = trace_reader_name_functions(reader, all.kernel, &err);
		if (!ret)
			ret = analysis_create(ops, &all, &analysis, &err);
		if (!ret)
			ret = analysis_run(reader, &analysis, 1, &err);
		if (ret)
			error_prefix(&err, "%s: ", dir);
	}
	ret = ret ? cli_error(verb, &err) : print(verb, analysis, json);
	analysis_destroy(analysis);
	trace_reader_close(reader);
	return ret;
}

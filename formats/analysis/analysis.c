/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/analysis.h"

#include <getopt.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/event/graph.h"
#include "formats/report/trace-text.h"

enum { MAX_ANALYSES = 8, FOLLOW_MS = 1000 };

const struct analysis_ops *analysis_find(const char *name)
{
	size_t i = 0;

	while (analysis_names[i] && strcmp(analysis_names[i], name))
		i++;
	return analysis_table[i];
}

int analysis_create(const struct analysis_ops *ops, const struct replay *replay,
		    const struct analysis_options *options, struct analysis **out,
		    struct error *err)
{
	int ret = ops->create(replay, options, out, err);

	if (ret)
		return ret;
	(*out)->ops = ops;
	(*out)->replay = replay;
	(*out)->options = *options;
	return 0;
}

void analysis_destroy(struct analysis *analysis)
{
	if (analysis)
		analysis->ops->destroy(analysis);
}

/* --- for verbs ------------------------------------------------------------------------------- */

/* Analyses of one trace, and the pass that they are fed by. */
struct show {
	const char *verb;
	struct replay replay;
	struct analysis *analyses[MAX_ANALYSES];
	size_t n;
};

static bool has(const struct replay *replay, bool (*is)(const struct trace_instance *))
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	if (replay->chosen)
		return is(replay->chosen);
	for (size_t i = 0; i < n; i++)
		if (is(&all[i]))
			return true;
	return false;
}

/* What was traced, or the instance that the user named. Traces of old programs are of kmem. */
static void choose(const struct replay *replay, const char *names[MAX_ANALYSES])
{
	size_t nr_instances, n = 0;

	trace_reader_instances(replay->reader, &nr_instances);
	if (replay->instance || !nr_instances) {
		names[n++] = "overview";
		names[n++] = analysis_names[0];
	} else {
		names[n++] = "events";
		if (has(replay, graph_is_of))
			names[n++] = "functions";
		if (has(replay, syscall_is_of))
			names[n++] = "syscalls";
	}
	names[n] = NULL;
}

int analysis_check(const struct analysis_ops *ops, const struct replay *replay, struct error *err)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	if (!ops->change && replay->selects)
		return error_set(
			err, EINVAL,
			"--filter, --type and --vcpu choose allocations, which this report is "
			"not about; sonde events chooses any events");
	if (!ops->change || ops->any_trace || replay->instance || !n)
		return 0;
	if (replay->chosen)
		return error_set(err, EINVAL, "--instance: '%s' is not of the kmem tracer",
				 replay->chosen->name);
	return error_set(err, EINVAL, "the trace has no allocations: it is of '%s'%s", all[0].spec,
			 n > 1 ? " and others" : "");
}

static int create_all(struct show *show, const char *const *names,
		      const struct analysis_options *options, struct error *err)
{
	const char *chosen[MAX_ANALYSES];
	int ret = 0;

	if (!names) {
		choose(&show->replay, chosen);
		names = chosen;
	}
	for (size_t i = 0; !ret && names[i]; i++)
		ret = analysis_check(analysis_find(names[i]), &show->replay, err);

	for (; !ret && names[show->n] && show->n < MAX_ANALYSES; show->n += !ret)
		ret = analysis_create(analysis_find(names[show->n]), &show->replay, options,
				      &show->analyses[show->n], err);
	return ret;
}

static void print_text(struct show *show)
{
	for (size_t i = 0; i < show->n; i++)
		show->analyses[i]->ops->print_text(show->analyses[i], stdout);
}

static int print_json(struct show *show)
{
	json_t *root = json_pack("{si}", "version", 1);
	int failed = text_json_losses(root, show->replay.reader);

	for (size_t i = 0; i < show->n; i++)
		failed |= show->analyses[i]->ops->put_json(show->analyses[i], root);
	if (failed) {
		json_decref(root);
		root = NULL;
	}
	return text_print_json(show->verb, root);
}

static int print_all(struct show *show, bool json)
{
	int ret = json ? print_json(show) : CLI_OK;

	if (!json) {
		print_text(show);
		ret = cli_flush(show->verb);
	}
	for (size_t i = 0; !ret && i < show->n; i++) {
		const struct analysis *analysis = show->analyses[i];

		if (analysis->ops->failed && analysis->ops->failed(analysis))
			ret = CLI_FAILED;
	}
	return ret;
}

static void destroy_all(struct show *show)
{
	for (size_t i = 0; i < show->n; i++)
		analysis_destroy(show->analyses[i]);
	replay_close(&show->replay);
}

/* Until the recorder ends; on a terminal, show what is known so far. */
static int follow(struct show *show, bool json, struct error *err)
{
	const bool shows = !json && isatty(STDOUT_FILENO);
	int alive;

	while ((alive = replay_follow(&show->replay, show->analyses, show->n, err)) > 0) {
		if (shows) {
			fputs("\033[H\033[2J", stdout);
			print_text(show);
			fflush(stdout);
		}
		clock_wait_ms(FOLLOW_MS);
	}
	return alive;
}

/* Returns an exit status plus one, or 0 to go on. */
static int open_all(struct show *show, const char *const *names, const struct replay_view *view,
		    const struct analysis_options *options)
{
	struct error err;
	int ret = replay_open(&show->replay, options->dir, view, &err);

	if (ret)
		return 1 + cli_error(show->verb, &err);
	if (replay_select(&show->replay, &err))
		return 1 + cli_usage(show->verb, "%s", err.text);
	return create_all(show, names, options, &err) ? 1 + cli_error(show->verb, &err) : 0;
}

/* One pass, printed or (follow) repeated. */
static int show_once(const char *verb, const char *const *names, const struct replay_view *view,
		     const struct analysis_options *options, bool json)
{
	struct show show = {.verb = verb};
	struct error err;
	int ret = open_all(&show, names, view, options);

	if (ret) {
		destroy_all(&show);
		return ret - 1;
	}
	ret = view->follow ? follow(&show, json, &err)
			   : replay_run(&show.replay, show.analyses, show.n, &err);
	if (ret < 0) {
		error_prefix(&err, "%s: ", options->dir);
		ret = cli_error(verb, &err);
	} else if (!view->follow) {
		ret = print_all(&show, json);
	}
	destroy_all(&show);
	return ret;
}

int analysis_show(const char *verb, const char *const *names, const struct replay_view *view,
		  const struct analysis_options *options, bool json)
{
	struct replay_view whole = *view;
	int ret = CLI_OK;

	if (view->follow)
		ret = show_once(verb, names, view, options, json);
	/* a reader that followed knows of losses what was so when it was opened */
	whole.follow = false;
	return ret ? ret : show_once(verb, names, &whole, options, json);
}

int analysis_main(const struct cli_verb *verb, int argc, char **argv)
{
	const char *const names[] = {verb->name, NULL};
	struct analysis_command command = {.view = REPLAY_ALL};
	struct analysis_options options = {0};
	int ret = cli_parse(verb, argc, argv, &command);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb->name, "name one trace directory; see 'sonde %s --help'",
				 verb->name);
	options.dir = argv[optind];
	options.top = command.top;
	options.verbose = command.verbose;
	return analysis_show(verb->name, names, &command.view, &options, command.json);
}

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

enum { FOLLOW_MS = 1000, LABEL = 10 };

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
	struct analysis *analysis = calloc(1, ops->size);
	int ret = 0;

	if (!analysis)
		return error_set(err, ENOMEM, "out of memory");
	analysis->ops = ops;
	analysis->replay = replay;
	analysis->options = *options;
	if (ops->init)
		ret = ops->init(analysis, err);
	if (ret)
		analysis_destroy(analysis);
	else
		*out = analysis;
	return ret;
}

void analysis_destroy(struct analysis *analysis)
{
	if (analysis && analysis->ops->deinit)
		analysis->ops->deinit(analysis);
	free(analysis);
}

/* --- for verbs ------------------------------------------------------------------------------- */

/* What the user asked for. */
struct wish {
	const char *const *names; /* NULL: what suits the trace */
	const struct replay_view *view;
	const struct analysis_options *options;
};

/* Analyses of one trace, and the pass that they are fed by. */
struct show {
	const char *verb;
	struct replay replay;
	struct analysis **analyses;
	size_t n;
};

bool analysis_has_instance(const struct replay *replay, bool (*is)(const struct trace_instance *))
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	for (size_t i = 0; i < n; i++)
		if (is(&all[i]) && replay_has_instance(replay, &all[i]))
			return true;
	return false;
}

enum { MOST_CHOSEN = 3 };

/* What was traced, or what the user chose of it; of a choice by events' names or fields, which
 * calls have not, the events. Traces of old programs are of kmem. */
static void choose(const struct replay *replay, const char *names[MOST_CHOSEN + 1])
{
	const struct event_choice *choice = &replay->view->choice;
	const bool of_events = choice->events.n || choice->filters.n;
	size_t nr_instances, n = 0;

	trace_reader_instances(replay->reader, &nr_instances);
	if (replay_has_allocations(replay) || !nr_instances) {
		names[n++] = "overview";
		names[n++] = analysis_names[0];
	} else {
		names[n++] = "events";
		if (!of_events && analysis_has_instance(replay, graph_is_of))
			names[n++] = "functions";
		if (!of_events && analysis_has_instance(replay, syscall_is_of))
			names[n++] = "syscalls";
	}
	names[n] = NULL;
}

int analysis_lacks(const struct replay *replay, const char *tracer, const char *what,
		   struct error *err)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	if (replay->view->choice.instances.n)
		return error_set(err, EINVAL, "--instance: '%s' is not of the %s tracer",
				 replay->view->choice.instances.words[0], tracer);
	if (!n)
		return error_set(err, EINVAL, "the trace has no %s: it is of allocations", what);
	return error_set(err, EINVAL, "the trace has no %s: it is of '%s'%s", what, all[0].spec,
			 n > 1 ? " and others" : "");
}

int analysis_check_heap(const struct replay *replay, struct error *err)
{
	if (replay->nr_named > 1)
		return error_set(err, EINVAL,
				 "--instance: memory is that of one instance: choose one, as with "
				 "--instance=%s",
				 replay->instance->name);
	return 0;
}

int analysis_check(const struct analysis_ops *ops, const struct replay *replay, struct error *err)
{
	size_t n;

	trace_reader_instances(replay->reader, &n);
	if (!analysis_is_of_heap(ops) && replay->view->type < KMEM_TYPE_COUNT)
		return error_set(err, EINVAL,
				 "--type chooses allocations, which this report is not about");
	if (!analysis_is_of_heap(ops))
		return 0;
	if (analysis_check_heap(replay, err))
		return -EINVAL;
	if (ops->any_trace || replay->instance || !n)
		return 0;
	return analysis_lacks(replay, "kmem", "allocations", err);
}

static size_t count_names(const char *const *names)
{
	size_t n = 0;

	while (names[n])
		n++;
	return n;
}

static int create_all(struct show *show, const struct wish *wish, struct error *err)
{
	const char *chosen[MOST_CHOSEN + 1];
	const char *const *names = wish->names;
	int ret = 0;

	if (!names) {
		choose(&show->replay, chosen);
		names = chosen;
	}
	show->analyses = calloc(count_names(names) + 1, sizeof(struct analysis *));
	if (!show->analyses)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && names[i]; i++)
		ret = analysis_check(analysis_find(names[i]), &show->replay, err);

	for (; !ret && names[show->n]; show->n += !ret)
		ret = analysis_create(analysis_find(names[show->n]), &show->replay, wish->options,
				      &show->analyses[show->n], err);
	return ret;
}

static void print_text(const struct show *show, const struct wish *wish)
{
	for (size_t i = 0; i < show->n; i++) {
		const struct analysis *analysis = show->analyses[i];

		if (wish->options->in_sections)
			printf("%s%s: %s\n\n", i ? "\n" : "", wish->names[i], analysis->ops->about);
		analysis->ops->print_text(analysis, stdout);
	}
	if (!replay_has_printed_losses(&show->replay))
		replay_print_losses(&show->replay, stdout, LABEL);
}

static int put_json(const struct analysis *analysis, const char *key, json_t *root)
{
	json_t *section = key ? json_object() : root;
	int failed = analysis->ops->put_json(analysis, section);

	return key ? failed | json_object_set_new(root, key, section) : failed;
}

static int print_json(const struct show *show, const struct wish *wish)
{
	json_t *root = json_pack("{si}", "version", 1);
	int failed = text_json_losses(root, show->replay.reader);

	for (size_t i = 0; i < show->n; i++)
		failed |= put_json(show->analyses[i],
				   wish->options->in_sections ? wish->names[i] : NULL, root);
	if (failed) {
		json_decref(root);
		root = NULL;
	}
	return text_print_json(show->verb, root);
}

static int print_all(const struct show *show, const struct wish *wish)
{
	int ret = CLI_OK;

	if (wish->options->json) {
		ret = print_json(show, wish);
	} else {
		print_text(show, wish);
		ret = cli_flush(show->verb);
	}
	for (size_t i = 0; !ret && i < show->n; i++) {
		const struct analysis *analysis = show->analyses[i];

		if (analysis->ops->failed && analysis->ops->failed(analysis))
			ret = CLI_FAILED;
	}
	return ret;
}

static void close_all(struct show *show)
{
	for (size_t i = 0; i < show->n; i++)
		analysis_destroy(show->analyses[i]);
	free(show->analyses);
	replay_close(&show->replay);
	*show = (struct show){.verb = show->verb};
}

/* Of an analysis alone, filters may be on what no event has. */
static bool is_of_calls(const struct wish *wish)
{
	return wish->names && wish->names[0] && !wish->names[1] &&
	       analysis_find(wish->names[0])->select;
}

static int select_all(struct show *show, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < show->n; i++)
		if (show->analyses[i]->ops->select)
			ret = show->analyses[i]->ops->select(show->analyses[i], err);
	return ret;
}

static bool is_word(const char *text, const char *const *words)
{
	while (*words && strcmp(*words, text))
		words++;
	return *words;
}

static int refuse_sort(const char *const *words, const char *word, struct error *err)
{
	return error_set(err, EINVAL, "--sort of this report takes %s, not '%s'",
			 text_words(words).s, word);
}

/* Memory and calls are sorted by other words; system calls have no time of their own. */
static int check_sort(const struct show *show, const struct analysis_options *options,
		      struct error *err)
{
	static const char *const of_syscalls[] = {"total", "calls", "mean", "max", NULL};
	const char *const word = options->sort_word;
	bool memory = false, calls = false, functions = false;

	for (size_t i = 0; i < show->n; i++) {
		const struct analysis_ops *ops = show->analyses[i]->ops;

		memory |= analysis_is_of_heap(ops);
		calls |= ops->select != NULL;
		functions |= ops == analysis_find("functions");
	}
	if (!word)
		return 0;
	if (!calls)
		return is_word(word, measure_names) ? 0 : refuse_sort(measure_names, word, err);
	if (!functions && !memory && !is_word(word, of_syscalls))
		return refuse_sort(of_syscalls, word, err);
	if (!memory && !is_word(word, call_order_names))
		return refuse_sort(call_order_names, word, err);
	return 0;
}

/* Returns an exit status plus one, or 0 to go on. */
static int open_all(struct show *show, const struct wish *wish)
{
	struct error err;
	int ret = replay_open(&show->replay, wish->options->dir, wish->view, &err);

	if (ret)
		return 1 + cli_error(show->verb, &err);
	ret = is_of_calls(wish) ? replay_select_calls(&show->replay, &err)
				: replay_select(&show->replay, &err);
	if (ret)
		return 1 + cli_usage_error(show->verb, &err);
	replay_print_hints(&show->replay, show->verb);
	if (create_all(show, wish, &err))
		return 1 + cli_error(show->verb, &err);
	ret = check_sort(show, wish->options, &err);
	if (!ret)
		ret = select_all(show, &err);
	return ret ? 1 + cli_usage_error(show->verb, &err) : 0;
}

static int fail(const struct show *show, const struct wish *wish, struct error *err)
{
	error_prefix(err, "%s: ", wish->options->dir);
	return cli_error(show->verb, err);
}

/* Until the recorder ends; on a terminal, show what is known so far. Returns an exit status. */
static int follow(struct show *show, const struct wish *wish)
{
	const bool shows = !wish->options->json && isatty(STDOUT_FILENO);
	struct error err;
	int alive, ret;

	while ((alive = replay_follow(&show->replay, show->analyses, show->n, &err)) > 0) {
		if (show->replay.init_moved) {
			close_all(show);
			ret = open_all(show, wish);
			if (ret)
				return ret - 1;
			continue;
		}
		if (shows) {
			fputs("\033[H\033[2J", stdout);
			print_text(show, wish);
			fflush(stdout);
		}
		clock_wait_ms(FOLLOW_MS);
	}
	return alive < 0 ? fail(show, wish, &err) : CLI_OK;
}

static int run(struct show *show, const struct wish *wish)
{
	struct error err;
	int ret;

	if (replay_run(&show->replay, show->analyses, show->n, &err))
		return fail(show, wish, &err);
	ret = print_all(show, wish);
	analysis_print_notes(show->verb, "", "--time", &show->replay, wish->options);
	return ret;
}

/* One pass, printed or (follow) repeated. */
static int show_once(const char *verb, const struct wish *wish)
{
	struct show show = {.verb = verb};
	int ret = open_all(&show, wish);

	if (ret)
		ret--;
	else
		ret = wish->view->follow ? follow(&show, wish) : run(&show, wish);
	close_all(&show);
	return ret;
}

int analysis_show(const char *verb, const char *const *names, const struct replay_view *view,
		  const struct analysis_options *options, bool json)
{
	struct replay_view whole = *view;
	struct analysis_options shown = *options;
	struct wish wish = {names, view, &shown};
	int ret = CLI_OK;

	shown.json = json;
	if (view->follow)
		ret = show_once(verb, &wish);
	/* what came late to the disk was told of out of order */
	whole.follow = false;
	wish.view = &whole;
	return ret ? ret : show_once(verb, &wish);
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
	options.older_ns = (int64_t)command.older_ms * 1000000;
	return analysis_show(verb->name, names, &command.view, &options, command.json);
}

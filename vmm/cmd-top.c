/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "vmm/cmd.h"
#include "vmm/top/screen.h"
#include "vmm/top/source.h"
#include "vmm/top/terminal.h"

static const char verb_name[] = "top";

enum { ONCE_ROWS = 10, ONCE_LINES = ONCE_ROWS + 4, ONCE_COLUMNS = 200 };

struct options {
	bool json, once;
	uint64_t interval_ms;
	const char *trace, *stacks;
	unsigned int sort;
};

struct top {
	const struct options *options;
	struct top_source *source;
	struct top_model model;
	struct top_state state;
	struct top_screen screen;
};

static int sample(struct top *t, struct error *err)
{
	return top_source_sample(t->source, &t->model, err);
}

/* --- once ------------------------------------------------------------------------------------ */

static int print_view(struct top *t, enum top_view view, unsigned int lines)
{
	t->state.view = view;
	if (top_draw(&t->screen, &t->model, &t->state, lines, ONCE_COLUMNS))
		return -1;
	printf("%s%s%s%s\n", view ? "\n" : "", top_view_titles[view],
	       view == TOP_STACKS ? " of " : "", view == TOP_STACKS ? t->model.site_name : "");
	for (unsigned int i = 2; i + 1 < t->screen.lines; i++)
		if (t->screen.text[i][0])
			puts(t->screen.text[i]);
	return 0;
}

static int print_once(struct top *t)
{
	json_t *document = t->options->json ? top_model_json(&t->model) : NULL;

	if (document) {
		json_dumpf(document, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(document);
	}
	for (enum top_view view = 0; !t->options->json && view < TOP_TABS; view++)
		print_view(t, view, ONCE_LINES);
	if (!t->options->json && t->model.site)
		print_view(t, TOP_STACKS, TOP_MAX_LINES);
	return cli_flush(verb_name);
}

/* A call site as the table names it, or the busiest one of a function. */
static bool is_named(const struct top_row *row, const char *name)
{
	const size_t n = strcspn(row->now.name, "+");

	return !strcmp(row->now.name, name) ||
	       (!strncmp(row->now.name, name, n) && !name[n] && row->now.name[n]);
}

static int drill(struct top *t, struct error *err)
{
	const struct top_table *sites = &t->model.tables[TOP_SITES];
	const char *name = t->options->stacks;
	const struct top_row **rows;
	size_t n, i = 0;

	if (!name)
		return 0;
	if (sites->missing[0])
		return error_set(err, ENOENT, "--stacks: %s", sites->missing);
	rows = top_table_sort(sites, TOP_TOTAL, NULL, &n);
	if (!rows)
		return error_set(err, ENOMEM, "out of memory");
	while (i < n && !is_named(rows[i], name))
		i++;
	if (i < n) {
		top_model_drill(&t->model, &rows[i]->now);
		top_source_put_chains(t->source, &t->model);
	}
	free(rows);
	return i < n ? 0 : error_set(err, ENOENT, "--stacks: no call site is named '%s'", name);
}

/* Two samples, as rates need them. */
static int show_once(struct top *t)
{
	struct error err = {0};
	int ret = sample(t, &err);

	t->state.no_cursor = true;
	if (!ret)
		ret = drill(t, &err);
	if (!ret) {
		clock_wait_ms((unsigned int)t->options->interval_ms);
		ret = sample(t, &err);
	}
	return ret ? cli_error(verb_name, &err) : print_once(t);
}

/* --- live ------------------------------------------------------------------------------------ */

static int draw(struct top *t)
{
	unsigned int lines, columns;

	top_terminal_size(&lines, &columns);
	if (top_draw(&t->screen, &t->model, &t->state, lines, columns))
		return -1;
	top_terminal_show(&t->screen);
	return 0;
}

/* What the guest has done stays on the screen when it has ended. */
static void sample_live(struct top *t, bool *ended)
{
	struct error err = {0};

	*ended = sample(t, &err) != 0;
	snprintf(t->state.notice, sizeof(t->state.notice), "%s%.120s", *ended ? "ended: " : "",
		 *ended ? err.text : "");
}

static void live(struct top *t)
{
	uint64_t next_ms = 0;
	bool ended = false;

	snprintf(t->state.notice, sizeof(t->state.notice), "reads the trace ...");
	while (!t->state.quit && !draw(t)) {
		const uint64_t now = clock_monotonic_ms();
		int key;

		if (!ended && !t->state.frozen && now >= next_ms) {
			sample_live(t, &ended);
			next_ms = clock_monotonic_ms() + t->options->interval_ms;
			continue;
		}
		key = top_terminal_key(now < next_ms ? (int)(next_ms - now)
						     : (int)t->options->interval_ms);
		if (key >= 0 && top_press(&t->state, &t->model, key, t->screen.lines))
			top_source_put_chains(t->source, &t->model);
	}
}

static int show_live(struct top *t)
{
	struct error err = {0};

	if (top_terminal_open(&err))
		return cli_error(verb_name, &err);
	live(t);
	top_terminal_close();
	if (t->state.notice[0] && t->state.quit)
		puts(t->state.notice);
	return CLI_OK;
}

/* --- command line ---------------------------------------------------------------------------- */

static const char *const sort_words[] = {"rate", "flow", "live", "count", "total", NULL};

static const struct cli_option options_table[] = {
	{.name = "once",
	 .help = "print what happens in one interval, and end; also without a terminal",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, once)},
	CLI_JSON_OPTION(struct options, "with --once: print JSON"),
	{.name = "interval",
	 .value = "TIME",
	 .help = "between two samples; default: 2s",
	 .store = cli_store_time,
	 .offset = offsetof(struct options, interval_ms),
	 .min = 100,
	 .max = 3600 * 1000},
	{.name = "sort",
	 .letter = 's',
	 .value = "COLUMN",
	 .help = "order by rate (default), flow, live, count or total: the columns\n"
		 "from left to right",
	 .store = cli_store_choice,
	 .words = sort_words,
	 .offset = offsetof(struct options, sort)},
	{.name = "stacks",
	 .value = "SITE",
	 .help = "with --once, which it implies: also print the call chains of this\n"
		 "call site, which is one as its table names it, or a function's",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, stacks)},
	{.name = "trace",
	 .value = "DIR",
	 .help = "the trace that is being recorded, if its name is relative to\n"
		 "another folder",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, trace)},
	{0},
};

static const struct cli_table tables[] = {{options_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = verb_name,
	.usage = "usage: sonde top [OPTION]... SOCKET\n"
		 "\n"
		 "Show, while a guest is traced, its busiest call sites, caches, functions and\n"
		 "system calls. SOCKET is the monitor of a 'sonde run' or 'sonde attach'.\n",
	.tables = tables,
};

static bool shows_once(const struct options *options)
{
	return options->once || options->json || options->stacks || !isatty(STDOUT_FILENO);
}

static int run(const struct options *options, const char *socket)
{
	struct error err = {0};
	struct top *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return CLI_FAILED;
	t->options = options;
	t->state.sort = (enum top_column)options->sort;
	if (top_source_open(socket, options->trace, &t->source, &err))
		ret = cli_error(verb_name, &err);
	else
		ret = shows_once(options) ? show_once(t) : show_live(t);
	top_source_close(t->source);
	top_model_deinit(&t->model);
	free(t);
	return ret;
}

int cmd_top(int argc, char **argv)
{
	struct options options = {.interval_ms = 2000};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind + 1 != argc)
		return cli_usage(verb_name, "which SOCKET? usage: sonde top [OPTION]... SOCKET");
	return run(&options, argv[optind]);
}

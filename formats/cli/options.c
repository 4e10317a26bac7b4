/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/help.h"

enum { MAX_OPTIONS = 48, LONG_ONLY = 256, HELP_COLUMN = 25, HELP_LINE = 128 };

/* The rows of all tables, and what getopt_long() wants to know of them. */
struct parser {
	const struct cli_option *rows[MAX_OPTIONS];
	void *fields[MAX_OPTIONS];
	struct option longs[MAX_OPTIONS + 2]; /* val: the row's index, from LONG_ONLY on */
	char shorts[2 * MAX_OPTIONS + 3];
	size_t n;
};

static void add_row(struct parser *p, const struct cli_option *row, char *base)
{
	char *end = p->shorts + strlen(p->shorts);

	if (p->n == MAX_OPTIONS)
		abort();
	p->rows[p->n] = row;
	p->fields[p->n] = base + row->offset;
	p->longs[p->n] = (struct option){.name = row->name,
					 .has_arg = row->value ? required_argument : no_argument,
					 .val = LONG_ONLY + (int)p->n};
	if (row->letter) {
		*end++ = row->letter;
		strcpy(end, row->value ? ":" : "");
	}
	p->n++;
}

static void add_tables(struct parser *p, const struct cli_verb *verb, char *target)
{
	*p = (struct parser){.shorts = ":h"};
	for (const struct cli_table *t = verb->tables; t->options; t++) {
		for (const struct cli_option *row = t->options; row->name; row++)
			add_row(p, row, target + t->offset);
	}
	p->longs[p->n] = (struct option){.name = "help", .has_arg = no_argument, .val = 'h'};
}

/* The index of the row that getopt_long() has found. */
static size_t row_of(const struct parser *p, int found)
{
	size_t i = 0;

	if (found >= LONG_ONLY)
		return (size_t)found - LONG_ONLY;
	while (i + 1 < p->n && p->rows[i]->letter != found)
		i++;
	return i;
}

/* Messages name an option as the user did: by its long name if that was found. */
static int store(const struct parser *p, const struct cli_verb *verb, int found, const char *text)
{
	size_t i = row_of(p, found);
	struct cli_option row = *p->rows[i];

	if (found >= LONG_ONLY)
		row.letter = 0;
	return row.store(verb->name, &row, text, p->fields[i]);
}

/* "  -k, --kernel FILE     text", with further lines of the text below it. */
static void print_row(const struct cli_option *row)
{
	char letter[8] = "   ", left[HELP_LINE];
	int width;

	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c,", row->letter);
	width = snprintf(left, sizeof(left), "  %s --%s%s%s", letter, row->name,
			 row->value ? " " : "", row->value ? row->value : "");
	printf("%s%s%*s", left, width < HELP_COLUMN ? "" : "\n",
	       width < HELP_COLUMN ? HELP_COLUMN - width : HELP_COLUMN, "");
	help_print(row->help, HELP_COLUMN);
}

static const struct cli_option help_option = {.name = "help", .letter = 'h', .help = "print this"};

static void print_help(const struct cli_verb *verb)
{
	help_print(verb->usage, 0);
	putchar('\n');
	for (const struct cli_table *t = verb->tables; t->options; t++) {
		for (const struct cli_option *row = t->options; row->name; row++)
			print_row(row);
	}
	print_row(&help_option);
	if (verb->notes) {
		putchar('\n');
		help_print(verb->notes, 0);
	}
}

/* Of what getopt_long() (its ":" mode) has just refused, `word` being the one it stopped at: name
 * the option, and the nearest of `options` if there is one. Returns CLI_USAGE. */
static int unknown_option(const char *verb, const char *word, const struct option *options)
{
	const char *names[MAX_OPTIONS + 1], *near;
	size_t n = 0;

	for (; n < MAX_OPTIONS && options[n].name; n++) {
		if (optopt && options[n].val == optopt)
			return cli_usage(verb, "--%s takes no value", options[n].name);
		names[n] = options[n].name;
	}
	names[n] = NULL;
	/* getopt_long() sets optopt to 0 at an unknown long option. */
	if (optopt)
		return cli_usage(verb, "unknown option -%c; see 'sonde %s --help'", optopt, verb);
	near = text_nearest(word + 2, names);
	if (!near)
		return cli_usage(verb, "unknown option %s; see 'sonde %s --help'", word, verb);
	return cli_usage(verb, "unknown option %s: did you mean --%s?", word, near);
}

int cli_parse(const struct cli_verb *verb, int argc, char **argv, void *target)
{
	struct parser p;
	int found, ret = 0;

	add_tables(&p, verb, target);
	optind = 0; /* start afresh, whatever was parsed before */
	opterr = 0;
	while (!ret && (found = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
		if (found == 'h') {
			print_help(verb);
			return 1 + cli_flush(verb->name);
		}
		if (found == '?')
			ret = unknown_option(verb->name, argv[optind - 1], p.longs);
		else if (found == ':')
			ret = cli_usage(verb->name, "%s needs a value; see 'sonde %s --help'",
					argv[optind - 1], verb->name);
		else
			ret = store(&p, verb, found, optarg);
	}
	/* As a shell makes it of a variable that is not set. */
	for (int i = optind; !ret && i < argc; i++)
		if (!*argv[i])
			ret = cli_usage(verb->name, "an argument is empty");
	return ret ? 1 + ret : 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the values of options are parsed and stored (options.h). */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"

struct unit {
	const char *name;
	uint64_t factor;
};

/* The smallest first. */
static const struct unit size_units[] = {
	{"B", 1},
	{"K", UINT64_C(1) << 10},
	{"M", UINT64_C(1) << 20},
	{"G", UINT64_C(1) << 30},
	{"T", UINT64_C(1) << 40},
	{"KiB", UINT64_C(1) << 10},
	{"MiB", UINT64_C(1) << 20},
	{"GiB", UINT64_C(1) << 30},
	{"TiB", UINT64_C(1) << 40},
	{NULL, 0},
};

static const struct unit time_units[] = {
	{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0},
};

/* 0 if there is no such unit. */
static uint64_t unit_factor(const char *name, const struct unit *units, uint64_t plain)
{
	if (!*name)
		return plain;
	for (; units->name; units++) {
		if (!strcasecmp(name, units->name))
			return units->factor;
	}
	return 0;
}

/* "NUMBER[.FRACTION][UNIT]" in whole factors; what is less than 1 is cut. */
static bool parse_quantity(const char *text, const struct unit *units, uint64_t plain,
			   uint64_t *out)
{
	unsigned __int128 number = 0, scale = 1;
	bool fraction = false;
	uint64_t factor;

	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text) || (*text == '.' && !fraction); text++) {
		if (*text == '.') {
			fraction = true;
			continue;
		}
		number = number * 10 + (unsigned int)(*text - '0');
		scale *= fraction ? 10 : 1;
		if (number > UINT64_MAX || scale > UINT64_MAX)
			return false;
	}
	factor = unit_factor(text, units, plain);
	number = number * factor / scale;
	*out = (uint64_t)number;
	return factor && number <= UINT64_MAX;
}

static bool in_range(const struct cli_option *option, uint64_t value)
{
	return value >= option->min && (!option->max || value <= option->max);
}

struct cli_label cli_label(const struct cli_option *option)
{
	struct cli_label label;

	if (option->letter)
		snprintf(label.text, sizeof(label.text), "-%c", option->letter);
	else
		snprintf(label.text, sizeof(label.text), "--%s", option->name);
	return label;
}

/* In the largest unit that divides it: "64M". */
static struct cli_label quantity(uint64_t value, const struct unit *units)
{
	const struct unit *best = units;
	struct cli_label label;

	for (; units->name; units++) {
		if (units->factor > best->factor && value % units->factor == 0)
			best = units;
	}
	snprintf(label.text, sizeof(label.text), "%" PRIu64 "%s", value / best->factor, best->name);
	return label;
}

/* The bounds are examples, too; `more` is another one, within them. */
static int refuse_quantity(const char *verb, const struct cli_option *option, const char *text,
			   const char *what, const struct unit *units, const char *more)
{
	return cli_usage(verb, "%s takes a %s from %s to %s%s, not '%s'", cli_label(option).text,
			 what, quantity(option->min, units).text, quantity(option->max, units).text,
			 more, text);
}

int cli_store_text(const char *verb, const struct cli_option *option, const char *text, void *field)
{
	(void)verb;
	(void)option;
	*(const char **)field = text;
	return 0;
}

int cli_store_list(const char *verb, const struct cli_option *option, const char *text, void *field)
{
	struct cli_list *list = field;

	if (list->n == CLI_LIST_MAX)
		return cli_usage(verb, "more than %d %s", CLI_LIST_MAX, cli_label(option).text);
	list->words[list->n++] = text;
	return 0;
}

int cli_store_flag(const char *verb, const struct cli_option *option, const char *text, void *field)
{
	(void)verb;
	(void)option;
	(void)text;
	*(bool *)field = true;
	return 0;
}

int cli_store_number(const char *verb, const struct cli_option *option, const char *text,
		     void *field)
{
	uint64_t max = option->max ? option->max : UINT64_MAX;

	if (!cli_parse_u64(text, option->min, max, field))
		return 0;
	if (!option->max)
		return cli_usage(verb, "%s takes a number from %" PRIu64 " on, not '%s'",
				 cli_label(option).text, option->min, text);
	return cli_usage(verb, "%s takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
			 cli_label(option).text, option->min, max, text);
}

static int refuse_choice(const char *verb, const struct cli_option *option, const char *text)
{
	const char *near = text_nearest(text, option->words);
	const struct text list = text_words(option->words);

	if (near)
		return cli_usage(verb, "%s takes %s, not '%s'; did you mean '%s'?",
				 cli_label(option).text, list.s, text, near);
	return cli_usage(verb, "%s takes %s, not '%s'", cli_label(option).text, list.s, text);
}

int cli_store_choice(const char *verb, const struct cli_option *option, const char *text,
		     void *field)
{
	for (unsigned int i = 0; option->words[i]; i++) {
		if (strcmp(text, option->words[i]))
			continue;
		*(unsigned int *)field = i;
		return 0;
	}
	return refuse_choice(verb, option, text);
}

int cli_find_word(const char *verb, const struct cli_option *option, const char *word,
		  const char *end, const char *const *words)
{
	char copy[64];
	const char *near;

	snprintf(copy, sizeof(copy), "%.*s", (int)(end - word), word);
	for (int i = 0; words[i]; i++) {
		if (!strcmp(copy, words[i]))
			return i;
	}
	near = text_nearest(copy, words);
	cli_usage(verb, "--%s takes %s, not '%s'%s%s%s", option->name, text_words(words).s, copy,
		  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return -1;
}

int cli_store_size(const char *verb, const struct cli_option *option, const char *text, void *field)
{
	uint64_t bytes;

	if (!parse_quantity(text, size_units, option->unit ? option->unit : 1, &bytes) ||
	    !in_range(option, bytes))
		return refuse_quantity(verb, option, text, "size", size_units, "");
	*(uint64_t *)field = bytes;
	return 0;
}

int cli_store_time(const char *verb, const struct cli_option *option, const char *text, void *field)
{
	uint64_t ms;

	if (!parse_quantity(text, time_units, 1000, &ms) || !in_range(option, ms))
		return refuse_quantity(verb, option, text, "time", time_units,
				       ", such as 0.5, 10s or 2m");
	*(uint64_t *)field = ms;
	return 0;
}

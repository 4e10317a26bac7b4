/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parser of trace specs: one pass, item by item. */
#include "patcher/tracers/spec-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

enum { MAX_NAMES = 40 };

static void skip_blanks(struct spec_parser *p)
{
	p->at += strspn(p->at, " \t");
}

bool spec_span_is(struct spec_span span, const char *word)
{
	return strlen(word) == span.length && !memcmp(span.from, word, span.length);
}

int spec_unknown(const struct spec_parser *p, const char *what, struct spec_span word,
		 const char *const *known)
{
	char copy[64], list[200] = "";
	const char *nearest = NULL;
	size_t used = 0;

	snprintf(copy, sizeof(copy), "%.*s", (int)word.length, word.from);
	if (word.length < sizeof(copy))
		nearest = text_nearest(copy, known);
	if (nearest)
		return FAIL(p, word.from, "unknown %s '%s': did you mean '%s'?", what, copy,
			    nearest);
	for (; *known && used < sizeof(list); known++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
					 *known);
	return FAIL(p, word.from, "unknown %s '%s'; known: %s", what, copy, list);
}

/* --- items ----------------------------------------------------------------------------------- */

static const struct key {
	const char *name;
	enum trace_takes takes;
	int (*take)(struct spec_parser *p);
} keys[] = {
	{"pid", TRACE_TAKES_PIDS, spec_take_pids},
	{"vcpu", TRACE_TAKES_VCPUS, spec_take_vcpus},
	{"cpu", TRACE_TAKES_VCPUS, spec_take_vcpus},
	{"filter", TRACE_TAKES_FILTER, spec_take_filter},
};

enum { NR_KEYS = sizeof(keys) / sizeof(keys[0]) };

/* "pid=1" and its like, of a tracer that takes none. */
static int refuse_key(const struct spec_parser *p, struct spec_span name)
{
	if (p->grammar->takes & TRACE_TAKES_PROBE)
		return FAIL(
			p, name.from,
			"the %s tracer takes no %.*s=: write a condition behind the probe, as in "
			"'if %.*s == 1'",
			p->grammar->tracer, (int)name.length, name.from, (int)name.length,
			name.from);
	return FAIL(p, name.from, "the %s tracer takes no %.*s", p->grammar->tracer,
		    (int)name.length, name.from);
}

/* NULL: no reader has it. */
static const struct trace_read_option *find_reader(const struct spec_parser *p,
						   struct spec_span name)
{
	const struct trace_read_option *option = p->grammar->readers;

	while (option && option->name && !spec_span_is(name, option->name))
		option++;
	return option && option->name ? option : NULL;
}

static int refuse_for(const struct spec_parser *p, const char *place,
		      const struct trace_read_option *reader)
{
	return FAIL(p, place, "the %s tracer takes no %s: %s%s%s", p->grammar->tracer, reader->name,
		    reader->why ? reader->why : "it records all calls of its functions",
		    reader->command ? ". Choose when you read the trace: " : "",
		    reader->command ? reader->command : "");
}

static int refuse(const struct spec_parser *p, const char *place, const char *what)
{
	const struct trace_read_option *reader =
		find_reader(p, (struct spec_span){what, strlen(what)});

	if (reader)
		return refuse_for(p, place, reader);
	return FAIL(p, place, "the %s tracer takes no %s", p->grammar->tracer, what);
}

static int parse_key(struct spec_parser *p, struct spec_span name)
{
	const struct trace_read_option *reader = find_reader(p, name);
	const char *known[NR_KEYS + 1] = {0};
	size_t n = 0;

	if (reader)
		return refuse_for(p, name.from, reader);
	for (size_t i = 0; i < NR_KEYS; i++) {
		bool takes = p->grammar->takes & keys[i].takes;

		if (spec_span_is(name, keys[i].name)) {
			if (!takes)
				return refuse_key(p, name);
			p->at += name.length + 1;
			return keys[i].take(p);
		}
		if (takes)
			known[n++] = keys[i].name;
	}
	if (!n)
		return FAIL(p, name.from, "the %s tracer takes no values: '=' is for NAME=%s",
			    p->grammar->tracer, p->grammar->tracer);
	return spec_unknown_option(p, name, known);
}

static int add_file(struct spec_parser *p, struct spec_span item)
{
	char *path = spec_unquote((struct spec_span){item.from + 1, item.length - 1});
	int ret;

	if (!path)
		return error_set(p->err, ENOMEM, "out of memory");
	if (*path)
		ret = function_patterns_add_file(&p->spec->functions, path, p->err);
	else
		ret = FAIL(p, item.from + 1, "the name of a file is missing");
	free(path);
	return ret;
}

/* Of another tracer. */
static bool is_foreign_word(const struct spec_parser *p, struct spec_span item)
{
	bool is = false;

	for (size_t i = 0; i < p->nr_grammars; i++)
		for (size_t k = 0; p->grammars[i].words && p->grammars[i].words[k]; k++)
			is |= spec_span_is(item, p->grammars[i].words[k]);
	return is;
}

static int add_pattern(struct spec_parser *p, struct spec_span item)
{
	struct function_patterns *patterns = &p->spec->functions;
	int ret = function_patterns_add(patterns, item.from, item.length, p->err);

	if (ret && p->err->column)
		p->err->column += (unsigned int)(item.from - p->text);
	if (ret)
		return ret;
	patterns->v[patterns->n - 1].column = (unsigned int)(item.from - p->text) + 1;
	patterns->v[patterns->n - 1].words = p->grammar->words;
	patterns->v[patterns->n - 1].is_foreign_word = is_foreign_word(p, item);
	return 0;
}

static const char *const *words_of(const struct spec_parser *p)
{
	static const char *const none[] = {NULL};

	return p->grammar->words ? p->grammar->words : none;
}

/* Its number among the tracer's words, or -ENOENT. */
static int find_word(const struct spec_parser *p, struct spec_span item)
{
	const char *const *words = words_of(p);

	for (int i = 0; words[i]; i++)
		if (spec_span_is(item, words[i]))
			return i;
	return -ENOENT;
}

static int add_word(struct spec_parser *p, struct spec_span item)
{
	const char *const *words = words_of(p);
	const int word = find_word(p, item);

	if (word >= 0) {
		p->spec->words |= UINT32_C(1) << word;
		p->spec->word_columns[word] = (unsigned int)(item.from - p->text) + 1;
		return 0;
	}
	if (p->grammar->takes & TRACE_TAKES_FUNCTIONS)
		return add_pattern(p, item);
	if (p->grammar->takes & TRACE_TAKES_HIST && spec_span_is(item, "hist"))
		return FAIL(p, item.from, "a histogram's keys are missing, as in hist:keys=FIELD");
	if (!*words)
		return refuse(p, item.from, "items");
	return spec_unknown_item(p, item, words);
}

/* Up to a comma or blank that is in no quotes and behind no backslash. */
static int scan_item(struct spec_parser *p, struct spec_span *out)
{
	const char *end = p->at;

	while (*end && !strchr(", \t", *end)) {
		if (spec_is_quote(*end))
			end = spec_behind_quoted(end);
		else
			end += *end == '\\' && end[1] ? 2 : 1;
		if (!end)
			return FAIL(p, p->at, "the item has no closing quote");
	}
	*out = (struct spec_span){p->at, (size_t)(end - p->at)};
	return out->length ? 0 : FAIL(p, p->at, "an item is missing");
}

/* And no function `hist` of a module. */
static bool at_hist(const char *at)
{
	return !strncmp(at, "hist:", 5) && strncmp(at + 5, "mod:", 4) != 0;
}

static int parse_hist(struct spec_parser *p)
{
	if (!(p->grammar->takes & TRACE_TAKES_HIST))
		return refuse(p, p->at, "histogram");
	p->at += strlen("hist:");
	return spec_take_hist(p);
}

static int parse_item(struct spec_parser *p)
{
	size_t name = strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
	struct spec_span item = {0};
	int ret;

	if (at_hist(p->at))
		return parse_hist(p);
	if (name && p->at[name] == '=')
		return parse_key(p, (struct spec_span){p->at, name});
	ret = scan_item(p, &item);
	if (ret)
		return ret;
	if (isdigit((unsigned char)*item.from))
		return FAIL(p, item.from, "join numbers with '+', as in pid=1+2");
	p->at += item.length;
	if (*item.from != '@')
		return add_word(p, item);
	return p->grammar->takes & TRACE_TAKES_FUNCTIONS ? add_file(p, item)
							 : refuse(p, item.from, "functions");
}

static bool at_condition(const struct spec_parser *p)
{
	return !strncmp(p->at, "if", 2) && (!p->at[2] || strchr(" \t", p->at[2]));
}

static int parse_condition(struct spec_parser *p)
{
	const char *word = p->at;
	const struct trace_read_option *reader =
		find_reader(p, (struct spec_span){"filter", strlen("filter")});

	if (reader)
		return refuse_for(p, word, reader);
	if (!(p->grammar->takes & TRACE_TAKES_FILTER))
		return refuse(p, word, "filter");
	p->at += strlen("if");
	skip_blanks(p);
	if (!*p->at)
		return FAIL(p, p->at, "a condition is missing behind 'if'");
	return spec_parse_filter(p, (struct spec_span){p->at, strlen(p->at)}, true);
}

static int parse_items(struct spec_parser *p)
{
	int ret;

	do {
		p->at++; /* the colon, a comma */
		skip_blanks(p);
		ret = parse_item(p);
		if (ret)
			return ret;
		skip_blanks(p);
	} while (*p->at == ',');
	return 0;
}

/* --- a probe --------------------------------------------------------------------------------- */

/* Behind a text, \"like this", if it ends. */
static const char *behind_text(const char *at)
{
	const char *end = strpbrk(at + 2, "\" \t");

	return end && *end == '"' ? end + 1 : at + 2;
}

/* Where the items or the condition begin, or the text ends. */
static const char *definition_end(const struct spec_parser *p)
{
	const char *at = p->at;
	const char *next;

	for (; *at; at = next) {
		at += strcspn(at, " \t,\\");
		next = at + (*at ? 1 : 0);
		if (*at == ',')
			return at;
		if (*at == '\\') {
			next = at[1] == '"' ? behind_text(at) : next;
			continue;
		}
		next += strspn(next, " \t");
		if (*at && !strncmp(next, "if", 2) && next[2] && strchr(" \t", next[2]))
			return at;
	}
	return at;
}

/* What other tracers' specs begin with. */
static int check_beginning(const struct spec_parser *p)
{
	const char *from = p->at + strspn(p->at, " \t");
	const struct spec_span word = {from, strcspn(from, "=, \t")};
	bool is_item = at_hist(from) || find_word(p, word) >= 0;

	for (size_t i = 0; i < NR_KEYS; i++)
		is_item |= spec_span_is(word, keys[i].name);
	if (!is_item || !*word.from)
		return 0;
	return FAIL(p, from,
		    "a probe begins with its definition, as in %s:p vfs_read: '%.*s' stands "
		    "behind that",
		    p->grammar->tracer, (int)word.length, word.from);
}

static int parse_definition(struct spec_parser *p, const char *text)
{
	int ret;

	p->spec->probe = malloc(sizeof(*p->spec->probe));
	if (!p->spec->probe)
		return error_set(p->err, ENOMEM, "out of memory");
	p->spec->probe_from = (size_t)(p->at - p->text);
	ret = fetch_parse(text, p->spec->probe, p->err);
	if (ret && p->err->column)
		p->err->column += (unsigned int)p->spec->probe_from;
	return ret;
}

void trace_spec_place_in_probe(const struct trace_spec *spec, struct error *err)
{
	if (!err || !err->column)
		return;
	err->column += (unsigned int)spec->probe_from;
	error_prefix(err, SPEC_PLACE, err->column);
}

static int parse_probe(struct spec_parser *p)
{
	const char *end;
	char *text;
	int ret;

	if (*p->at != ':')
		return FAIL(p, p->at, "a definition is missing, as in %s:p vfs_read",
			    p->grammar->tracer);
	p->at++;
	ret = check_beginning(p);
	if (ret)
		return ret;
	end = definition_end(p);
	text = strndup(p->at, (size_t)(end - p->at));
	ret = text ? parse_definition(p, text) : error_set(p->err, ENOMEM, "out of memory");
	free(text);
	p->at = end;
	if (!ret && !p->spec->name[0])
		memcpy(p->spec->name, p->spec->probe->name, sizeof(p->spec->probe->name));
	return ret || *end != ',' ? ret : parse_items(p);
}

/* --- the beginning --------------------------------------------------------------------------- */

static bool is_name_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static int parse_name(struct spec_parser *p)
{
	size_t length = strcspn(p->at, "=:, \t"), i = 0;

	if (p->at[length] != '=')
		return 0;
	while (i < length && is_name_character(p->at[i]))
		i++;
	if (!length)
		return FAIL(p, p->at, "a name is missing in front of '='");
	if (i < length || !isalpha((unsigned char)*p->at))
		return FAIL(p, i < length ? p->at + i : p->at,
			    "a name has letters, digits, - and _, and begins with a letter");
	if (length >= TRACE_NAME_SIZE)
		return FAIL(p, p->at, "the name is longer than %d characters", TRACE_NAME_SIZE - 1);
	memcpy(p->spec->name, p->at, length);
	p->at += length + 1;
	return 0;
}

static int parse_tracer(struct spec_parser *p)
{
	struct spec_span word = {p->at, strcspn(p->at, "=:, \t")};
	const char *names[MAX_NAMES + 1] = {0};

	if (!word.length)
		return FAIL(p, p->at, "the name of a tracer is missing");
	for (size_t i = 0; i < p->nr_grammars && i < MAX_NAMES; i++) {
		names[i] = p->grammars[i].tracer;
		if (spec_span_is(word, names[i])) {
			p->grammar = &p->grammars[i];
			p->spec->tracer = i;
		}
	}
	if (!p->grammar)
		return spec_unknown_tracer(p, word, names);
	p->at += word.length;
	if (!p->spec->name[0] && !(p->grammar->takes & TRACE_TAKES_PROBE))
		snprintf(p->spec->name, TRACE_NAME_SIZE, "%s", p->grammar->tracer);
	if (*p->at == ',' || *p->at == '=')
		return FAIL(p, p->at, "':' must follow the tracer, as in %s:%.60s",
			    p->grammar->tracer, p->at[1] ? p->at + 1 : "ITEM,ITEM");
	return 0;
}

static int parse_all(struct spec_parser *p)
{
	int ret;

	if (strlen(p->text) > TRACE_SPEC_TEXT_MAX)
		return FAIL(p, p->text, "longer than %d characters", TRACE_SPEC_TEXT_MAX);
	skip_blanks(p);
	ret = parse_name(p);
	if (!ret)
		ret = parse_tracer(p);
	if (!ret && p->grammar->takes & TRACE_TAKES_PROBE)
		ret = parse_probe(p);
	else if (!ret && *p->at == ':')
		ret = parse_items(p);
	if (ret)
		return ret;
	skip_blanks(p);
	if (!*p->at)
		return 0;
	return at_condition(p) ? parse_condition(p)
			       : FAIL(p, p->at, "',' or 'if' is missing in front of this");
}

int trace_spec_parse(const char *text, const struct trace_grammar *grammars, size_t nr_grammars,
		     struct trace_spec *out, struct error *err)
{
	struct error local = {0};
	struct spec_parser p = {.text = text,
				.at = text,
				.grammars = grammars,
				.nr_grammars = nr_grammars,
				.spec = out,
				.err = &local};
	int ret;

	*out = (struct trace_spec){.text = strdup(text), .vcpus = UINT64_MAX};
	ret = out->text ? parse_all(&p) : error_set(&local, ENOMEM, "out of memory");
	if (!ret)
		return 0;
	if (local.column && !(out->filter_text && !out->filter))
		error_prefix(&local, SPEC_PLACE, local.column);
	if (err)
		*err = local;
	trace_spec_deinit(out);
	return ret;
}

void trace_spec_deinit(struct trace_spec *spec)
{
	function_patterns_deinit(&spec->functions);
	event_filter_destroy(spec->filter);
	free(spec->filter_text);
	free(spec->probe);
	free(spec->hist);
	free(spec->text);
	*spec = (struct trace_spec){0};
}

/* A spec without the name in front. */
static const char *unnamed(const struct trace_spec *spec)
{
	const char *behind = spec->text + strlen(spec->name);

	return !strncmp(spec->text, spec->name, strlen(spec->name)) && *behind == '=' ? behind + 1
										      : spec->text;
}

int trace_specs_check_names(const struct trace_spec *specs, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (!strcmp(specs[i].name, specs[k].name))
				return error_set(err, EEXIST,
						 "two instances are named '%s': give one another "
						 "name, as in NAME=%s",
						 specs[i].name, unnamed(&specs[i]));
		}
	}
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parser of trace specs: one pass, item by item. */
#include "patcher/tracers/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

enum { MAX_NAMES = 40 };

struct parser {
	const char *text, *at;
	const struct trace_grammar *grammar; /* once the tracer is known */
	struct trace_spec *spec;
	struct error *err; /* never NULL */
};

/* A part of the text. */
struct span {
	const char *from;
	size_t length;
};

#define FAIL(p, place, ...) \
	error_set_column((p)->err, EINVAL, (unsigned int)((place) - (p)->text) + 1, __VA_ARGS__)

static void skip_blanks(struct parser *p)
{
	p->at += strspn(p->at, " \t");
}

static bool span_is(struct span span, const char *word)
{
	return strlen(word) == span.length && !memcmp(span.from, word, span.length);
}

/* "unknown WHAT 'WORD': did you mean ...?" */
static int unknown(const struct parser *p, const char *what, struct span word,
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

/* --- numbers --------------------------------------------------------------------------------- */

static int parse_number(struct parser *p, uint32_t max, uint32_t *out)
{
	const char *from = p->at;
	uint64_t value = 0;

	for (; isdigit((unsigned char)*p->at) && value <= max; p->at++)
		value = 10 * value + (uint64_t)(*p->at - '0');
	if (p->at == from)
		return FAIL(p, from, "a number is missing");
	if (value > max)
		return FAIL(p, from, "the number is above %u", max);
	*out = (uint32_t)value;
	return 0;
}

static int add_pid(struct trace_spec *spec, uint32_t pid)
{
	size_t i = 0;

	while (i < spec->nr_pids && spec->pids[i] < pid)
		i++;
	if (i < spec->nr_pids && spec->pids[i] == pid)
		return 0;
	if (spec->nr_pids == TRACE_SPEC_MAX_PIDS)
		return -E2BIG;
	memmove(spec->pids + i + 1, spec->pids + i, (spec->nr_pids - i) * sizeof(*spec->pids));
	spec->pids[i] = pid;
	spec->nr_pids++;
	return 0;
}

static int parse_pid(struct parser *p)
{
	const char *from = p->at;
	uint32_t pid;
	int ret = parse_number(p, INT32_MAX, &pid);

	if (!ret && add_pid(p->spec, pid))
		ret = FAIL(p, from, "more than %d pids", TRACE_SPEC_MAX_PIDS);
	return ret;
}

/* "N" or "N-M" */
static int parse_vcpus(struct parser *p)
{
	const char *from = p->at;
	uint32_t first, last;
	int ret = parse_number(p, TRACE_SPEC_MAX_VCPUS - 1, &first);

	last = first;
	if (!ret && *p->at == '-') {
		p->at++;
		ret = parse_number(p, TRACE_SPEC_MAX_VCPUS - 1, &last);
	}
	if (ret)
		return ret;
	if (last < first)
		return FAIL(p, from, "the range ends before it begins");
	for (; first <= last; first++)
		p->spec->vcpus |= UINT64_C(1) << first;
	return 0;
}

/* Several of them, joined by +. */
static int parse_joined(struct parser *p, int (*parse)(struct parser *p))
{
	int ret = parse(p);

	while (!ret && *p->at == '+') {
		p->at++;
		ret = parse(p);
	}
	if (!ret && *p->at && !strchr(", \t", *p->at))
		ret = FAIL(p, p->at, "join numbers with '+', as in pid=1+2");
	return ret;
}

static int take_pids(struct parser *p)
{
	return parse_joined(p, parse_pid);
}

static int take_vcpus(struct parser *p)
{
	if (p->spec->vcpus == UINT64_MAX)
		p->spec->vcpus = 0;
	return parse_joined(p, parse_vcpus);
}

/* --- quoted text and filters ----------------------------------------------------------------- */

/* The text of a span without its quotes, if it has any, and without backslashes. */
static char *unquote(struct span span)
{
	bool quoted = span.length && (*span.from == '"' || *span.from == '\'');
	char *out = malloc(span.length + 1);
	size_t n = 0;

	for (size_t i = quoted; out && i + quoted < span.length; i++) {
		i += span.from[i] == '\\' && i + quoted + 1 < span.length;
		out[n++] = span.from[i];
	}
	if (out)
		out[n] = '\0';
	return out;
}

/* Behind the quoted string that begins at `from`; NULL if it does not end. */
static const char *behind_quoted(const char *from)
{
	const char quote = *from;

	for (from++; *from && *from != quote; from++)
		from += *from == '\\' && from[1];
	return *from ? from + 1 : NULL;
}

/* The column in the spec of character `n`, from 1, of what unquote() made of a span. */
static unsigned int column_of(const struct parser *p, struct span span, unsigned int n)
{
	bool quoted = *span.from == '"' || *span.from == '\'';
	const char *at = span.from + quoted;

	for (; n > 1 && at < span.from + span.length; n--)
		at += *at == '\\' ? 2 : 1;
	return (unsigned int)(at - p->text) + 1;
}

static int parse_filter(struct parser *p, struct span span, bool literally)
{
	struct error *err = p->err;
	int ret;

	if (p->spec->filter)
		return FAIL(p, span.from, "there is a filter already: join the conditions with &&");
	p->spec->filter_text = literally ? strndup(span.from, span.length) : unquote(span);
	if (!p->spec->filter_text)
		return error_set(err, ENOMEM, "out of memory");
	ret = event_filter_parse(p->spec->filter_text, &p->spec->filter, err);
	if (ret && err->column)
		err->column = literally ? (unsigned int)(span.from - p->text) + err->column
					: column_of(p, span, err->column);
	return ret;
}

/* Up to the next comma outside quotes; or all of it is quoted. */
static int take_filter(struct parser *p)
{
	const char *from = p->at, *end;

	if (*from == '"' || *from == '\'') {
		p->at = behind_quoted(from);
		if (!p->at)
			return FAIL(p, from, "the string has no closing quote");
		return parse_filter(p, (struct span){from, (size_t)(p->at - from)}, false);
	}
	for (end = from; *end && *end != ',';) {
		end = *end == '"' || *end == '\'' ? behind_quoted(end) : end + 1;
		if (!end) {
			end = from + strlen(from); /* the filter's parser says which quote */
			break;
		}
	}
	p->at = end;
	return parse_filter(p, (struct span){from, (size_t)(end - from)}, true);
}

/* --- items ----------------------------------------------------------------------------------- */

static const struct key {
	const char *name;
	enum trace_takes takes;
	int (*take)(struct parser *p);
} keys[] = {
	{"pid", TRACE_TAKES_PIDS, take_pids},
	{"vcpu", TRACE_TAKES_VCPUS, take_vcpus},
	{"cpu", TRACE_TAKES_VCPUS, take_vcpus},
	{"filter", TRACE_TAKES_FILTER, take_filter},
};

enum { NR_KEYS = sizeof(keys) / sizeof(keys[0]) };

static int refuse(const struct parser *p, const char *place, const char *what)
{
	return FAIL(p, place, "the %s tracer takes no %s", p->grammar->tracer, what);
}

static int parse_key(struct parser *p, struct span name)
{
	const char *known[NR_KEYS + 1] = {0};
	size_t n = 0;

	for (size_t i = 0; i < NR_KEYS; i++) {
		bool takes = p->grammar->takes & keys[i].takes;

		if (span_is(name, keys[i].name)) {
			if (!takes)
				return refuse(p, name.from, keys[i].name);
			p->at += name.length + 1;
			return keys[i].take(p);
		}
		if (takes)
			known[n++] = keys[i].name;
	}
	if (!n)
		return FAIL(p, name.from, "the %s tracer takes no values: '=' is for NAME=%s",
			    p->grammar->tracer, p->grammar->tracer);
	return unknown(p, "option", name, known);
}

static int add_file(struct parser *p, struct span item)
{
	char *path = unquote((struct span){item.from + 1, item.length - 1});
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

static int add_pattern(struct parser *p, struct span item)
{
	int ret = function_patterns_add(&p->spec->functions, item.from, item.length, p->err);

	if (ret && p->err->column)
		p->err->column += (unsigned int)(item.from - p->text);
	return ret;
}

static int add_word(struct parser *p, struct span item)
{
	static const char *const none[] = {NULL};
	const char *const *words = p->grammar->words ? p->grammar->words : none;

	for (size_t i = 0; words[i]; i++) {
		if (span_is(item, words[i])) {
			p->spec->words |= UINT32_C(1) << i;
			return 0;
		}
	}
	if (p->grammar->takes & TRACE_TAKES_FUNCTIONS)
		return add_pattern(p, item);
	if (!*words)
		return refuse(p, item.from, "items");
	return unknown(p, "item", item, words);
}

/* Up to a comma or blank that is in no quotes and behind no backslash. */
static int scan_item(struct parser *p, struct span *out)
{
	const char *end = p->at;

	while (*end && !strchr(", \t", *end)) {
		if (*end == '"' || *end == '\'')
			end = behind_quoted(end);
		else
			end += *end == '\\' && end[1] ? 2 : 1;
		if (!end)
			return FAIL(p, p->at, "the item has no closing quote");
	}
	*out = (struct span){p->at, (size_t)(end - p->at)};
	return out->length ? 0 : FAIL(p, p->at, "an item is missing");
}

static int parse_item(struct parser *p)
{
	size_t name = strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
	struct span item = {0};
	int ret;

	if (name && p->at[name] == '=')
		return parse_key(p, (struct span){p->at, name});
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

static bool at_condition(const struct parser *p)
{
	return !strncmp(p->at, "if", 2) && (!p->at[2] || strchr(" \t", p->at[2]));
}

static int parse_condition(struct parser *p)
{
	const char *word = p->at;

	if (!(p->grammar->takes & TRACE_TAKES_FILTER))
		return refuse(p, word, "filter");
	p->at += strlen("if");
	skip_blanks(p);
	if (!*p->at)
		return FAIL(p, p->at, "a condition is missing behind 'if'");
	return parse_filter(p, (struct span){p->at, strlen(p->at)}, true);
}

static int parse_items(struct parser *p)
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

/* --- the beginning --------------------------------------------------------------------------- */

static bool is_name_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static int parse_name(struct parser *p)
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

static int parse_tracer(struct parser *p, const struct trace_grammar *grammars, size_t n)
{
	struct span word = {p->at, strcspn(p->at, "=:, \t")};
	const char *names[MAX_NAMES + 1] = {0};

	if (!word.length)
		return FAIL(p, p->at, "the name of a tracer is missing");
	for (size_t i = 0; i < n && i < MAX_NAMES; i++) {
		names[i] = grammars[i].tracer;
		if (span_is(word, names[i])) {
			p->grammar = &grammars[i];
			p->spec->tracer = i;
		}
	}
	if (!p->grammar)
		return unknown(p, "tracer", word, names);
	p->at += word.length;
	if (!p->spec->name[0])
		snprintf(p->spec->name, TRACE_NAME_SIZE, "%s", p->grammar->tracer);
	if (*p->at == ',' || *p->at == '=')
		return FAIL(p, p->at, "':' must follow the tracer, as in %s:ITEM,ITEM",
			    p->grammar->tracer);
	return 0;
}

static int parse_all(struct parser *p, const struct trace_grammar *grammars, size_t n)
{
	int ret;

	if (strlen(p->text) > TRACE_SPEC_TEXT_MAX)
		return FAIL(p, p->text, "longer than %d characters", TRACE_SPEC_TEXT_MAX);
	skip_blanks(p);
	ret = parse_name(p);
	if (!ret)
		ret = parse_tracer(p, grammars, n);
	if (!ret && *p->at == ':')
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
	struct parser p = {.text = text, .at = text, .spec = out, .err = &local};
	int ret;

	*out = (struct trace_spec){.text = strdup(text), .vcpus = UINT64_MAX};
	ret = out->text ? parse_all(&p, grammars, nr_grammars)
			: error_set(&local, ENOMEM, "out of memory");
	if (!ret)
		return 0;
	if (local.column && !(out->filter_text && !out->filter))
		error_prefix(&local, "trace spec, character %u: ", local.column);
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

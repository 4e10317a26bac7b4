/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Values in trace specs: numbers, quoted text, filters. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/spec-internal.h"

/* --- numbers --------------------------------------------------------------------------------- */

int spec_parse_number(struct spec_parser *p, uint32_t max, uint32_t *out)
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

static int parse_pid(struct spec_parser *p)
{
	const char *from = p->at;
	uint32_t pid;
	int ret = spec_parse_number(p, INT32_MAX, &pid);

	if (!ret && add_pid(p->spec, pid))
		ret = FAIL(p, from, "more than %d pids", TRACE_SPEC_MAX_PIDS);
	return ret;
}

/* "N" or "N-M" */
static int parse_vcpus(struct spec_parser *p)
{
	const char *from = p->at;
	uint32_t first, last;
	int ret = spec_parse_number(p, TRACE_SPEC_MAX_VCPUS - 1, &first);

	last = first;
	if (!ret && *p->at == '-') {
		p->at++;
		ret = spec_parse_number(p, TRACE_SPEC_MAX_VCPUS - 1, &last);
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
static int parse_joined(struct spec_parser *p, int (*parse)(struct spec_parser *p))
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

static unsigned int column_of(const struct spec_parser *p)
{
	return (unsigned int)(p->at - p->text) + 1;
}

int spec_take_pids(struct spec_parser *p)
{
	p->spec->pids_column = column_of(p);
	return parse_joined(p, parse_pid);
}

int spec_take_vcpus(struct spec_parser *p)
{
	p->spec->vcpus_column = column_of(p);
	if (p->spec->vcpus == UINT64_MAX)
		p->spec->vcpus = 0;
	return parse_joined(p, parse_vcpus);
}

/* --- quoted text and filters ----------------------------------------------------------------- */

bool spec_is_quote(char c)
{
	return c && strchr("\"'", c);
}

/* The text of a span without its quotes, if it has any, and without backslashes. */
char *spec_unquote(struct spec_span span)
{
	bool quoted = span.length && spec_is_quote(*span.from);
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
const char *spec_behind_quoted(const char *from)
{
	const char quote = *from;

	for (from++; *from && *from != quote; from++)
		from += *from == '\\' && from[1];
	return *from ? from + 1 : NULL;
}

/* As spec_unquote() has read it. */
unsigned int trace_spec_filter_column(const struct trace_spec *spec, unsigned int column)
{
	const char *from = spec->text + spec->filter_place.from;
	const char *at = from + spec_is_quote(*from);

	if (!spec->filter_place.escaped)
		return (unsigned int)spec->filter_place.from + column;
	for (; column > 1 && at < from + spec->filter_place.length; column--)
		at += *at == '\\' ? 2 : 1;
	return (unsigned int)(at - spec->text) + 1;
}

int trace_spec_check_filter(const struct trace_spec *spec, const struct event_class *class,
			    const struct event_names *names, struct error *err)
{
	struct event_predicate *predicate = NULL;
	int ret = spec->filter ? event_filter_bind(spec->filter, class, names, &predicate, err) : 0;

	event_predicate_destroy(predicate);
	if (ret && err && err->column)
		err->column = trace_spec_filter_column(spec, err->column);
	return ret;
}

int spec_parse_filter(struct spec_parser *p, struct spec_span span, bool literally)
{
	struct error *err = p->err;
	int ret;

	if (p->spec->filter)
		return FAIL(p, span.from, "there is a filter already: join the conditions with &&");
	p->spec->filter_text = literally ? strndup(span.from, span.length) : spec_unquote(span);
	if (!p->spec->filter_text)
		return error_set(err, ENOMEM, "out of memory");
	p->spec->filter_place.from = (size_t)(span.from - p->text);
	p->spec->filter_place.length = span.length;
	p->spec->filter_place.escaped = !literally;
	ret = event_filter_parse(p->spec->filter_text, &p->spec->filter, err);
	if (ret && err->column)
		err->column = trace_spec_filter_column(p->spec, err->column);
	return ret;
}

/* Behind a quoted string or a set in braces, which have no escapes; to the end if it does not end.
 */
static const char *behind_group(const char *from)
{
	const char *end = strchr(from + 1, *from == '{' ? '}' : *from);

	return end ? end + 1 : from + strlen(from);
}

/* Up to the next comma outside quotes and braces; or all of it is quoted. */
int spec_take_filter(struct spec_parser *p)
{
	const char *from = p->at, *end;

	if (spec_is_quote(*from)) {
		p->at = spec_behind_quoted(from);
		if (!p->at)
			return FAIL(p, from, "the string has no closing quote");
		return spec_parse_filter(p, (struct spec_span){from, (size_t)(p->at - from)},
					 false);
	}
	for (end = from; *end && *end != ',';)
		end = strchr("\"'{", *end) ? behind_group(end) : end + 1;
	p->at = end;
	return spec_parse_filter(p, (struct spec_span){from, (size_t)(end - from)}, true);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON lines and CSV have all events, and no name breaks out of its place. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/event-lines.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

enum { MAX_CELLS = 64, LINE_BYTES = 4096 };

static struct scratch dir;
static char trace[128];

static void append(char *line, const char *text)
{
	snprintf(line + strlen(line), LINE_BYTES - strlen(line), "%s", text);
}

static void append_number(char *line, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, number);
	append(line, text);
}

static void append_address(char *line, const char *hex)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)strtoull(hex, NULL, 16));
	append(line, text);
}

/* A code address is "fn+0x10/0x100"; where it has no name, or is a function's, as it is. */
static void append_symbol(char *line, const char *text)
{
	const char *size = strrchr(text, '/');
	char cut[2 * EVENT_LONG_STRING_MAX];

	snprintf(cut, sizeof(cut), "%.*s",
		 size && !strcmp(size, "/0x100") ? (int)(size - text) : (int)strlen(text), text);
	append(line, cut);
}

static bool is_address(const char *name)
{
	return !strcmp(name, "ptr") || !strcmp(name, "mask");
}

static bool is_code(const char *name)
{
	return !strcmp(name, "ip") || !strcmp(name, "parent_ip") || !strcmp(name, "call_site");
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void append_json(char *line, const char *key, const json_t *value)
{
	const size_t length = strlen(key);
	const char *symbol = length > 7 ? key + length - 7 : "";
	char name[64];

	if (is_code(key))
		return;
	if (json_is_true(value)) {
		append(line, "..."); /* the string before it is cut */
		return;
	}
	snprintf(name, sizeof(name),
		 " %.*s=", (int)(strcmp(symbol, "_symbol") ? length : length - 7), key);
	append(line, name);
	if (json_is_integer(value))
		append_number(line, json_integer_value(value));
	else if (is_address(key))
		append_address(line, json_string_value(value));
	else
		append_symbol(line, json_string_value(value));
}

static bool is_head(const char *key)
{
	return !strcmp(key, "ns") || !strcmp(key, "vcpu") || !strcmp(key, "instance") ||
	       !strcmp(key, "event");
}

/* Its lines lack the name of an instance that is called as its tracer. */
static void take_json(struct event_lines *lines, const char *text)
{
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *value;
	const char *event = json_string_value(json_object_get(root, "event"));
	const char *instance = json_string_value(json_object_get(root, "instance"));
	char line[LINE_BYTES] = "", system[64] = "";
	const char *key;

	if (!root || !event)
		return;
	sscanf(event, "%63[^:]", system);
	json_object_foreach(root, key, value)
	{
		if (!is_head(key))
			append_json(line, key, value);
	}
	event_lines_add(lines, "%d %" PRId64 " %s %s%s",
			(int)json_integer_value(json_object_get(root, "vcpu")),
			(int64_t)json_integer_value(json_object_get(root, "ns")),
			instance ? instance : system, event, line);
	json_decref(root);
}

/* --- CSV ------------------------------------------------------------------------------------- */

/* Split a row in place, by RFC 4180. Returns the number of cells; *next is behind it. */
static size_t split_row(char *at, char *cells[MAX_CELLS], char **next)
{
	size_t n = 0;

	for (;;) {
		const bool quoted = *at == '"';
		char *to = at += quoted;

		cells[n++] = at;
		for (; *at && (quoted || (*at != ',' && *at != '\n')); at++) {
			if (quoted && *at == '"' && *++at != '"')
				break;
			*to++ = *at;
		}
		*next = *at ? at + 1 : at;
		if (*at != ',' || n == MAX_CELLS) {
			*to = '\0';
			return n;
		}
		*to = '\0';
		at++;
	}
}

static void append_cell(char *line, const char *name, const char *cell)
{
	char head[64];

	snprintf(head, sizeof(head), " %.*s=",
		 strstr(name, "_symbol") ? (int)(strstr(name, "_symbol") - name)
					 : (int)strlen(name),
		 name);
	append(line, head);
	if (is_address(name))
		append_address(line, cell);
	else
		append_symbol(line, cell);
}

static void take_csv(struct event_lines *lines, char *text)
{
	char *names[MAX_CELLS], *cells[MAX_CELLS];
	size_t n = split_row(text, names, &text);

	while (*text) {
		char line[LINE_BYTES] = "";
		size_t cells_n = split_row(text, cells, &text);

		if (cells_n != n)
			tap_diag("a row has %zu cells, the head %zu", cells_n, n);
		for (size_t i = 4; i < cells_n; i++)
			if (*cells[i] && !is_code(names[i]))
				append_cell(line, names[i], cells[i]);
		event_lines_add(lines, "%s %s %s %s%s", cells[1], cells[0], cells[2], cells[3],
				line);
	}
}

/* --- tests ----------------------------------------------------------------------------------- */

/* No cache is an empty cell, and columns are in the order of the first class that has them. */
static void as_columns(char *line)
{
	static const char none[] = " cache=-";
	char *cache, *rest;
	char *ids = strstr(line, " event_id="), *other = ids ? strstr(ids, " call_site") : NULL;
	char text[64];

	if (other) {
		snprintf(text, sizeof(text), "%.*s", (int)(other - ids), ids);
		memmove(ids, other, strlen(other) + 1);
		memcpy(ids + strlen(ids), text, strlen(text) + 1);
	}
	cache = strstr(line, none);
	rest = cache ? cache + strlen(none) : NULL;
	if (cache && (*rest == ' ' || !*rest))
		memmove(cache, rest, strlen(rest) + 1);
}

static char *convert(const char *format)
{
	char file[160];
	size_t size;

	snprintf(file, sizeof(file), "%s/%s", dir.path, format);
	export_make_convert(trace, format, file, NULL);
	return file_get(dir.path, format, &size);
}

static void test_jsonl(void)
{
	struct event_lines got = {0}, want = {0};
	char *text = convert("jsonl");
	char *count;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		take_json(&got, line);
	event_lines_of_trace(&want, trace);
	event_lines_compare(&got, &want, "a reader of JSON");
	free(text);
	if (!tool_exists("jq")) {
		tap_skip("jq reads the events", "jq is not installed");
		return;
	}
	tool_run(&count, "jq -s length '%s/jsonl'", dir.path);
	is_u64(strtoul(count, NULL, 10), EXPORT_MAKE_EVENTS, "jq reads the events");
	free(count);
}

static void test_csv(void)
{
	struct event_lines got = {0}, want = {0};
	char *text = convert("csv");

	ok(strstr(text, "ns,vcpu,instance,event,call_site,call_site_symbol,ptr,bytes_req") == text,
	   "the first row names the columns");
	ok(!strstr(text, "\n=") && !strstr(text, ",="), "no cell begins with a formula");
	ok(strstr(text, ",\"'=1+1\","), "a text that is one is made a text");
	take_csv(&got, text);
	for (size_t i = 0; i < got.n; i++) {
		char *made = strstr(got.at[i], "='=1+1");

		if (made)
			memmove(made + 1, made + 2, strlen(made + 1));
	}
	event_lines_of_trace(&want, trace);
	for (size_t i = 0; i < want.n; i++)
		as_columns(want.at[i]);
	event_lines_compare(&got, &want, "a reader of CSV");
	free(text);
}

int main(void)
{
	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	export_make(trace);
	test_jsonl();
	test_csv();
	scratch_remove(&dir);
	return tap_done();
}

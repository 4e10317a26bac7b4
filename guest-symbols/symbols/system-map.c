/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "guest-symbols/symbols/symbol-table.h"

/* Of symbols in a section that is empty, and so not loaded: __nosave_begin, if nothing is there. */
#define UNKNOWN_TYPE '?'

/* A line of System.map is what nm(1) prints: "ffffffff81000000 T _text". */
struct map_line {
	uint64_t address;
	char type;
	const char *name;
	size_t length;
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_line(const char *p, const char *end, struct map_line *out)
{
	const char *start = p;

	*out = (struct map_line){0};
	while (p < end && digit(*p) >= 0)
		out->address = out->address << 4 | (uint64_t)digit(*p++);
	if (p == start || p - start > 16 || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return false;
	out->type = p[1];
	out->name = p + 3;
	out->length = (size_t)(end - out->name);
	for (size_t i = 0; i < out->length; i++)
		if (!isgraph((unsigned char)out->name[i]))
			return false;
	return isalpha((unsigned char)out->type) || out->type == UNKNOWN_TYPE;
}

static int read_lines(const char *text, size_t size, struct symbol_builder *builder,
		      struct error *err)
{
	for (const char *p = text, *end = text + size, *eol; p < end; p = eol + 1) {
		struct map_line line;
		char *name;

		eol = memchr(p, '\n', (size_t)(end - p));
		if (!eol)
			eol = end;
		if (eol == p)
			continue;
		if (!parse_line(p, eol, &line))
			return error_set_at(err, EBADMSG, (uint64_t)(p - text),
					    "not a line of a System.map");
		name = symbol_builder_add(builder, line.address, 0, line.type, line.length);
		if (!name)
			return error_set(err, EBADMSG, "System.map is inconsistent");
		memcpy(name, line.name, line.length);
	}
	return 0;
}

int symbols_from_system_map(const char *text, size_t size, struct symbol_table **out,
			    struct error *err)
{
	struct symbol_builder builder;
	size_t lines = 1;
	int ret;

	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	ret = symbol_builder_init(&builder, lines, size + 1, err);
	if (ret)
		return ret;
	ret = read_lines(text, size, &builder, err);
	if (ret) {
		symbol_builder_deinit(&builder);
		return ret;
	}
	return symbol_builder_finish(&builder, out, err);
}

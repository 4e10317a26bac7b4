/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/parts.h"

#include <stdarg.h>
#include <string.h>
#include "formats/report/table.h"

enum { NAME_MIN = 20, USUAL_WIDTH = 132 };

void line_wrap(FILE *out, size_t used, size_t indent, const char *text)
{
	const size_t width = terminal_width(out);
	bool is_first = true;

	for (size_t size; *text; text += size) {
		size_t blanks = strspn(text, " ");

		size = blanks + strcspn(text + blanks, " ");
		if (width && !is_first && used + text_width(text, size) > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			used = indent;
			text += blanks;
			size -= blanks;
		}
		fprintf(out, "%.*s", (int)size, text);
		used += text_width(text, size);
		is_first = false;
	}
	fputc('\n', out);
}

void line_print(FILE *out, int indent, const char *label, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(out, "%-*s", indent, label);
	line_wrap(out, (size_t)indent, (size_t)indent, text);
}

void line_print_name(FILE *out, const char *begin, const char *name, const char *end)
{
	size_t width = terminal_width(out), used = strlen(begin) + strlen(end);
	size_t room = width > used ? width - used : 0;

	room = room < NAME_MIN ? NAME_MIN : room;
	fprintf(out, "%s%s%s\n", begin, width ? name_cut(name, room).s : name, end);
}

void line_begin_items(struct line_items *line, FILE *out, const char *begin)
{
	size_t width = terminal_width(out);

	*line = (struct line_items){.out = out, .width = width ? width : USUAL_WIDTH};
	line->is_terminal = width;
	line->used = strlen(begin);
	fputs(begin, out);
}

void line_add_item(struct line_items *line, const char *name, const char *end)
{
	const size_t used = line->used + strlen(": ") + strlen(end);
	size_t room = line->width > used ? line->width - used : 0;

	if (room < strlen(name) && (line->n || (line->is_terminal && room < NAME_MIN))) {
		line->used = line->width; /* what is listed are the greatest */
		return;
	}
	fprintf(line->out, "%s%s%s", line->n++ ? ", " : ": ",
		line->is_terminal ? name_cut(name, room).s : name, end);
	line->used = used + (strlen(name) < room ? strlen(name) : room);
}

void parts_add(struct parts *parts, const char *fmt, ...)
{
	va_list ap;

	if (parts->n == PARTS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(parts->all[parts->n].s, sizeof(parts->all[parts->n].s), fmt, ap);
	va_end(ap);
	parts->n++;
}

void parts_print(const struct parts *parts, FILE *out, const char *label, int indent)
{
	const size_t width = terminal_width(out);
	size_t used = (size_t)indent;

	fprintf(out, "%-*s", indent, label);
	for (size_t i = 0; i < parts->n; i++) {
		const char *part = parts->all[i].s, *comma = i + 1 < parts->n ? "," : "";
		const size_t size = text_width(part, strlen(part)) + strlen(comma);

		if (i && width && used + 1 + size > width) {
			fprintf(out, "\n%*s", indent, "");
			used = (size_t)indent;
		} else if (i) {
			fputc(' ', out);
			used++;
		}
		fprintf(out, "%s%s", part, comma);
		used += size;
	}
	fputc('\n', out);
}

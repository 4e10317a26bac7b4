/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/table.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include "formats/base/budget.h"
#include "formats/cli/cli.h"

enum { WIDE = 100, MAX_COLUMNS = 24, GAP = 2, NAME_MIN = 24, NAME_LEAST = 16 };

struct table {
	bool failed;
	size_t nr_columns, nr_needed;
	bool is_name[MAX_COLUMNS];
	size_t nr_cells, room;
	char **cells; /* the titles first */
};

struct table *table_create(void)
{
	return calloc(1, sizeof(struct table));
}

void table_destroy(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->nr_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

void table_add_column(struct table *table, const char *title, bool is_name)
{
	if (table->nr_columns == MAX_COLUMNS)
		return;
	table->is_name[table->nr_columns++] = is_name;
	table_add_cell(table, title);
}

void table_need_columns(struct table *table)
{
	table->nr_needed = table->nr_columns;
}

void table_add_cell(struct table *table, const char *text)
{
	char *copy = strdup(text);

	if (!copy ||
	    !array_grow(&table->cells, sizeof(*table->cells), table->nr_cells, &table->room)) {
		free(copy);
		table->failed = true;
		return;
	}
	table->cells[table->nr_cells++] = copy;
}

size_t text_width(const char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

static size_t width_of(const char *text)
{
	return text_width(text, strlen(text));
}

size_t terminal_width(FILE *out)
{
	struct winsize size;

	if (ioctl(fileno(out), TIOCGWINSZ, &size) || !size.ws_col)
		return 0;
	return size.ws_col;
}

bool terminal_is_narrow(FILE *out)
{
	const size_t width = terminal_width(out);

	return width && width < WIDE;
}

size_t terminal_height(FILE *out)
{
	struct winsize size;

	return ioctl(fileno(out), TIOCGWINSZ, &size) ? 0 : size.ws_row;
}

struct layout {
	size_t widths[MAX_COLUMNS], nr_columns;
};

static size_t total_width(const struct layout *layout)
{
	size_t sum = 0;

	for (size_t i = 0; i < layout->nr_columns; i++)
		sum += layout->widths[i] + (i ? GAP : 0);
	return sum;
}

/* Names give way first, down to a width in which a function is still recognised. */
static void narrow_names(const struct table *table, struct layout *layout, size_t width,
			 size_t least)
{
	for (size_t i = 0; i < layout->nr_columns; i++) {
		size_t total = total_width(layout), *name = &layout->widths[i];

		if (!table->is_name[i] || total <= width || *name <= least)
			continue;
		*name -= total - width < *name - least ? total - width : *name - least;
	}
}

/* Narrow, and then without the last columns, but for those `needed`. */
static struct layout make_fit(const struct table *table, struct layout natural, size_t width,
			      size_t least, size_t needed)
{
	struct layout layout = natural;

	narrow_names(table, &layout, width, least);
	while (total_width(&layout) > width && layout.nr_columns > needed) {
		natural.nr_columns--;
		layout = natural;
		narrow_names(table, &layout, width, least);
	}
	return layout;
}

static struct layout lay_out(const struct table *table, size_t width)
{
	const size_t needed = table->nr_needed > 2 ? table->nr_needed : 2;
	struct layout natural = {.nr_columns = table->nr_columns}, layout;

	for (size_t i = 0; i < table->nr_cells; i++) {
		size_t *most = &natural.widths[i % table->nr_columns],
		       n = width_of(table->cells[i]);

		*most = n > *most ? n : *most;
	}
	if (!width)
		return natural;
	layout = make_fit(table, natural, width, NAME_MIN, needed);
	if (total_width(&layout) <= width)
		return layout;
	natural.nr_columns = layout.nr_columns;
	return make_fit(table, natural, width, NAME_LEAST, 2);
}

/* Where the offset of a call site begins, "+0x3f/0xd0"; NULL: it is none. */
static char *offset_in(struct text *name)
{
	char *offset = strstr(name->s, "+0x");

	return offset && isxdigit((unsigned char)offset[3]) ? offset : NULL;
}

static size_t offset_size(const char *offset)
{
	return 3 + strspn(offset + 3, "0123456789abcdef");
}

static void drop_size(char *offset)
{
	char *size = offset + offset_size(offset);

	if (!strncmp(size, "/0x", 3))
		memmove(size, size + offset_size(size), strlen(size + offset_size(size)) + 1);
}

static void end_by_dots(struct text *name, size_t width)
{
	enum { DOTS = 2 };

	for (size_t i = width < DOTS ? 0 : width - DOTS; i < width; i++)
		name->s[i] = '.';
}

static void cut_to(struct text *name, size_t width)
{
	enum { FUNCTION_MIN = 10, DETAIL_MIN = 8 };
	char *offset = offset_in(name);
	size_t size, end;

	if (offset)
		drop_size(offset);
	if (width_of(name->s) <= width)
		return;
	size = offset ? offset_size(offset) : 0;
	end = offset ? (size_t)(offset - name->s) + size : 0;
	if (end > width && width >= FUNCTION_MIN + size) {
		memmove(name->s + width - size, offset, size);
		end_by_dots(name, width - size);
	} else if (end && end <= width && end + DETAIL_MIN > width) {
		width = end;
	} else {
		end_by_dots(name, width);
	}
	name->s[width] = '\0';
}

struct text name_cut(const char *name, size_t width)
{
	static const char mark[] = " *";
	struct text out;
	size_t length;

	snprintf(out.s, sizeof(out.s), "%s", name);
	length = strlen(out.s);
	width = width < sizeof(out.s) ? width : sizeof(out.s) - 1;
	if (width_of(name) <= width)
		return out;
	if (length < sizeof(mark) || width < sizeof(mark) ||
	    strcmp(out.s + length - strlen(mark), mark) != 0) {
		cut_to(&out, width);
		return out;
	}
	out.s[length - strlen(mark)] = '\0';
	cut_to(&out, width - strlen(mark));
	strcat(out.s, mark);
	return out;
}

static void print_name(const char *name, size_t width, FILE *out)
{
	const size_t has = width_of(name);

	fprintf(out, "%s%*s", name, has < width ? (int)(width - has) : 0, "");
}

static void print_cell(const struct table *table, const struct layout *layout, size_t column,
		       const char *text, FILE *out)
{
	size_t width = layout->widths[column], has = width_of(text);
	bool is_last = column + 1 == layout->nr_columns;

	if (column)
		fprintf(out, "%*s", GAP, "");
	if (!table->is_name[column])
		fprintf(out, "%*s%s", (int)(width - has), "", text);
	else
		print_name(has > width ? name_cut(text, width).s : text, is_last ? 0 : width, out);
}

int table_print(const struct table *table, FILE *out)
{
	bool colour = cli_colour(out);
	struct layout layout;

	if (table->failed)
		return -ENOMEM;
	layout = lay_out(table, terminal_width(out));
	for (size_t row = 0; row * table->nr_columns < table->nr_cells; row++) {
		const bool is_head = !row && colour;

		fputs(is_head ? "\033[1m" : "", out);
		for (size_t i = 0; i < layout.nr_columns; i++)
			print_cell(table, &layout, i, table->cells[row * table->nr_columns + i],
				   out);
		fputs(is_head ? "\033[0m\n" : "\n", out);
	}
	return 0;
}

/* --- sparklines ------------------------------------------------------------------------------ */

static bool has_utf8(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

struct sparkline sparkline(const uint64_t *values, size_t n)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const letters[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
	const char *const *marks = has_utf8() ? blocks : letters;
	struct sparkline line = {""};
	uint64_t most = 1;
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		most = values[i] > most ? values[i] : most;
	for (size_t i = 0; i < n && i < SPARKLINE_MAX; i++) {
		unsigned int height = (unsigned int)((double)values[i] / (double)most * 7 + 0.5);

		used += (size_t)snprintf(line.s + used, sizeof(line.s) - used, "%s", marks[height]);
	}
	return line;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/screen.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

enum { HEAD_LINES = 3, FOOT_LINES = 1, CELL = 12, CELLS = CELL * TOP_COLUMNS };

/* --- keys ------------------------------------------------------------------------------------ */

static void show_view(struct top_state *s, enum top_view view, size_t cursor)
{
	s->view = view;
	s->first = s->cursor = cursor;
}

static void type(struct top_state *s, int key)
{
	const size_t n = strlen(s->filter);

	if (key == TOP_KEY_ENTER || key == '\n' || key == '\r') {
		s->typing = false;
	} else if (key == TOP_KEY_ESCAPE) {
		s->typing = false;
		s->filter[0] = '\0';
	} else if (key == TOP_KEY_BACKSPACE) {
		s->filter[n ? n - 1 : 0] = '\0';
	} else if (key < TOP_KEY_UP && isprint(key) && n + 1 < sizeof(s->filter)) {
		s->filter[n] = (char)key;
		s->filter[n + 1] = '\0';
	}
	s->first = s->cursor = 0;
}

static size_t page_of(unsigned int lines)
{
	return lines > HEAD_LINES + FOOT_LINES ? lines - HEAD_LINES - FOOT_LINES : 1;
}

/* The row of the cursor; NULL: there is none. *nr_rows: of the table, as they are shown. */
static const struct top_row *row_at(const struct top_state *s, const struct top_model *model,
				    size_t *nr_rows)
{
	const struct top_table *table = &model->tables[s->view];
	const struct top_row **rows = top_table_sort(table, s->sort, s->filter, nr_rows);
	const struct top_row *row = rows && s->cursor < *nr_rows ? rows[s->cursor] : NULL;

	free(rows);
	return row;
}

/* Rows of call chains have several lines: the one with the cursor is the first one. */
static void scroll(struct top_state *s, const struct top_model *model, int key, unsigned int lines)
{
	const size_t page = s->view == TOP_STACKS ? 1 : page_of(lines);
	const bool by_page = key == TOP_KEY_PAGE_UP || key == TOP_KEY_PAGE_DOWN;
	const size_t step = by_page ? page : 1;
	size_t n;

	row_at(s, model, &n);
	if (key == TOP_KEY_DOWN || key == TOP_KEY_PAGE_DOWN)
		s->cursor += step;
	else
		s->cursor -= step < s->cursor ? step : s->cursor;
	if (s->cursor >= n)
		s->cursor = n ? n - 1 : 0;
	if (s->cursor < s->first)
		s->first = s->cursor;
	if (s->cursor - s->first >= page)
		s->first = s->cursor - page + 1;
}

/* True: the chains of the cursor's call site are wanted. */
static bool enter(struct top_state *s, struct top_model *model)
{
	size_t n;
	const struct top_row *row = s->view == TOP_SITES ? row_at(s, model, &n) : NULL;

	if (!row || s->help)
		return false;
	top_model_drill(model, &row->now);
	s->site = s->cursor;
	s->filter[0] = '\0';
	show_view(s, TOP_STACKS, 0);
	return true;
}

static void leave(struct top_state *s)
{
	if (s->help)
		s->help = false;
	else if (s->view == TOP_STACKS)
		show_view(s, TOP_SITES, s->site);
}

static void command(struct top_state *s, int key)
{
	switch (key) {
	case 'q':
		s->quit = true;
		break;
	case '\t':
		show_view(s, s->view < TOP_TABS ? (s->view + 1) % TOP_TABS : TOP_SITES, 0);
		break;
	case '1':
	case '2':
	case '3':
	case '4':
		show_view(s, (enum top_view)(key - '1'), 0);
		break;
	case 's':
	case TOP_KEY_RIGHT:
		s->sort = (s->sort + 1) % TOP_COLUMNS;
		break;
	case 'S':
	case TOP_KEY_LEFT:
		s->sort = (s->sort + TOP_COLUMNS - 1) % TOP_COLUMNS;
		break;
	case '/':
		s->typing = true;
		break;
	case ' ':
	case 'f':
		s->frozen = !s->frozen;
		break;
	case 'h':
	case '?':
		s->help = !s->help;
		break;
	case TOP_KEY_ESCAPE:
		leave(s);
		break;
	default:
		break;
	}
}

bool top_press(struct top_state *s, struct top_model *model, int key, unsigned int lines)
{
	if (s->typing)
		type(s, key);
	else if (key == TOP_KEY_ENTER || key == '\n' || key == '\r')
		return enter(s, model);
	else if (key >= TOP_KEY_UP && key <= TOP_KEY_PAGE_DOWN)
		scroll(s, model, key, lines);
	else
		command(s, key);
	return false;
}

/* --- drawing --------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void put(struct top_screen *screen, unsigned int line,
						      const char *format, ...)
{
	va_list args;

	if (line >= screen->lines)
		return;
	va_start(args, format);
	vsnprintf(screen->text[line], screen->columns + 1, format, args);
	va_end(args);
}

static void put_status(struct top_screen *screen, const struct top_model *model,
		       const struct top_state *s)
{
	const bool is_drilled = s->view == TOP_STACKS;
	const int tab = is_drilled ? TOP_SITES : (int)s->view;
	char views[128];
	size_t n = 0;

	for (int i = 0; i < TOP_TABS; i++)
		n += (size_t)snprintf(views + n, sizeof(views) - n,
				      tab == i ? "[%d %s] " : " %d %s  ", i + 1,
				      top_view_titles[i]);
	put(screen, 0, "sonde top  %s %s%s", views, s->frozen ? "frozen  " : "", s->notice);
	put(screen, 1, "%s%s%s  sorted by %s%s%s%s",
	    text_number(model->tables[s->view].n, is_drilled ? "call chain" : "row").s,
	    is_drilled ? " of " : "", is_drilled ? model->site_name : "",
	    top_column_titles[s->view][s->sort], s->filter[0] || s->typing ? "  filter: " : "",
	    s->filter, s->typing ? "_" : "");
}

static void put_titles(struct top_screen *screen, const struct top_state *s)
{
	char line[TOP_MAX_COLUMNS + 1];
	size_t n = 0;

	for (enum top_column c = 0; c < TOP_COLUMNS; c++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%*s%s", CELL - 1,
				      top_column_titles[s->view][c], c == s->sort ? "*" : " ");
	put(screen, HEAD_LINES - 1, "%s %s", line, s->view == TOP_STACKS ? " CHAIN" : "NAME");
	screen->heading = HEAD_LINES - 1;
}

/* The lines of a chain below each other, beside the numbers of its first one. */
static unsigned int put_chain(struct top_screen *screen, unsigned int line, const char *cells,
			      const char *chain)
{
	const char *frame;
	size_t length;

	for (bool first = true; (frame = top_chain_line(&chain, &length)); first = false)
		put(screen, line++, "%-*s  %.*s", CELLS, first ? cells : "", (int)length, frame);
	return line;
}

/* Returns the next line. */
static unsigned int put_row(struct top_screen *screen, unsigned int line, enum top_view view,
			    const struct top_row *row, bool has_rates, bool marked)
{
	char text[TOP_MAX_COLUMNS + 1], cell[32];
	size_t n = 0;

	for (enum top_column c = 0; c < TOP_COLUMNS; c++) {
		top_value_text(view, c, row, has_rates, cell, sizeof(cell));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%*s ", CELL - 1, cell);
	}
	if (row->now.chain)
		return put_chain(screen, line, text, row->now.chain);
	put(screen, line, "%s%c%s", text, marked ? '>' : ' ', row->now.name);
	return line + 1;
}

static int put_rows(struct top_screen *screen, const struct top_table *table,
		    const struct top_state *s)
{
	const bool has_cursor = s->view == TOP_SITES && !s->no_cursor;
	unsigned int line = HEAD_LINES;
	size_t n, cursor, first;
	const struct top_row **rows = top_table_sort(table, s->sort, s->filter, &n);

	if (!rows)
		return -ENOMEM;
	cursor = s->cursor < n ? s->cursor : n ? n - 1 : 0;
	first = s->first < cursor ? s->first : cursor;
	for (size_t i = first; i < n && line + FOOT_LINES < screen->lines; i++) {
		if (has_cursor && i == cursor)
			screen->cursor = line;
		line = put_row(screen, line, s->view, rows[i], table->has_rates,
			       has_cursor && i == cursor);
	}
	free(rows);
	return 0;
}

static void put_help(struct top_screen *screen)
{
	static const char *const lines[] = {
		"1 to 4, Tab    call sites, caches, functions, syscalls",
		"Enter          the call chains of the call site that is marked; Escape: back",
		"s, S           sort by the next column, by the one before",
		"/              show rows whose name contains what is typed; Escape: all",
		"space, f       freeze what is shown; again: go on",
		"arrows, pages  move and scroll",
		"h, ?           this help",
		"q              quit; the guest and its trace go on",
	};

	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put(screen, HEAD_LINES + i, "  %s", lines[i]);
}

static const char *footer(enum top_view view)
{
	return view == TOP_STACKS  ? "Esc back"
	       : view == TOP_SITES ? "Tab view  Enter chains"
				   : "Tab view";
}

int top_draw(struct top_screen *screen, const struct top_model *model,
	     const struct top_state *state, unsigned int lines, unsigned int columns)
{
	const struct top_table *table = &model->tables[state->view];
	int ret = 0;

	screen->lines = lines < TOP_MAX_LINES ? lines : TOP_MAX_LINES;
	screen->columns = columns < TOP_MAX_COLUMNS ? columns : TOP_MAX_COLUMNS;
	screen->heading = screen->cursor = 0;
	for (unsigned int i = 0; i < screen->lines; i++)
		screen->text[i][0] = '\0';
	put_status(screen, model, state);
	if (state->help) {
		put_help(screen);
	} else if (table->missing[0]) {
		put(screen, HEAD_LINES, "  %s", table->missing);
	} else {
		put_titles(screen, state);
		ret = put_rows(screen, table, state);
	}
	if (screen->lines)
		put(screen, screen->lines - 1, "%s  s sort  / filter  space freeze  h help  q quit",
		    footer(state->view));
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/screen.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

enum { HEAD_LINES = 3, FOOT_LINES = 1, CELL = 12 };

/* --- keys ------------------------------------------------------------------------------------ */

static void show_view(struct top_state *s, enum top_view view)
{
	s->view = view;
	s->first = 0;
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
	s->first = 0;
}

static void scroll(struct top_state *s, int key, unsigned int lines)
{
	const size_t page = lines > HEAD_LINES + FOOT_LINES ? lines - HEAD_LINES - FOOT_LINES : 1;
	const bool by_page = key == TOP_KEY_PAGE_UP || key == TOP_KEY_PAGE_DOWN;
	const size_t step = by_page ? page : 1;

	if (key == TOP_KEY_DOWN || key == TOP_KEY_PAGE_DOWN)
		s->first += step;
	else
		s->first -= step < s->first ? step : s->first;
}

static void command(struct top_state *s, int key)
{
	switch (key) {
	case 'q':
		s->quit = true;
		break;
	case '\t':
		show_view(s, (s->view + 1) % TOP_VIEWS);
		break;
	case '1':
	case '2':
	case '3':
		show_view(s, (enum top_view)(key - '1'));
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
	default:
		break;
	}
}

void top_press(struct top_state *s, int key, unsigned int lines)
{
	if (s->typing)
		type(s, key);
	else if (key >= TOP_KEY_UP && key <= TOP_KEY_PAGE_DOWN)
		scroll(s, key, lines);
	else
		command(s, key);
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
	char views[128];
	size_t n = 0;

	for (int i = 0; i < TOP_VIEWS; i++)
		n += (size_t)snprintf(views + n, sizeof(views) - n,
				      (int)s->view == i ? "[%d %s] " : " %d %s  ", i + 1,
				      top_view_titles[i]);
	put(screen, 0, "sonde top  %s %s%s", views, s->frozen ? "frozen  " : "", s->notice);
	put(screen, 1, "%s  sorted by %s%s%s%s", text_number(model->tables[s->view].n, "row").s,
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
	put(screen, HEAD_LINES - 1, "%s %s", line, "NAME");
	screen->heading = HEAD_LINES - 1;
}

static void put_row(struct top_screen *screen, unsigned int line, enum top_view view,
		    const struct top_row *row, bool has_rates)
{
	char text[TOP_MAX_COLUMNS + 1], cell[32];
	size_t n = 0;

	for (enum top_column c = 0; c < TOP_COLUMNS; c++) {
		top_value_text(view, c, row, has_rates, cell, sizeof(cell));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%*s ", CELL - 1, cell);
	}
	put(screen, line, "%s %s", text, row->now.name);
}

static int put_rows(struct top_screen *screen, const struct top_table *table,
		    const struct top_state *s)
{
	size_t n;
	const struct top_row **rows = top_table_sort(table, s->sort, s->filter, &n);
	const size_t first = s->first < n ? s->first : n ? n - 1 : 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = first; i < n && HEAD_LINES + (i - first) + FOOT_LINES < screen->lines; i++)
		put_row(screen, (unsigned int)(HEAD_LINES + i - first), s->view, rows[i],
			table->has_rates);
	free(rows);
	return 0;
}

static void put_help(struct top_screen *screen)
{
	static const char *const lines[] = {
		"1, 2, 3, Tab   call sites, caches, functions",
		"s, S           sort by the next column, by the one before",
		"/              show rows whose name contains what is typed; Escape: all",
		"space, f       freeze what is shown; again: go on",
		"arrows, pages  scroll",
		"h, ?           this help",
		"q              quit; the guest and its trace go on",
	};

	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put(screen, HEAD_LINES + i, "  %s", lines[i]);
}

int top_draw(struct top_screen *screen, const struct top_model *model,
	     const struct top_state *state, unsigned int lines, unsigned int columns)
{
	const struct top_table *table = &model->tables[state->view];
	int ret = 0;

	screen->lines = lines < TOP_MAX_LINES ? lines : TOP_MAX_LINES;
	screen->columns = columns < TOP_MAX_COLUMNS ? columns : TOP_MAX_COLUMNS;
	screen->heading = 0;
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
		put(screen, screen->lines - 1,
		    "Tab view  s sort  / filter  space freeze  h help  q quit");
	return ret;
}

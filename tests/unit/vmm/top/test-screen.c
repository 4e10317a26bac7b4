/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `sonde top` draws, into a buffer, and what keys do. */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/top/screen.h"

enum { LINES = 8, COLUMNS = 80, ROWS = 40 };

static struct top_model model;
static struct top_screen screen;

static void fill(void)
{
	static struct top_sample samples[ROWS];

	for (unsigned int i = 0; i < ROWS; i++) {
		samples[i] = (struct top_sample){
			.key = i, .total = 1000 - i, .live = i, .flow = i, .count = ROWS - i};
		snprintf(samples[i].name, sizeof(samples[i].name), "site-%02u", i);
	}
	for (enum top_view view = TOP_SITES; view <= TOP_CACHES; view++)
		if (top_table_put(&model.tables[view], samples, ROWS, view + 1, NULL))
			abort();
	top_table_miss(&model.tables[TOP_FUNCTIONS], "no function is profiled");
	top_table_miss(&model.tables[TOP_SYSCALLS], "no system calls are traced");
}

static bool draw(const struct top_state *state, unsigned int lines, unsigned int columns)
{
	return !top_draw(&screen, &model, state, lines, columns);
}

static bool has(unsigned int line, const char *text)
{
	if (strstr(screen.text[line], text))
		return true;
	tap_diag("line %u: '%s'", line, screen.text[line]);
	return false;
}

static void press(struct top_state *state, const char *keys)
{
	for (; *keys; keys++)
		top_press(state, &model, *keys, LINES);
}

static void test_drawing(void)
{
	struct top_state state = {.sort = TOP_TOTAL};
	bool fits = true;

	ok(draw(&state, LINES, COLUMNS) && has(0, "[1 call sites]") && has(1, "sorted by ALLOCS"),
	   "view and order");
	ok(has(2, "ALLOCS*") && screen.heading == 2, "the column that it is sorted by is marked");
	ok(has(3, "site-00") && has(6, "site-03") && has(LINES - 1, "q quit"),
	   "as many rows as fit, and the keys");
	for (unsigned int lines = 0; lines < TOP_MAX_LINES + 9; lines += 7)
		for (unsigned int columns = 0; columns < TOP_MAX_COLUMNS + 9; columns += 13) {
			fits &= draw(&state, lines, columns) && screen.lines <= TOP_MAX_LINES;
			for (unsigned int i = 0; i < screen.lines; i++)
				fits &= strlen(screen.text[i]) <= columns;
		}
	ok(fits, "whatever the size, nothing is drawn outside");
}

static void test_keys(void)
{
	struct top_state state = {.sort = TOP_TOTAL};

	press(&state, "2");
	ok(draw(&state, LINES, COLUMNS) && has(0, "[2 caches]"), "another view");
	press(&state, "\t");
	ok(draw(&state, LINES, COLUMNS) && has(3, "no function is profiled"),
	   "one without rows says why");
	press(&state, "\t");
	ok(draw(&state, LINES, COLUMNS) && has(0, "[4 syscalls]") &&
		   has(3, "no system calls are traced"),
	   "system calls are the fourth view");
	press(&state, "\t");
	is_u64(state.view, TOP_SITES, "Tab comes round");
	press(&state, "s");
	is_u64(state.sort, TOP_RATE, "so does the order");
	press(&state, "SSS");
	ok(draw(&state, LINES, COLUMNS) && has(1, "sorted by LIVE") && has(3, "site-39"),
	   "sorted by another column");
	press(&state, "/site-1q");
	ok(state.typing && !state.quit && draw(&state, LINES, COLUMNS) &&
		   has(1, "filter: site-1q_") && !screen.text[3][0],
	   "what is typed is a filter");
	top_press(&state, &model, TOP_KEY_BACKSPACE, LINES);
	top_press(&state, &model, TOP_KEY_ENTER, LINES);
	ok(!state.typing && draw(&state, LINES, COLUMNS) && has(3, "site-19"), "of the rows");
	press(&state, "/");
	top_press(&state, &model, TOP_KEY_ESCAPE, LINES);
	ok(!state.filter[0] && !state.typing, "Escape ends it");
	press(&state, " ");
	ok(state.frozen && draw(&state, LINES, COLUMNS) && has(0, "frozen"), "frozen");
	press(&state, "f?");
	ok(!state.frozen && draw(&state, LINES, COLUMNS) && has(3, "Tab"), "on again, with help");
	press(&state, "?");
	top_press(&state, &model, TOP_KEY_PAGE_DOWN, LINES);
	top_press(&state, &model, TOP_KEY_DOWN, LINES);
	ok(state.cursor == 5 && draw(&state, LINES, COLUMNS) && screen.cursor == 6 &&
		   has(6, " >site-34") && has(3, "  site-37"),
	   "moved down, and scrolled as far as that takes");
	top_press(&state, &model, TOP_KEY_PAGE_UP, LINES);
	ok(state.cursor == 1 && draw(&state, LINES, COLUMNS) && screen.cursor == 3, "and up");
	top_press(&state, &model, TOP_KEY_UP, LINES);
	top_press(&state, &model, TOP_KEY_UP, LINES);
	ok(!state.first && !state.cursor, "up to the first row");
	for (unsigned int i = 0; i < ROWS; i++)
		top_press(&state, &model, TOP_KEY_PAGE_DOWN, LINES);
	ok(state.cursor == ROWS - 1 && draw(&state, LINES, COLUMNS) && has(6, ">site-00"),
	   "down to the last one");
	press(&state, "q");
	ok(state.quit, "q quits");
}

/* --- call chains ----------------------------------------------------------------------------- */

static void put_chains(void)
{
	static const char texts[] =
		"inner+0x1\nread+0x2\nsyscall+0x3\n\0inner+0x1\nwrite+0x9\n[cut]\n";
	const size_t second = strlen(texts) + 1;
	char *copy = malloc(sizeof(texts));
	const struct top_sample samples[] = {{.key = 4, .chain = copy, .total = 5},
					     {.key = 7, .chain = copy + second, .total = 6}};

	if (!copy)
		abort();
	memcpy(copy, texts, sizeof(texts));
	if (top_model_put_chains(&model, samples, 2, copy, 1, NULL))
		abort();
}

static void test_chains(void)
{
	struct top_state state = {.sort = TOP_TOTAL};

	press(&state, "2");
	ok(!top_press(&state, &model, TOP_KEY_ENTER, LINES) && state.view == TOP_CACHES,
	   "a cache has no call chains");
	press(&state, "1");
	top_press(&state, &model, TOP_KEY_DOWN, LINES);
	ok(draw(&state, LINES, COLUMNS) && has(4, ">site-01") && has(LINES - 1, "Enter chains"),
	   "the cursor is on a call site");
	ok(top_press(&state, &model, '\n', LINES) && model.site == 1 && state.view == TOP_STACKS,
	   "Enter asks for its call chains");
	put_chains();
	ok(draw(&state, 12, COLUMNS) && has(0, "[1 call sites]") &&
		   has(1, "2 call chains of site-01") && has(LINES + 3, "Esc back"),
	   "they are shown as those of this call site");
	ok(has(3, " 6 ") && has(3, "inner+0x1") && has(4, "write+0x9") && has(5, "[cut]") &&
		   has(6, " 5 ") && has(8, "syscall+0x3"),
	   "each with its frames, the one with the most allocations first");
	top_press(&state, &model, TOP_KEY_DOWN, LINES);
	ok(draw(&state, LINES, COLUMNS) && has(3, " 5 ") && has(4, "read+0x2"),
	   "an arrow scrolls to the next chain");
	press(&state, "/write");
	top_press(&state, &model, TOP_KEY_ENTER, LINES);
	ok(state.view == TOP_STACKS && draw(&state, LINES, COLUMNS) && has(4, "write+0x9"),
	   "the filter looks at all frames");
	top_press(&state, &model, TOP_KEY_ESCAPE, LINES);
	press(&state, "/");
	top_press(&state, &model, TOP_KEY_ESCAPE, LINES);
	ok(state.view == TOP_SITES && draw(&state, LINES, COLUMNS) && has(3, ">site-00"),
	   "Escape goes back");
	press(&state, "/nothing\n");
	ok(!top_press(&state, &model, TOP_KEY_ENTER, LINES) && state.view == TOP_SITES,
	   "without a row, Enter does nothing");
}

static void test_back(void)
{
	struct top_state state = {.sort = TOP_TOTAL};

	for (unsigned int i = 0; i < 9; i++)
		top_press(&state, &model, TOP_KEY_DOWN, LINES);
	top_press(&state, &model, TOP_KEY_ENTER, LINES);
	press(&state, "\t");
	is_u64(state.view, TOP_SITES, "Tab leads from call chains to call sites");
	for (unsigned int i = 0; i < 9; i++)
		top_press(&state, &model, TOP_KEY_DOWN, LINES);
	top_press(&state, &model, TOP_KEY_ENTER, LINES);
	press(&state, "h");
	top_press(&state, &model, TOP_KEY_ESCAPE, LINES);
	ok(state.view == TOP_STACKS && !state.help, "Escape leaves the help first");
	top_press(&state, &model, TOP_KEY_ESCAPE, LINES);
	ok(state.view == TOP_SITES && draw(&state, LINES, COLUMNS) && has(3, ">site-09"),
	   "the cursor is where it was");
}

int main(void)
{
	fill();
	test_drawing();
	test_keys();
	test_chains();
	test_back();
	top_model_deinit(&model);
	return tap_done();
}

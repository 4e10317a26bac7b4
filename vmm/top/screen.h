/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_SCREEN_H
#define SONDE_VMM_TOP_SCREEN_H

#include "vmm/top/model.h"

/*
 * The screen of `sonde top` as lines of text, whatever shows them; and what keys do to it.
 */
enum { TOP_FILTER_SIZE = 64, TOP_MAX_COLUMNS = 512, TOP_MAX_LINES = 256 };

struct top_state {
	enum top_view view;
	enum top_column sort;
	char filter[TOP_FILTER_SIZE];
	bool frozen; /* no new samples are shown */
	bool typing; /* the filter */
	bool help, quit;
	size_t first;     /* row that is shown first */
	size_t cursor;    /* row that Enter takes */
	size_t site;      /* where the cursor was in the call sites when Enter was pressed */
	bool no_cursor;   /* none is shown */
	char notice[160]; /* what went wrong at the last sample, or "" */
};

enum top_key {
	TOP_KEY_UP = 256,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_BACKSPACE,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
};

/* A key: a character, or of enum top_key. `lines` is the height of the screen. True: the chains of
 * another call site are wanted, of the model's. */
bool top_press(struct top_state *state, struct top_model *model, int key, unsigned int lines);

struct top_screen {
	unsigned int lines, columns;
	char text[TOP_MAX_LINES][TOP_MAX_COLUMNS + 1]; /* printable ASCII, NUL-terminated */
	unsigned int heading;                          /* the line with the titles */
	unsigned int cursor;                           /* the line with the cursor; 0: none */
};

/* Draw into lines x columns, which are cut to what a screen can have. -ENOMEM. */
int top_draw(struct top_screen *screen, const struct top_model *model,
	     const struct top_state *state, unsigned int lines, unsigned int columns);

#endif

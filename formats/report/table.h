/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_TABLE_H
#define SONDE_FORMATS_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/text.h"

/*
 * Tables that fit the terminal: columns are as wide as what is in them; where that is too much,
 * names are cut, then the last columns are left out, then names are cut further. Output to a file
 * has all columns in full.
 */
struct table;

/* NULL: no memory. All later failures are kept until table_print(). */
struct table *table_create(void);
/* NULL-safe. */
void table_destroy(struct table *table);

/* Columns first: numbers are aligned to the right, names to the left. Copies the title. */
void table_add_column(struct table *table, const char *title, bool is_name);
/* The columns so far are left out only where names that are cut further do not help. By default:
 * the first two, which always stay. */
void table_need_columns(struct table *table);
/* Then the cells, row by row. Copies. */
void table_add_cell(struct table *table, const char *text);

/* Titles and rows. Returns 0 or -ENOMEM. */
int table_print(const struct table *table, FILE *out);

/* The columns of a terminal; 0: the stream is none. */
size_t terminal_width(FILE *out);
/* Whether it is a terminal without room for all that a wide one shows. */
bool terminal_is_narrow(FILE *out);
/* A name that is cut to a width. "kvmalloc_node+0x3f/0xd0 *" keeps its mark and, if there is room,
 * its offset, which tells the calls of a function apart. */
struct text name_cut(const char *name, size_t width);
/* How many characters of UTF-8 the first `size` bytes have. */
size_t text_width(const char *text, size_t size);
/* Its lines; 0: the stream is none. */
size_t terminal_height(FILE *out);

enum { SPARKLINE_MAX = 64 };
struct sparkline {
	char s[3 * SPARKLINE_MAX + 1];
};
/* Values from 0 to their greatest as blocks of eight heights, with ASCII only where the locale has
 * no UTF-8. n <= SPARKLINE_MAX. */
struct sparkline sparkline(const uint64_t *values, size_t n);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_EVENT_LINES_H
#define SONDE_TESTS_LIB_EVENT_LINES_H

#include <stddef.h>

/*
 * Events as lines, by which a test compares what another program reads with what is in a trace.
 * The order does not count: readers merge streams whose time steps back in their own ways. All
 * functions abort without memory.
 */
struct event_lines {
	char **at;
	size_t n, room;
};

/* Add a line, as printf(). */
void event_lines_add(struct event_lines *lines, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Those of a trace, "VCPU NS INSTANCE SYSTEM:NAME FIELD=VALUE ...": numbers in decimal; code,
 * caches and flags as filters see them (event_texts_names()).
 */
void event_lines_of_trace(struct event_lines *lines, const char *dir);

/* Whether both have the same lines. Says so with two checks, and frees both. */
void event_lines_compare(struct event_lines *got, struct event_lines *want, const char *reader);

void event_lines_free(struct event_lines *lines);

#endif

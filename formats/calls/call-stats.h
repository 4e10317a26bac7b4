/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CALLS_CALL_STATS_H
#define SONDE_FORMATS_CALLS_CALL_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/base/text.h"
#include "formats/calls/durations.h"
#include "formats/trace/reader.h"

/*
 * How many calls of each function an instance of the graph tracer has recorded, or of each system
 * call one of the syscalls tracer, and how long they took.
 */

struct call_row {
	uint64_t ip, calls, errors, unreturned;
	uint64_t self_ns;           /* of functions: without the calls in them */
	struct durations durations; /* of those that returned */
};

struct call_stats;

/* Of an instance of `reader`, which outlives the result, of one of these two tracers. `only`: a
 * glob, calls of functions with these names, with the calls in them; NULL: all. -ENOMEM. */
int call_stats_create(const struct trace_reader *reader, const struct trace_instance *instance,
		      const char *only, struct call_stats **out, struct error *err);
/* NULL-safe. */
void call_stats_destroy(struct call_stats *stats);

/* Of system calls, count those of the choice, which outlives `stats`. */
struct syscall_choice;
void call_stats_choose(struct call_stats *stats, const struct syscall_choice *choice);
/* Likewise of functions. */
struct call_filter;
void call_stats_choose_functions(struct call_stats *stats, const struct call_filter *choice);

const struct trace_instance *call_stats_instance(const struct call_stats *stats);
/* Whether it is of system calls; else of functions. */
bool call_stats_are_syscalls(const struct call_stats *stats);

/* The next event; those of other instances are ignored. -ENOMEM. */
int call_stats_add(struct call_stats *stats, const struct event *event);
/* The trace ends: calls that have not returned count now. -ENOMEM. */
int call_stats_end(struct call_stats *stats);
/* How many of them there were. */
uint64_t call_stats_open(const struct call_stats *stats);

/* What rows are sorted by: the greatest first. */
enum call_order {
	CALLS_BY_TOTAL,
	CALLS_BY_SELF, /* of system calls: as by total */
	CALLS_BY_CALLS,
	CALLS_BY_MEAN,
	CALLS_BY_MAX,
	NR_CALL_ORDERS
};

/* NULL-terminated, by enum call_order, as users write them. */
extern const char *const call_order_names[];

/* Those with the same value are in the order of their calls, then of their addresses. */
void call_stats_sort(struct call_stats *stats, enum call_order order);
size_t call_stats_rows(const struct call_stats *stats);
const struct call_row *call_stats_row(const struct call_stats *stats, size_t index);
/* "vfs_read"; of a system call "read". */
struct text call_stats_name(const struct call_stats *stats, const struct call_row *row);

#endif

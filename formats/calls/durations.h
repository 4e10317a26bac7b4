/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CALLS_DURATIONS_H
#define SONDE_FORMATS_CALLS_DURATIONS_H

#include <stddef.h>
#include <stdint.h>

/*
 * How many calls took how long: powers of two in 16 parts, so that a percentile is at most 1/16 too
 * large. A power of two in which there is no duration takes no memory. Zeroed, it is empty.
 */
enum { DURATION_PARTS_BITS = 4, DURATION_PARTS = 1 << DURATION_PARTS_BITS };

struct durations {
	uint64_t total_ns, max_ns, n;
	uint64_t powers;                   /* bit k: the k-th power has parts */
	uint32_t (*parts)[DURATION_PARTS]; /* of these powers, in ascending order */
};

void durations_deinit(struct durations *durations);

/*
 * Add one. *powers_left is how many powers of two may still take memory, of all that share it.
 * -ENOMEM: there is no memory; nothing is added. Without powers left it is added, but percentiles
 * take it for the longest one.
 */
int durations_add(struct durations *durations, uint64_t ns, size_t *powers_left);

/* The duration that so many percent do not exceed; 0 if there is none. */
uint64_t durations_percentile(const struct durations *durations, unsigned int percent);
/* 0 if there is none. */
uint64_t durations_mean(const struct durations *durations);

#endif

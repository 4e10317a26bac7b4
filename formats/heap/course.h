/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_COURSE_H
#define SONDE_FORMATS_HEAP_COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A value over time, in a fixed number of steps of equal length. The steps become longer as time
 * goes on, so that memory does not grow.
 */
enum { COURSE_STEPS = 4096, COURSE_STEPS_OF_SITE = 32 };

struct course_step {
	uint64_t last, peak; /* the value at its end, and the greatest one in it */
};

struct course {
	/* Of the last step: its value so far, and the greatest one. */
	uint64_t last, peak;
	int64_t end_ns; /* its end, or INT64_MAX */
	/* Of the steps before: */
	uint64_t *steps;     /* the last value of each; there is room for `room` of them */
	uint64_t *peaks;     /* likewise the greatest value; NULL: not kept */
	uint32_t room, used; /* room is even; the last step is one of those used */
	int64_t start_ns;    /* of the first step */
	uint64_t step_ns;
};

/* Begins at `start_ns` with the value 0. 0 or -ENOMEM. */
int course_init(struct course *course, uint32_t room, int64_t start_ns);
/* The same in half the memory: a step's peak is the greater one of the values that it begins and
 * ends with. */
int course_init_small(struct course *course, uint32_t room, int64_t start_ns);
/* A zeroed one has nothing to free. */
void course_deinit(struct course *course);

/* For course_put(): go on to the step that has this time. */
void course_advance(struct course *course, int64_t ns);

/* Time since the start, in ns. */
static inline uint64_t course_offset(const struct course *course, int64_t ns)
{
	return ns < course->start_ns ? 0 : (uint64_t)ns - (uint64_t)course->start_ns;
}

/* From `ns` on, the value is `value`. A time before the last one is taken for that. */
static inline void course_put(struct course *course, int64_t ns, uint64_t value)
{
	if (ns >= course->end_ns)
		course_advance(course, ns);
	course->last = value;
	if (value > course->peak)
		course->peak = value;
}

/*
 * The same values up to `end_ns`, in n parts of equal length; but for the last one, a part ends
 * where a step does: at the nearest such moment to its own end, so that its value is exact then.
 */
void course_resample(const struct course *course, int64_t end_ns, struct course_step *out,
		     size_t n);
/* When part i of these ends. */
int64_t course_part_end(const struct course *course, int64_t end_ns, size_t i, size_t n);

/* A straight line through the values, and how near to it they are. */
struct course_trend {
	double per_s;      /* slope, units per second */
	double per_s_error; /* its standard error, as if the values were independent of each other */
	double confidence; /* 0 to 1: the share of their variance that the line explains */
	double late_share; /* of the whole growth, that of the second half: 0.5 is steady */
	size_t rises, falls, steps; /* steps that end higher than the one before, and lower */
};
struct course_trend course_trend(const struct course *course, int64_t end_ns);

/* Whether the value hardly ever falls, and rises as much late as early. */
bool course_only_grows(const struct course_trend *trend);

#endif

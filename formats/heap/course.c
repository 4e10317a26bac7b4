/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/course.h"

#include <errno.h>
#include <stdlib.h>

static const uint64_t first_step_ns = 1 << 16;

int course_init(struct course *course, uint32_t room, int64_t start_ns)
{
	*course = (struct course){.room = room, .start_ns = start_ns, .step_ns = first_step_ns};
	course->steps = calloc(room, sizeof(*course->steps));
	if (!course->steps)
		return -ENOMEM;
	course->used = 1;
	return 0;
}

void course_deinit(struct course *course)
{
	free(course->steps);
}

/* Make each two steps one. */
static void halve(struct course *course)
{
	for (uint32_t i = 0; i < course->used; i += 2) {
		struct course_step *to = &course->steps[i / 2], *from = &course->steps[i];
		const struct course_step *second = i + 1 < course->used ? from + 1 : from;
		uint64_t peak = from->peak > second->peak ? from->peak : second->peak;

		*to = (struct course_step){.last = second->last, .peak = peak};
	}
	course->used = (course->used + 1) / 2;
	course->step_ns *= 2;
}

/* Time since the start, in ns. */
static uint64_t offset_of(const struct course *course, int64_t ns)
{
	return ns < course->start_ns ? 0 : (uint64_t)ns - (uint64_t)course->start_ns;
}

/* Go on to the step that has this time. */
static void advance(struct course *course, uint64_t offset)
{
	while (offset / course->step_ns >= course->room)
		halve(course);
	while (course->used <= offset / course->step_ns) {
		uint64_t last = course->steps[course->used - 1].last;

		course->steps[course->used++] = (struct course_step){last, last};
	}
}

void course_put(struct course *course, int64_t ns, uint64_t value)
{
	const uint64_t offset = offset_of(course, ns);
	struct course_step *step;

	if (offset >= course->end_ns) {
		advance(course, offset);
		if (__builtin_mul_overflow(course->used, course->step_ns, &course->end_ns))
			course->end_ns = UINT64_MAX;
	}
	step = &course->steps[course->used - 1];
	step->last = value;
	if (value > step->peak)
		step->peak = value;
}

/* The last value in a part of the course, and the greatest one. Offsets in ns. */
static struct course_step between(const struct course *course, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = from_ns / course->step_ns, to = to_ns ? (to_ns - 1) / course->step_ns : 0;
	const uint64_t last = course->used - 1;
	struct course_step out;

	if (from > last)
		return (struct course_step){course->steps[last].last, course->steps[last].last};
	out = course->steps[to < last ? to : last];
	for (uint64_t i = from; i < to && i <= last; i++) {
		if (course->steps[i].peak > out.peak)
			out.peak = course->steps[i].peak;
	}
	return out;
}

void course_resample(const struct course *course, int64_t end_ns, struct course_step *out, size_t n)
{
	const unsigned __int128 span = offset_of(course, end_ns);

	for (size_t i = 0; i < n; i++)
		out[i] = between(course, (uint64_t)(span * i / n), (uint64_t)(span * (i + 1) / n));
}

/* Least squares. */
static void fit(const double *x, const double *y, size_t n, double *slope, double *explained)
{
	double mx = 0, my = 0, xx = 0, xy = 0, yy = 0;

	for (size_t i = 0; i < n; i++) {
		mx += x[i] / (double)n;
		my += y[i] / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		xx += (x[i] - mx) * (x[i] - mx);
		xy += (x[i] - mx) * (y[i] - my);
		yy += (y[i] - my) * (y[i] - my);
	}
	*slope = xx > 0 ? xy / xx : 0;
	*explained = xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 0;
}

static double late_share(const struct course_step *steps, size_t n)
{
	double first = (double)steps[0].last, middle = (double)steps[n / 2].last,
	       last = (double)steps[n - 1].last;

	return last > first ? (last - middle) / (last - first) : 0;
}

struct course_trend course_trend(const struct course *course, int64_t end_ns)
{
	enum { STEPS = 16 };
	struct course_trend trend = {.steps = STEPS - 1};
	struct course_step steps[STEPS];
	double x[STEPS], y[STEPS], span;

	if (end_ns <= course->start_ns)
		return trend;
	span = (double)((uint64_t)end_ns - (uint64_t)course->start_ns) / 1e9;
	course_resample(course, end_ns, steps, STEPS);
	for (size_t i = 0; i < STEPS; i++) {
		x[i] = span * (double)(i + 1) / STEPS;
		y[i] = (double)steps[i].last;
		trend.rises += i && steps[i].last > steps[i - 1].last;
		trend.falls += i && steps[i].last < steps[i - 1].last;
	}
	fit(x, y, STEPS, &trend.per_s, &trend.confidence);
	trend.late_share = late_share(steps, STEPS);
	return trend;
}

bool course_only_grows(const struct course_trend *trend)
{
	const double steady = 0.25, near_line = 0.7;

	return trend->per_s > 0 && trend->falls <= trend->steps / 8 &&
	       trend->rises >= trend->steps / 2 && trend->confidence >= near_line &&
	       trend->late_share >= steady;
}

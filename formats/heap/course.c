/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/course.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const uint64_t first_step_ns = 1 << 16;

static int init(struct course *course, uint32_t room, int64_t start_ns, bool has_peaks)
{
	*course = (struct course){.end_ns = start_ns,
				  .room = room,
				  .start_ns = start_ns,
				  .step_ns = first_step_ns};
	course->steps = calloc(has_peaks ? 2 * (size_t)room : room, sizeof(*course->steps));
	if (!course->steps)
		return -ENOMEM;
	course->peaks = has_peaks ? course->steps + room : NULL;
	course->used = 1;
	return 0;
}

int course_init(struct course *course, uint32_t room, int64_t start_ns)
{
	return init(course, room, start_ns, true);
}

int course_init_small(struct course *course, uint32_t room, int64_t start_ns)
{
	return init(course, room, start_ns, false);
}

void course_deinit(struct course *course)
{
	free(course->steps);
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Make each two steps one. */
static void halve(struct course *course)
{
	for (uint32_t i = 0; i < course->used; i += 2) {
		uint32_t second = i + 1 < course->used ? i + 1 : i;

		course->steps[i / 2] = course->steps[second];
		if (course->peaks)
			course->peaks[i / 2] = greater(course->peaks[i], course->peaks[second]);
	}
	course->used = (course->used + 1) / 2;
	course->step_ns *= 2;
}

void course_advance(struct course *course, int64_t ns)
{
	const uint64_t offset = course_offset(course, ns);
	uint64_t end;

	course->steps[course->used - 1] = course->last;
	if (course->peaks)
		course->peaks[course->used - 1] = course->peak;
	while (offset / course->step_ns >= course->room)
		halve(course);
	while (course->used <= offset / course->step_ns) {
		course->steps[course->used] = course->last;
		if (course->peaks)
			course->peaks[course->used] = course->last;
		course->used++;
	}
	course->peak = course->peaks ? course->peaks[course->used - 1] : course->last;
	if (__builtin_mul_overflow(course->used, course->step_ns, &end) ||
	    __builtin_add_overflow(course->start_ns, end, &course->end_ns))
		course->end_ns = INT64_MAX;
}

static uint64_t last_of(const struct course *course, uint64_t i)
{
	return i + 1 == course->used ? course->last : course->steps[i];
}

static uint64_t peak_of(const struct course *course, uint64_t i)
{
	if (!course->peaks)
		return greater(last_of(course, i ? i - 1 : 0), last_of(course, i));
	return i + 1 == course->used ? course->peak : course->peaks[i];
}

/* The last value in a part of the course, and the greatest one. Offsets in ns. */
static struct course_step between(const struct course *course, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = from_ns / course->step_ns, to = to_ns ? (to_ns - 1) / course->step_ns : 0;
	const uint64_t last = course->used - 1;
	struct course_step out;

	if (from > last)
		return (struct course_step){course->last, course->last};
	to = to < last ? to : last;
	out = (struct course_step){last_of(course, to), peak_of(course, to)};
	for (uint64_t i = from; i < to; i++)
		out.peak = greater(out.peak, peak_of(course, i));
	return out;
}

void course_resample(const struct course *course, int64_t end_ns, struct course_step *out, size_t n)
{
	const unsigned __int128 span = course_offset(course, end_ns);

	for (size_t i = 0; i < n; i++)
		out[i] = between(course, (uint64_t)(span * i / n), (uint64_t)(span * (i + 1) / n));
}

/* Least squares. */
static void fit(const double *x, const double *y, size_t n, struct course_trend *trend)
{
	double mx = 0, my = 0, xx = 0, xy = 0, yy = 0, off;

	for (size_t i = 0; i < n; i++) {
		mx += x[i] / (double)n;
		my += y[i] / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		xx += (x[i] - mx) * (x[i] - mx);
		xy += (x[i] - mx) * (y[i] - my);
		yy += (y[i] - my) * (y[i] - my);
	}
	if (!(xx > 0))
		return;
	off = yy - xy * xy / xx; /* squares of what the line leaves; rounding makes it negative */
	trend->per_s = xy / xx;
	trend->per_s_error = off > 0 ? sqrt(off / ((double)n - 2) / xx) : 0;
	trend->confidence = yy > 0 ? xy * xy / (xx * yy) : 0;
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
	fit(x, y, STEPS, &trend);
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

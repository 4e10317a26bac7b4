/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/course.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int init(struct course *course, uint32_t room, int64_t start_ns, bool has_peaks)
{
	*course = (struct course){
		.end_ns = start_ns, .room = room, .start_ns = start_ns, .step_ns = 1};
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

/* When part i of n would end if all were equal, as an offset. */
static uint64_t even_end(const struct course *course, int64_t end_ns, size_t i, size_t n)
{
	return (uint64_t)((unsigned __int128)course_offset(course, end_ns) * (i + 1) / n);
}

/* Behind how many steps part i of n ends. */
static uint64_t steps_until(const struct course *course, int64_t end_ns, size_t i, size_t n)
{
	const uint64_t even = even_end(course, end_ns, i, n), step_ns = course->step_ns;
	const uint64_t steps = even / step_ns + (even % step_ns >= step_ns - step_ns / 2);

	if (i + 1 == n || steps > course->used)
		return course->used;
	return steps ? steps : 1;
}

/* Behind the last step the value is the last one, at any time. */
int64_t course_part_end(const struct course *course, int64_t end_ns, size_t i, size_t n)
{
	const uint64_t steps = steps_until(course, end_ns, i, n),
		       all = course_offset(course, end_ns);
	const uint64_t even = even_end(course, end_ns, i, n);
	uint64_t offset;

	if (i + 1 == n || __builtin_mul_overflow(steps, course->step_ns, &offset) || offset > all)
		return end_ns;
	if (steps == course->used && offset < even)
		offset = even;
	return (int64_t)((uint64_t)course->start_ns + offset);
}

/* Of the steps from `from` to `to`, the last value and the greatest one. */
static struct course_step between(const struct course *course, uint64_t from, uint64_t to)
{
	struct course_step out = {last_of(course, to - 1), peak_of(course, to - 1)};

	for (uint64_t i = from; i < to; i++)
		out.peak = greater(out.peak, peak_of(course, i));
	return out;
}

void course_resample(const struct course *course, int64_t end_ns, struct course_step *out, size_t n)
{
	uint64_t from = 0, to;

	for (size_t i = 0; i < n; i++, from = to) {
		to = steps_until(course, end_ns, i, n);
		out[i] = between(course, from, to);
	}
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
	double x[STEPS], y[STEPS];

	if (end_ns <= course->start_ns)
		return trend;
	course_resample(course, end_ns, steps, STEPS);
	for (size_t i = 0; i < STEPS; i++) {
		x[i] = (double)course_offset(course, course_part_end(course, end_ns, i, STEPS)) /
		       1e9;
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

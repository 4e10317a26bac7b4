/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "formats/heap/course.h"
#include "tests/lib/tap.h"

static const int64_t second = 1000000000;

static struct course begin(int64_t start_ns)
{
	struct course course;

	if (course_init(&course, COURSE_STEPS_OF_SITE, start_ns))
		abort();
	return course;
}

static void test_steps(void)
{
	struct course course = begin(second);
	struct course_step steps[10];

	for (int64_t i = 0; i <= 100; i++)
		course_put(&course, second + i * second, i == 55 ? 1000 : (uint64_t)i);
	ok(course.used <= COURSE_STEPS_OF_SITE, "a course keeps to its number of steps");
	course_resample(&course, 101 * second, steps, 10);
	ok(steps[0].last >= 7 && steps[0].last <= 13,
	   "a tenth of the time has a tenth of the values");
	is_u64(steps[9].last, 100, "the last step ends with the last value");
	ok(steps[5].peak == 1000 || steps[4].peak == 1000, "a step has its greatest value");
	ok(steps[5].last < 100, "and the last one");
	course_deinit(&course);
}

/* A small one has no peaks between the values that its steps end with. */
static void test_small(void)
{
	struct course course;
	struct course_step steps[4];

	if (course_init_small(&course, 4, 0))
		abort();
	for (int64_t i = 0; i <= 100; i++)
		course_put(&course, i * second, i < 50 ? (uint64_t)i : (uint64_t)(100 - i));
	course_resample(&course, 100 * second, steps, 2);
	is_u64(steps[1].last, 0, "a small course ends with the last value");
	ok(steps[1].peak >= 30 && steps[1].peak <= 50, "a part of it has a peak");
	course_deinit(&course);
}

static void test_silence(void)
{
	struct course course = begin(0);
	struct course_step steps[4];

	course_put(&course, 1, 5);
	course_put(&course, 1000 * second, 7);
	course_resample(&course, 2000 * second, steps, 4);
	ok(steps[0].last == 5 && steps[1].last >= 5 && steps[2].last == 7 && steps[3].last == 7,
	   "a value holds until the next one");
	course_deinit(&course);
}

static void test_trends(void)
{
	struct course leak = begin(0), warm = begin(0), saw = begin(0), none = begin(0);
	struct course_trend trend;

	for (int64_t i = 0; i < 1000; i++) {
		course_put(&leak, i * second, (uint64_t)i * 64 + (uint64_t)(i % 7) * 8);
		course_put(&warm, i * second, i < 150 ? (uint64_t)i * 400 : 60000);
		course_put(&saw, i * second, (uint64_t)(i % 100) * 64);
	}
	trend = course_trend(&leak, 1000 * second);
	ok(course_only_grows(&trend), "what grows on a line only grows");
	ok(trend.per_s > 63 && trend.per_s < 65, "its slope is in units per second: %.1f",
	   trend.per_s);
	ok(trend.confidence > 0.99, "a line explains it");
	ok(trend.per_s_error > 0 && trend.per_s_error < 2, "its standard error is small");
	ok(trend.late_share > 0.4 && trend.late_share < 0.6, "half of it comes in the second half");
	trend = course_trend(&warm, 1000 * second);
	ok(!course_only_grows(&trend), "what has grown at first, and no more, does not");
	ok(trend.per_s_error > 5, "its standard error is large");
	trend = course_trend(&saw, 1000 * second);
	ok(!course_only_grows(&trend), "what comes and goes does not");
	trend = course_trend(&none, 1000 * second);
	ok(!course_only_grows(&trend), "what never changes does not");
	course_deinit(&leak);
	course_deinit(&warm);
	course_deinit(&saw);
	course_deinit(&none);
}

/* In the steps that a course begins with, values are exact. Computed apart: the slope of 0, 1000, ...
 * 15000 at two steps each, with 2000 more for the eighth, is 498.53 per step +- 14.03. */
static void test_error(void)
{
	const int64_t step = 1 << 16;
	struct course course = begin(0);
	struct course_trend trend;

	for (int64_t i = 0; i < 32; i++)
		course_put(&course, i * step, (uint64_t)(i / 2 + (i / 2 == 7 ? 2 : 0)) * 1000);
	trend = course_trend(&course, 32 * step);
	trend.per_s *= (double)step / 1e9;
	trend.per_s_error *= (double)step / 1e9;
	ok(trend.per_s > 498.5 && trend.per_s < 498.6, "the slope is that of least squares: %.2f",
	   trend.per_s);
	ok(trend.per_s_error > 14.02 && trend.per_s_error < 14.04,
	   "its standard error follows from what the line leaves: %.2f", trend.per_s_error);
	course_deinit(&course);
}

/* The last value before this time. */
static uint64_t value_before(const int64_t *times, size_t n, int64_t ns)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n && times[i] < ns; i++)
		value = i + 1;
	return value;
}

static void test_part_ends(void)
{
	enum { CHANGES = 5000, PARTS = 20 };
	static int64_t times[CHANGES];
	struct course course = begin(second);
	struct course_step steps[PARTS];
	int64_t now = second, last = second, far = 0;
	bool same = true;

	for (size_t i = 0; i < CHANGES; i++) {
		now += rand() % 1000000;
		times[i] = now;
		course_put(&course, now, i + 1);
	}
	course_resample(&course, now + 1, steps, PARTS);
	for (size_t i = 0; i < PARTS; i++) {
		const int64_t end = course_part_end(&course, now + 1, i, PARTS);
		const int64_t even = second + (now + 1 - second) * ((int64_t)i + 1) / PARTS;

		same &= end >= last && steps[i].last == value_before(times, CHANGES, end);
		far = llabs(end - even) > far ? llabs(end - even) : far;
		last = end;
	}
	ok(same && last == now + 1, "the values are those of the times where parts end");
	ok(far <= (int64_t)course.step_ns / 2 + 1, "which are not far from equal parts");
	course_deinit(&course);
}

static void test_hostile(void)
{
	static const int64_t times[] = {INT64_MIN, 0, INT64_MAX, -5, INT64_MAX, INT64_MIN};
	struct course course = begin(INT64_MIN);
	struct course_step steps[16];

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		course_put(&course, times[i], UINT64_MAX - i);
	course_resample(&course, INT64_MAX, steps, 16);
	is_u64(steps[15].last, UINT64_MAX - 5, "times that step back are taken for the last one");
	course_trend(&course, INT64_MIN);
	course_deinit(&course);
}

int main(void)
{
	test_steps();
	test_small();
	test_silence();
	test_trends();
	test_error();
	test_part_ends();
	test_hostile();
	return tap_done();
}

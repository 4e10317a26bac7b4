/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/held-course.h"

#include <errno.h>
#include "formats/base/text.h"

void held_course_deinit(struct held_course *held)
{
	course_deinit(&held->course);
}

void held_course_before(struct held_course *held, uint64_t bytes)
{
	held->last = held->peak = bytes;
}

int held_course_put(struct held_course *held, int64_t begin_ns, int64_t ns, uint64_t bytes)
{
	if (!held->course.steps) {
		if (course_init(&held->course, COURSE_STEPS, begin_ns))
			return -ENOMEM;
		held->first_ns = held->last_ns = held->peak_ns = begin_ns;
		course_put(&held->course, begin_ns, held->last);
	}
	if (ns > held->last_ns) {
		held->byte_ns +=
			(double)held->last * (double)((uint64_t)ns - (uint64_t)held->last_ns);
		held->last_ns = ns;
	}
	held->last = bytes;
	if (bytes > held->peak) {
		held->peak = bytes;
		held->peak_ns = ns;
	}
	course_put(&held->course, ns, bytes);
	return 0;
}

uint64_t held_course_mean(const struct held_course *held)
{
	const double ns = (double)held->last_ns - (double)held->first_ns;

	return ns > 0 ? whole_number(held->byte_ns / ns) : held->last;
}

void held_course_peaks(const struct held_course *held, int64_t end_ns,
		       uint64_t peaks[HELD_COURSE_PARTS])
{
	struct course_step steps[HELD_COURSE_PARTS];

	if (held->course.steps)
		course_resample(&held->course, end_ns, steps, HELD_COURSE_PARTS);
	for (size_t i = 0; i < HELD_COURSE_PARTS; i++)
		peaks[i] = held->course.steps ? steps[i].peak : held->last;
}

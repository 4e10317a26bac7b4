/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_HELD_COURSE_H
#define SONDE_FORMATS_HEAP_HELD_COURSE_H

#include <stdint.h>
#include "formats/heap/course.h"

/* Bytes that are held over time: the last value, and what was before. Zeroed: none yet. */
struct held_course {
	struct course course; /* without steps: it has not begun */
	uint64_t last, peak;
	int64_t last_ns, peak_ns, first_ns;
	double byte_ns; /* the integral, from first_ns on */
};

void held_course_deinit(struct held_course *held);

/* So much is held before the course begins, and if it never does. */
void held_course_before(struct held_course *held, uint64_t bytes);

/* From `ns` on, so much is held. The first time, the course begins at `begin_ns`. 0 or -ENOMEM. */
int held_course_put(struct held_course *held, int64_t begin_ns, int64_t ns, uint64_t bytes);

uint64_t held_course_mean(const struct held_course *held);

/* The greatest values of equal parts of the time up to `end_ns`. */
enum { HELD_COURSE_PARTS = 32 };
void held_course_peaks(const struct held_course *held, int64_t end_ns,
		       uint64_t peaks[HELD_COURSE_PARTS]);

#endif

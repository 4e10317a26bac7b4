/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_COUNTS_H
#define SONDE_TESTS_LIB_FAKE_COUNTS_H

#include "patcher/ring/call-counts.h"
#include "patcher/ring/hist.h"
#include "tests/lib/fake-session.h"

/* Where code in a fake guest would count, on vCPU 0, in the first group of rings of the direct
 * lane. */

/* With rings of so many bytes: a session that traces exitless. */
void fake_counts_create(struct fake_session *fs, uint32_t ring_bytes);
/* Start with one spec. The guest's tasks are known. */
bool fake_counts_start(struct fake_session *fs, const char *spec);

/* The first place of the first histogram. */
struct hist_place *fake_hist_place(struct fake_session *fs);
/* Of the function with this site (an image offset), in the first profile. */
struct call_count *fake_call_count(struct fake_session *fs, uint64_t site);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_BREAKS_H
#define SONDE_TESTS_LIB_FAKE_BREAKS_H

#include "introspect/guest/guest.h"

/*
 * Breakpoints of a fake guest (fake-guest.h) with GUEST_CAP_BREAK. They do not change its text; a
 * vCPU that comes to one calls the trap handler.
 */
enum { FAKE_MAX_BREAKS = 64 };

struct fake_breaks {
	uint64_t gva[FAKE_MAX_BREAKS]; /* 0: free */
};

bool fake_breaks_at(const struct fake_breaks *breaks, uint64_t gva);
unsigned int fake_breaks_count(const struct fake_breaks *breaks);
/* Setting a breakpoint twice is once. -ENOSPC: too many. */
int fake_breaks_set(struct fake_breaks *breaks, uint64_t gva, bool on, struct error *err);

#endif

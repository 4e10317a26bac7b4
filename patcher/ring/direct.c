/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/direct.h"

/* A stamp that is not between the ring's floor and the horizon. False: it is for a later pass. */
bool direct_mend_stamp(struct ring *ring, uint64_t position, uint64_t *tsc,
		       const struct ring_clock *clock)
{
	if (ring_is_later(ring, position, *tsc, clock))
		return false;
	*tsc = ring_clamp(ring, *tsc, ring_horizon(clock));
	return true;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CLOCK_H
#define SONDE_FORMATS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The host's time that only goes on (CLOCK_MONOTONIC), in nanoseconds. */
static inline uint64_t clock_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Sleep for so long; a signal may end it early. */
static inline void clock_wait_ms(unsigned int ms)
{
	const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&wait, NULL);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_CLOCK_H
#define SONDE_FORMATS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns_of(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The host's monotonic time. */
static inline uint64_t clock_monotonic_ns(void)
{
	return clock_ns_of(CLOCK_MONOTONIC);
}

static inline uint64_t clock_monotonic_ms(void)
{
	return clock_monotonic_ns() / 1000000;
}

/* The same, not slewed by NTP: as steady as the TSC. */
static inline uint64_t clock_raw_ns(void)
{
	return clock_ns_of(CLOCK_MONOTONIC_RAW);
}

/* Sleep. A signal may end it early. */
static inline void clock_wait_ms(unsigned int ms)
{
	const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&wait, NULL);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/clock.h"

#include <x86intrin.h>
#include "formats/base/clock.h"

static const uint64_t window_ns = 250000000, least_ns = 50000000;

/* No counter gets so far: 7 years at 10 GHz. */
static const uint64_t ticks_max = UINT64_C(1) << 61;
/* Stamps may be so far ahead of the estimate, which is late if the records it was learnt from were
 * read late: 0.3 s at 4 GHz. */
static const int64_t lead_max = INT64_C(1) << 30;
/* Without stamps for so long, the guest may have been paused: 0.1 s at 3 GHz. */
static const uint64_t silence = UINT64_C(1) << 28;

void libvirt_clock_init(struct libvirt_clock *clock)
{
	*clock = (struct libvirt_clock){.host_ns0 = clock_raw_ns(),
					.host_tsc0 = __rdtsc(),
					.distance = {(int64_t)ticks_max, (int64_t)ticks_max}};
	pthread_mutex_init(&clock->lock, NULL);
}

void libvirt_clock_deinit(struct libvirt_clock *clock)
{
	pthread_mutex_destroy(&clock->lock);
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t largest_distance(const struct libvirt_clock *clock)
{
	return larger(clock->distance[0], clock->distance[1]);
}

static uint64_t estimate(const struct libvirt_clock *clock)
{
	if (clock->frozen || !clock->known)
		return clock->frozen_at;
	return __rdtsc() + (uint64_t)largest_distance(clock);
}

/*
 * The distance is never larger than before, but by what it was learnt too late. Returns the stamp
 * to learn it from; 0: none.
 */
static uint64_t believe(struct libvirt_clock *clock, uint64_t tsc, uint64_t now)
{
	uint64_t claim = clock->claim;

	if (tsc >= ticks_max)
		return 0;
	if ((int64_t)(tsc - now) - largest_distance(clock) <= lead_max) {
		clock->claim = 0;
		return tsc;
	}
	clock->claim = tsc;
	if (!claim || claim == tsc)
		return 0;
	clock->claim = 0;
	return claim < tsc ? claim : tsc;
}

static void learn(struct libvirt_clock *clock, int64_t distance)
{
	uint64_t now = clock_raw_ns();
	bool paused = clock->seen_at && __rdtsc() - clock->seen_at > silence;

	/* Between the last stamp and this one the guest may have been paused. */
	if (!clock->known || (paused && distance < largest_distance(clock))) {
		clock->distance[0] = clock->distance[1] = distance;
		clock->window_start = now;
		clock->known = true;
	} else if (now - clock->window_start > window_ns) {
		clock->distance[1] = clock->distance[0];
		clock->distance[0] = distance;
		clock->window_start = now;
	}
	clock->distance[0] = larger(clock->distance[0], distance);
}

void libvirt_clock_seen(struct libvirt_clock *clock, uint64_t tsc)
{
	uint64_t now;

	pthread_mutex_lock(&clock->lock);
	now = __rdtsc();
	tsc = believe(clock, tsc, now);
	if (tsc && !clock->frozen)
		learn(clock, (int64_t)(tsc - now));
	if (clock->frozen && tsc > clock->frozen_at)
		clock->frozen_at = tsc;
	if (tsc > clock->latest)
		clock->latest = tsc;
	if (tsc)
		clock->seen_at = now;
	pthread_mutex_unlock(&clock->lock);
}

uint64_t libvirt_clock_estimate(struct libvirt_clock *clock)
{
	uint64_t tsc;

	pthread_mutex_lock(&clock->lock);
	tsc = estimate(clock);
	pthread_mutex_unlock(&clock->lock);
	return tsc;
}

uint64_t libvirt_clock_tsc(struct libvirt_clock *clock)
{
	uint64_t tsc;

	pthread_mutex_lock(&clock->lock);
	tsc = clock->latest;
	pthread_mutex_unlock(&clock->lock);
	return tsc;
}

void libvirt_clock_freeze(struct libvirt_clock *clock, bool frozen)
{
	pthread_mutex_lock(&clock->lock);
	if (frozen)
		clock->frozen_at = estimate(clock);
	else
		clock->known = false;
	clock->frozen = frozen;
	pthread_mutex_unlock(&clock->lock);
}

int libvirt_clock_rate(struct libvirt_clock *clock, struct tsc_clock *out, struct error *err)
{
	const struct timespec moment = {.tv_nsec = (long)least_ns};
	uint64_t ticks, ns;

	if (clock_raw_ns() - clock->host_ns0 < least_ns)
		nanosleep(&moment, NULL);
	ns = clock_raw_ns() - clock->host_ns0;
	ticks = __rdtsc() - clock->host_tsc0;
	*out = (struct tsc_clock){0};
	return tsc_clock_set_rate(out, (uint64_t)((unsigned __int128)ticks * 1000000 / ns), err);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/clock.h"

#include <x86intrin.h>
#include "formats/base/clock.h"

static const uint64_t window_ns = 250000000, least_ns = 50000000;

void libvirt_clock_init(struct libvirt_clock *clock)
{
	*clock = (struct libvirt_clock){.host_ns0 = clock_raw_ns(), .host_tsc0 = __rdtsc()};
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

static uint64_t tsc_locked(const struct libvirt_clock *clock)
{
	if (clock->frozen || !clock->known)
		return clock->frozen_at;
	return __rdtsc() + (uint64_t)larger(clock->distance[0], clock->distance[1]);
}

static void learn(struct libvirt_clock *clock, int64_t distance)
{
	uint64_t now = clock_raw_ns();

	if (!clock->known) {
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
	pthread_mutex_lock(&clock->lock);
	if (!clock->frozen)
		learn(clock, (int64_t)(tsc - __rdtsc()));
	else if (tsc > clock->frozen_at)
		clock->frozen_at = tsc;
	pthread_mutex_unlock(&clock->lock);
}

uint64_t libvirt_clock_tsc(struct libvirt_clock *clock)
{
	uint64_t tsc;

	pthread_mutex_lock(&clock->lock);
	tsc = tsc_locked(clock);
	pthread_mutex_unlock(&clock->lock);
	return tsc;
}

void libvirt_clock_freeze(struct libvirt_clock *clock, bool frozen)
{
	pthread_mutex_lock(&clock->lock);
	if (frozen)
		clock->frozen_at = tsc_locked(clock);
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

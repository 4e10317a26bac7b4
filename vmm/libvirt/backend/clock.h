/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_CLOCK_H
#define SONDE_VMM_LIBVIRT_BACKEND_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include "introspect/guest/clock.h"

/*
 * The time stamp counter of somebody else's vCPUs. It runs like the host's, a distance apart that
 * nobody tells, and which changes when QEMU's emulation is paused. Each stamp that a vCPU has
 * written gives a lower bound; the best of the last moments is used. So it never says a time that
 * the vCPUs have not reached, unless the guest was paused behind our back, and then for a moment.
 */
struct libvirt_clock {
	pthread_mutex_t lock;
	uint64_t host_tsc0, host_ns0; /* when it was made, for the rate */
	bool known, frozen;
	int64_t distance[2];   /* guest minus host, best of this window and of the one before */
	uint64_t window_start; /* ns */
	uint64_t frozen_at;    /* the counter while the guest is stopped */
};

/* Of a guest of which no stamp has been seen. */
void libvirt_clock_init(struct libvirt_clock *clock);
void libvirt_clock_deinit(struct libvirt_clock *clock);

/* A vCPU has written this stamp. */
void libvirt_clock_seen(struct libvirt_clock *clock, uint64_t tsc);
/* 0 while nothing was seen. */
uint64_t libvirt_clock_tsc(struct libvirt_clock *clock);
/* The guest is stopped, or runs again. */
void libvirt_clock_freeze(struct libvirt_clock *clock, bool frozen);

/* Counter to nanoseconds since it was 0. Better the later it is asked. */
int libvirt_clock_rate(struct libvirt_clock *clock, struct tsc_clock *out, struct error *err);

#endif

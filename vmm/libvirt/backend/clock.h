/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_CLOCK_H
#define SONDE_VMM_LIBVIRT_BACKEND_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include "introspect/guest/clock.h"

/*
 * An estimate of the time stamp counter of vCPUs that another process runs. It runs at the rate of
 * the host's, at an unknown distance, which becomes smaller when QEMU pauses an emulated guest.
 * Each stamp that a vCPU has written is a lower bound of the distance; the largest of the last 250
 * to 500 ms is used. The newest stamps are to be shown: those of records that were read late make
 * the estimate late, too, and a vCPU that writes all the time never corrects it.
 *
 * Stamps come from memory that the guest writes, and one may be damaged. One that is far ahead of
 * the estimate is believed only if the next one confirms it.
 */
struct libvirt_clock {
	pthread_mutex_t lock;
	uint64_t host_tsc0, host_ns0; /* at init, for the rate */
	bool known, frozen;
	int64_t distance[2];   /* guest minus host: largest of this window, of the one before */
	uint64_t window_start; /* ns */
	uint64_t frozen_at;    /* the estimate while the guest is stopped */
	uint64_t latest;       /* of the stamps that were believed */
	uint64_t seen_at;      /* the host's counter at the last one */
	uint64_t claim;        /* a stamp that was not believed; 0: the last one was */
};

void libvirt_clock_init(struct libvirt_clock *clock);
void libvirt_clock_deinit(struct libvirt_clock *clock);

/* A vCPU has written this stamp. */
void libvirt_clock_seen(struct libvirt_clock *clock, uint64_t tsc);
/* The estimate; 0 before the first stamp. While another user of libvirt has paused the guest it
 * runs on, and is ahead of the counter until the next stamp. */
uint64_t libvirt_clock_estimate(struct libvirt_clock *clock);
/*
 * The latest stamp, which the counter has reached for certain: it may stand still at any time, and
 * the estimate learns of that only afterwards. 0 before the first stamp.
 */
uint64_t libvirt_clock_tsc(struct libvirt_clock *clock);
/* The guest was stopped, or is about to run again. */
void libvirt_clock_freeze(struct libvirt_clock *clock, bool frozen);

/* The conversion from the counter to nanoseconds since it was 0. The later, the more precise; it
 * waits until 50 ms after init. */
int libvirt_clock_rate(struct libvirt_clock *clock, struct tsc_clock *out, struct error *err);

#endif

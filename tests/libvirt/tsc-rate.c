// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tsc-rate: prints how many ticks the TSC of this machine makes in a millisecond of
 * CLOCK_MONOTONIC_RAW, measured for 100 ms.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { TRIES = 1000, PAUSE_NS = 100000000, NS_PER_S = 1000000000, NS_PER_MS = 1000000 };

struct sample {
	uint64_t tsc, ns, width; /* in ticks, of the interval in which `ns` was read */
};

static uint64_t read_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The narrowest of many: this process may be interrupted. */
static struct sample take(void)
{
	struct sample best = {.width = UINT64_MAX};

	for (unsigned int i = 0; i < TRIES; i++) {
		const uint64_t before = __rdtsc(), ns = read_ns(), width = __rdtsc() - before;

		if (width < best.width)
			best = (struct sample){before + width / 2, ns, width};
	}
	return best;
}

int main(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct sample from = take(), to;

	nanosleep(&pause, NULL);
	to = take();
	printf("%.0f\n", (double)(to.tsc - from.tsc) * NS_PER_MS / (double)(to.ns - from.ns));
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * clock [-n COUNT]: reads the guest's clocks together, every 200 ms, on each CPU in turn, and
 * prints
 *
 *   sonde-clock: CPU TSC RAW WIDTH KMSG
 *
 * RAW is CLOCK_MONOTONIC_RAW in ns; the TSC was read within WIDTH ns of it. KMSG is the TSC just
 * before the message "sonde-kmsg: NUMBER" was written to the kernel's log.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { DEFAULT_COUNT = 10, TRIES = 20, PAUSE_US = 200000 };

struct sample {
	uint64_t tsc, raw, width;
};

static uint64_t read_tsc(void)
{
	_mm_lfence();
	return __rdtsc();
}

static uint64_t read_raw(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The narrowest of several readings. */
static struct sample take_sample(void)
{
	struct sample best = {.width = UINT64_MAX};

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = read_raw(), tsc = read_tsc(), width = read_raw() - before;

		if (width < best.width)
			best = (struct sample){tsc, before + width / 2, width};
	}
	return best;
}

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("clock: sched_setaffinity");
		exit(1);
	}
}

static uint64_t log_message(int fd, int number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "<4>sonde-kmsg: %d\n", number);
	uint64_t tsc = read_tsc();

	if (write(fd, text, (size_t)n) != n) {
		perror("clock: /dev/kmsg");
		exit(1);
	}
	return tsc;
}

int main(int argc, char **argv)
{
	int count = argc == 3 && !strcmp(argv[1], "-n") ? atoi(argv[2]) : DEFAULT_COUNT;
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	int fd = open("/dev/kmsg", O_WRONLY);

	for (int i = 0; i < count; i++) {
		struct sample sample;
		uint64_t kmsg;

		pin_to(i % cpus);
		sample = take_sample();
		kmsg = log_message(fd, i);
		printf("sonde-clock: %d %llu %llu %llu %llu\n", i % cpus,
		       (unsigned long long)sample.tsc, (unsigned long long)sample.raw,
		       (unsigned long long)sample.width, (unsigned long long)kmsg);
		fflush(stdout);
		usleep(PAUSE_US);
	}
	return 0;
}

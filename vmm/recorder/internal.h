/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_INTERNAL_H
#define SONDE_VMM_RECORDER_INTERNAL_H

#include <pthread.h>
#include "guest-symbols/image/kernel-image.h"
#include "vmm/recorder/recorder.h"

/*
 * run-trace.c owns and drives it; run-trace-monitor.c serves the monitor; run-trace-tell.c says how
 * it went.
 */
struct run_trace {
	char *dir;
	const char *const *specs;
	unsigned int nr_vcpus;
	unsigned int encoding;
	struct trace_options options;
	const char *verb, *clock, *memory;
	const char *ended; /* NULL: as its user asked */
	struct kernel_image *image;
	struct trace_writer *writer;
	struct trace_session *session; /* while the machine exists */
	struct guest *guest;
	/*
	 * Around all use of the session while the guest runs: look comes from a vCPU's
	 * thread. The main thread takes it and may then wait for its turn to stop the
	 * guest; a vCPU that has it never waits for that (see observe_look()). So the main
	 * thread never waits long, paused or not.
	 */
	pthread_mutex_t lock;
	bool placed; /* it is known where the kernel runs */
	uint64_t virt_slide, phys_text;
	bool started; /* has been on at least once */
	uint64_t starts;
	int64_t started_ns, started_realtime_ns;
	struct error failed;      /* the first thing that went wrong; code 0 = nothing */
	struct trace_status last; /* of the session, taken before it went */
};

/* With the lock held: start tracing `specs` (NULL: those of last time). Errors as
 * trace_session_start(). */
int run_trace_start_locked(struct run_trace *t, const char *const *specs, struct error *err);

/* What all vCPUs have in the trace. */
struct trace_writer_counts run_trace_sum(const struct run_trace *t);
/* Of the time that was traced. */
double run_trace_events_per_second(const struct run_trace *t, const struct trace_status *status);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_RECORDER_H
#define SONDE_VMM_RECORDER_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include "formats/base/error.h"
#include "formats/trace/writer.h"
#include "patcher/session/session.h"
#include "vmm/monitor/verb.h"
#include "vmm/machine/vm.h"

/*
 * The tracing part of `sonde run`: it owns the kernel image, the trace writer and the session, and
 * connects them to the machine (as its observer) and to the monitor.
 */
struct run_trace;

struct run_trace_config {
	const char *kernel;         /* the same file that the machine boots */
	struct kernel_image *image; /* taken over instead, also on error; NULL: read the file */
	const char *dir;          /* trace directory, new or empty; NULL: nothing will be traced */
	const char *const *specs; /* NULL-terminated; tracing starts with the guest if not empty */
	unsigned int nr_vcpus;
	unsigned int encoding; /* of the trace directory */
	struct trace_options options;
	const char *verb;   /* for messages */
	const char *clock;  /* what time stamps count */
	const char *memory; /* how the guest's memory is read, and why so; NULL: it is our own */
};

/* Analyse the kernel; errors are for the user. */
int run_trace_create(const struct run_trace_config *config, struct run_trace **out,
		     struct error *err);
/* After the machine is gone. NULL-safe. */
void run_trace_destroy(struct run_trace *trace);

/* To be given to vm_create() and to the monitor (with the run_trace as argument). */
struct vm_observer run_trace_observer(struct run_trace *trace);
const struct monitor_trace_ops *run_trace_monitor_ops(void);

/* Where the kernel was found: it is not searched again. Before the guest is traced. */
void run_trace_kernel_at(struct run_trace *trace, uint64_t virt_slide, uint64_t phys_text);

/*
 * Instead of an observer, for a guest that runs already and is not a machine of ours: start
 * tracing, and end it while the guest's memory still exists. -EAGAIN: it is still booting.
 */
int run_trace_begin(struct run_trace *trace, struct guest *guest, struct error *err);
void run_trace_end(struct run_trace *trace);
/* Likewise, but its memory does not exist any more, or is another guest's. */
void run_trace_abandon(struct run_trace *trace);
/* What ended it, for whoever reads the trace: before the end. The text stays the caller's. */
void run_trace_note(struct run_trace *trace, const char *ended);

/* Which functions cannot be traced, and why, on stderr: after a start, before the end. */
void run_trace_tell_refused(const struct run_trace *trace);

/* As trace_session_tick(), some times per second; a failure is told at the end. */
void run_trace_tick(struct run_trace *trace);
/* After the run, of a trace by traps: how many events a second there were, and how much of the time
 * was left out. On stderr. */
void run_trace_tell_rate(const struct run_trace *trace);

/* Events in the trace so far. */
uint64_t run_trace_events(const struct run_trace *trace);
const struct kernel_image *run_trace_image(const struct run_trace *trace);

/*
 * After the run: print on stderr what was recorded and what was lost. Returns 0, or -errno with
 * *err set if the trace is not what was asked for (tracing never started, disk full, text not
 * restored).
 */
int run_trace_conclude(const struct run_trace *trace, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_SESSION_SESSION_H
#define SONDE_PATCHER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/trace-info.h"
#include "formats/trace/writer.h"
#include "guest-symbols/image/kernel-image.h"
#include "introspect/guest/guest.h"
#include "patcher/text/patch-set.h"
#include "patcher/plan/patch-plan.h"

/*
 * Tracing of one guest: finds the kernel, hooks what the tracers want, feeds their records to the
 * trace writer, and takes everything back. Can be started and stopped any number of times.
 * locate, start, stop, status, info and translate may be called from one thread at a time (not from
 * trap handlers).
 */
struct trace_session;

/* guest, image and writer are borrowed until destroy. */
int trace_session_create(struct guest *guest, const struct kernel_image *image,
			 struct trace_writer *writer, struct trace_session **out,
			 struct error *err);

/* How to trace; by default by traps. Before the first start. */
struct trace_options {
	uint64_t max_rate;   /* traps: calls per second that are looked at; 0: all */
	bool exitless;       /* where the guest can have it; else, and early in boot, traps */
	bool drop;           /* exitless: a full ring loses events; else the vCPU waits */
	uint32_t ring_bytes; /* exitless: per vCPU, a power of two from RING_MIN_DATA on */
};
void trace_session_set_options(struct trace_session *session, const struct trace_options *options);

/* Stops if started. NULL-safe. */
void trace_session_destroy(struct trace_session *session);

/* The loader placed the kernel itself: it need not be searched. Before the guest starts. */
void trace_session_kernel_at(struct trace_session *session, uint64_t virt_slide,
			     uint64_t phys_text);

/* The part of a start that can be polled while the guest runs: -EAGAIN while its kernel cannot be
 * found yet, -ESTALE if it is not where its loader said. */
int trace_session_locate(struct trace_session *session, struct error *err);

/*
 * Start tracing `specs` (NULL-terminated; NULL or empty: those of the last start, at first "kmem").
 * -EAGAIN while the guest's kernel cannot be found yet: call again; -EALREADY; -EINVAL bad spec.
 * A guest that still boots is traced through ftrace_init() and the alternatives without a gap.
 */
int trace_session_start(struct trace_session *session, const char *const *specs, struct error *err);

/*
 * Put the guest's text back as it was, and in exitless mode take our memory away, for which the
 * guest has to run; from one that is paused it goes later. -EALREADY if not started. -EBUSY if the
 * guest does not get out of our memory: its text is back, and tracing off.
 */
int trace_session_stop(struct trace_session *session, struct error *err);

/*
 * With max_rate, to be called some times per second while the guest runs: when a second with too
 * many calls is over, its traps are put back. Where traps are breaks (introspect/guest/guest.h).
 */
int trace_session_tick(struct trace_session *session, struct error *err);

/* The same at the end, when the guest does not run any more. 0 also if not started. */
int trace_session_end(struct trace_session *session, struct error *err);

/*
 * What a start would patch, and what it would refuse, as the guest's text stands now; nothing is
 * changed. *out is the session's until the next start. Errors as trace_session_start().
 */
int trace_session_plan(struct trace_session *session, const char *const *specs,
		       const struct patch_plan **out, struct error *err);

enum { TRACE_MAX_TRACERS = 8, TRACE_SPEC_MAX = 64, TRACE_MAX_VCPUS = 64 };

struct trace_status {
	bool enabled;
	bool located; /* the kernel was found */
	uint64_t virt_slide, phys_text;
	char specs[TRACE_MAX_TRACERS][TRACE_SPEC_MAX];
	unsigned int nr_specs;
	size_t entry_sites, return_sites; /* patched now, or by the last start */
	const struct site_refusal
		*refused; /* owned by the session, until the next status or start */
	size_t nr_refused;
	const struct probe_gap *gaps; /* what the tracers cannot see, likewise owned */
	size_t nr_gaps;
	struct patch_outcome restored;  /* of the last stop, both sets */
	bool exitless;                  /* trampolines are in place, or were last */
	char no_exitless[160];          /* why they are not, though wanted; "" otherwise */
	struct trace_counters counters; /* since creation; of the writer it has none */
	struct trace_counters vcpus[TRACE_MAX_VCPUS];
};
void trace_session_status(const struct trace_session *session, struct trace_status *out);

/* Fill in what the session knows: tracers, banner, build id, slide; and add its counters. */
void trace_session_info(const struct trace_session *session, struct trace_info *info);

/* Function names for the sidecar (trace_symbolize_fn); only while the guest's memory exists. */
int trace_session_symbolize(void *session, uint64_t gva, char *name, size_t name_size,
			    uint64_t *start, uint64_t *size);

/* Guest-physical address of a kernel gva, for the monitor. -EAGAIN while the kernel is not found.
 */
int trace_session_translate(const struct trace_session *session, uint64_t gva, uint64_t *gpa,
			    struct error *err);

/* Set (once) when something went wrong while tracing, in a trap handler for instance; else NULL.
 * From any thread. */
const struct error *trace_session_failure(const struct trace_session *session);

#endif

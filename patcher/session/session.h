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
#include "patcher/ring/hist.h"
#include "patcher/ring/profile.h"

/*
 * Tracing of one guest: finds the kernel, patches the functions that the tracers want to see, takes
 * the hits to them, and restores the guest. It can be started and stopped any number of times. One
 * thread at a time calls locate, start, stop, status, info and translate, never a trap handler.
 */
struct trace_session;

/* guest, image and writer are borrowed until the session is destroyed. */
int trace_session_create(struct guest *guest, const struct kernel_image *image,
			 struct trace_writer *writer, struct trace_session **out,
			 struct error *err);

/* How to trace; the default is by traps. Before the first start. */
struct trace_options {
	uint64_t max_rate;   /* traps: calls per second that are seen; 0: all */
	bool exitless;       /* where the guest can have it; otherwise, and early in boot, traps */
	bool drop;           /* exitless: a full ring loses events; else the vCPU waits */
	uint32_t ring_bytes; /* exitless: per vCPU, a power of two from RING_MIN_DATA on */
	/* On a vCPU's thread: have trace_session_tick() called soon. NULL: it is called anyway. */
	void (*wake)(void *arg);
	void *wake_arg;
};
void trace_session_set_options(struct trace_session *session, const struct trace_options *options);

/* Stops if started. NULL-safe. */
void trace_session_destroy(struct trace_session *session);

/* The loader placed the kernel itself, so that it is not searched. Before the guest starts. */
void trace_session_kernel_at(struct trace_session *session, uint64_t virt_slide,
			     uint64_t phys_text);

/* Whether the guest's kernel has panicked: 1 or 0, by its variable panic_cpu. -errno: that is not
 * known, as the kernel has not been found, or is not the one in memory any more, or cannot be read.
 */
int trace_session_guest_panicked(struct trace_session *session);

/* The part of a start that can be polled while the guest runs. -EAGAIN: its kernel cannot be found
 * yet. -ESTALE: the kernel is not where its loader said. */
int trace_session_locate(struct trace_session *session, struct error *err);

/*
 * Start tracing `specs` (NULL-terminated; NULL or empty: those of the last start, at first "kmem").
 * A guest that still boots is traced through ftrace_init() and the alternatives without a gap.
 * -EAGAIN: the guest's kernel cannot be found yet; call again. -EALREADY: tracing is on. -EINVAL:
 * bad spec. -EBUSY: the guest is still inside the trampolines of the last start. -EINPROGRESS: it
 * is, and is paused.
 */
int trace_session_start(struct trace_session *session, const char *const *specs, struct error *err);

/*
 * Trace these specs from now on, while tracing is on, or from the next start on while it is off. A
 * spec is "[NAME=]TRACER[:...]"; an instance goes on if both name and spec are as before. What
 * changes is planned and made while the guest runs; then one stop of the vCPUs changes the text,
 * all of it or nothing; none if the same functions are to be patched. What is recorded before that
 * goes to the instances of before. After an error all is as before.
 *
 * -EINVAL: bad spec. -EEXIST: two have the same name. -ENOENT: no function is meant. -ENOSPC: too
 * little memory for code or rings. -ENOTSUP: this tracer needs exitless mode, which will not come.
 * -ESTALE: the guest has changed the text of a function. -EBUSY: a stop has failed half-way, so
 * that tracing is on without patches. -EAGAIN: the guest's own ftrace is changing its sites; or
 * what was recorded before the last change is not complete yet, as the guest is paused or held up.
 * While the guest boots, functions of its modules cannot be known: an instance that turns out to
 * mean none records nothing, and its status says so.
 */
int trace_session_set_instances(struct trace_session *session, const char *const *specs, size_t n,
				struct error *err);

/* That of one instance among the others. -EEXIST, -ENOENT: there is one, or none, of this name.
 */
int trace_session_add_instance(struct trace_session *session, const char *spec, struct error *err);
int trace_session_remove_instance(struct trace_session *session, const char *name,
				  struct error *err);
/* Replaces the instance of the same name. */
int trace_session_replace_instance(struct trace_session *session, const char *spec,
				   struct error *err);

/*
 * Restore the guest's text. In exitless mode also take the trampolines away, for which the guest
 * must run; from a paused guest they go later. -EALREADY: tracing is off. -EBUSY: the guest is
 * still inside the trampolines; its text is restored, and tracing off.
 */
int trace_session_stop(struct trace_session *session, struct error *err);

/*
 * Call it some times per second while the guest runs. It puts traps back when a second with too
 * many calls is over, installs trampolines when the guest is ready and no trap has shown it, starts
 * instances that waited for them, closes the streams of those that are gone, captures no more than
 * the instances ask for, and follows the modules of the guest: functions of those that were loaded
 * are recorded from then on.
 */
int trace_session_tick(struct trace_session *session, struct error *err);

/* A stop when the guest will not run any more. 0 also if tracing is off. */
int trace_session_end(struct trace_session *session, struct error *err);

/*
 * What a start would patch and refuse in the guest's present text; changes nothing. *out is the
 * session's until the next start. Errors as trace_session_start().
 */
int trace_session_plan(struct trace_session *session, const char *const *specs,
		       const struct patch_plan **out, struct error *err);
/* After a plan, while the guest does not run or is held: -ENOTSUP if a guest without traps cannot
 * be traced, because kprobes that it makes meanwhile could not be noticed; -EBUSY if one is
 * registered where the guest would have to ask. A start fails likewise. */
int trace_session_check_exitless(const struct trace_session *session, struct error *err);

enum { TRACE_MAX_INSTANCES = 32, TRACE_MAX_VCPUS = 64, TRACE_REASON_MAX = 160 };

/* What the guest may do to its own text or kernel, and why it may not while it is traced. And what
 * it must not do, if it cannot be kept from it. */
enum { TRACE_MAX_YIELDS = 5 };
struct trace_yield {
	const char *to;                 /* "ftrace" */
	char refusal[TRACE_REASON_MAX]; /* why the tracer cannot give way to it; "": it can */
};

/* Of one instance; all strings are owned by the session until its instances change. */
struct trace_instance_status {
	const char *name, *spec, *tracer; /* spec: as the user wrote it */
	bool direct;                      /* an event is a record, else several may make one */
	bool active;                      /* traces now */
	bool begun;                       /* traces now, or has traced */
	bool asked;                       /* tracing is on, or was, while it was there */
	const char *waiting; /* why it does not, though tracing is on; NULL: no reason */
	bool failed;         /* it means no function, though others are traced */
	/* What is unusual about the functions that it means; until the next tick or change. */
	const char *const *notes;
	size_t nr_notes;
	size_t sites;      /* functions that it records */
	size_t nr_refused; /* that it should, and cannot */
	const struct site_refusal *refused;
	/* The conditions of its spec that the guest decides, before it writes a record, and those
	 * that the host does; "" if there are none. */
	const char *guest_conditions, *host_conditions;
	uint64_t id;      /* another one than of any other instance of the session */
	uint64_t records; /* of the direct lane */
	uint64_t lost;    /* events: by its rings, which it may share, and in writing the trace */
};

/* Stops of the vCPUs in which sites of the direct lane changed, since creation. */
struct trace_switches {
	uint64_t times, sites; /* stops, and sites that changed in them */
	uint64_t ns;           /* host time for which the guest was stopped */
};
struct trace_switches trace_session_switches(const struct trace_session *session);
/* Those that have come since. */
struct trace_switches trace_switches_since(const struct trace_switches *now,
					   const struct trace_switches *before);

struct trace_status {
	bool enabled;
	bool located; /* the kernel was found */
	uint64_t virt_slide, phys_text;
	const char *specs[TRACE_MAX_INSTANCES]; /* owned by the session until the next change */
	unsigned int nr_specs;
	struct trace_instance_status instances[TRACE_MAX_INSTANCES]; /* by spec */
	size_t entry_sites, return_sites; /* patched now, or by the last start */
	const struct site_refusal
		*refused; /* owned by the session, until the next status or start */
	size_t nr_refused;
	/* What the tracers cannot see, and functions that cannot be patched; likewise owned. */
	const struct probe_gap *gaps;
	size_t nr_gaps;
	struct patch_outcome restored; /* by the last stop */
	bool exitless;                 /* trampolines are in place, or were during the last start */
	char no_exitless[TRACE_REASON_MAX];          /* why not, though wanted; else "" */
	struct trace_yield yields[TRACE_MAX_YIELDS]; /* after a start or a plan */
	unsigned int nr_yields;
	/* When tracing began the guest had found its time stamp counters unstable, and they cannot
	 * be compared from here. */
	bool tsc_doubtful;
	struct trace_counters counters; /* since creation, without the writer's */
	struct trace_counters vcpus[TRACE_MAX_VCPUS];
};
void trace_session_status(const struct trace_session *session, struct trace_status *out);

/* What instances of the profile tracer have counted, those that are gone included, the oldest
 * first; as long as they are, owned by the session until its instances change. Returns how many. */
enum { TRACE_MAX_PROFILES = 2 * TRACE_MAX_INSTANCES };
struct trace_profile {
	const char *name, *spec;
	bool ended; /* its instance is gone */
	struct profile *profile;
};
size_t trace_session_profiles(const struct trace_session *session,
			      struct trace_profile out[TRACE_MAX_PROFILES]);

/* Likewise the histograms that instances have made; both together are no more. */
struct trace_hist {
	const char *name, *spec;
	bool ended;
	struct hist *hist;
};
size_t trace_session_hists(const struct trace_session *session,
			   struct trace_hist out[TRACE_MAX_PROFILES]);

/* The name of a system call by its number, the image's; NULL: there is none. */
const char *trace_session_syscall(const struct trace_session *session, uint64_t number);

/* Fill in what the session knows: tracers, banner, build id, slide; and add its counters. */
void trace_session_info(struct trace_session *session, struct trace_info *info);

/*
 * Function names for the trace (trace_symbolize_fn); only while the guest's memory exists. The list
 * of modules is read again at most every few seconds: -EAGAIN until then for an address that is not
 * in it. Never stops the guest: where reading its memory does, modules' functions have no names
 * (-EAGAIN) until trace_session_modules_changed().
 */
int trace_session_symbolize(void *session, uint64_t gva, struct site_function *out);
/* The same for addresses in the kernel's image alone, which needs no lock once there are events,
 * and no memory of the guest. -EAGAIN for all others. */
int trace_session_symbolize_image(void *session, uint64_t gva, struct site_function *out);

/* The next look-up of an address outside the image reads the list of modules again, on any guest.
 */
void trace_session_modules_changed(struct trace_session *session);

/* Guest-physical address of a kernel gva, for the monitor. -EAGAIN while the kernel is not found.
 */
int trace_session_translate(const struct trace_session *session, uint64_t gva, uint64_t *gpa,
			    struct error *err);

/*
 * Why the session is to be stopped: the guest hibernates, or starts another kernel (kexec), for
 * which it waits in its kernel, 20 s at most; or its CPUs have changed so that records cannot be
 * put in order any more. NULL: it may go on. Valid until the session is destroyed. Any thread.
 */
const char *trace_session_must_end(const struct trace_session *session);

/* The first thing that went wrong while tracing, in a trap handler for instance; NULL: nothing. Any
 * thread. */
const struct error *trace_session_failure(const struct trace_session *session);

#endif

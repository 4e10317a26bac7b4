/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_RECORDER_H
#define SONDE_VMM_RECORDER_RECORDER_H

#include <stdbool.h>
#include <stdio.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"
#include "introspect/guest/guest.h"
#include "vmm/monitor/verb.h"
#include "vmm/recorder/options.h"

/*
 * The part that all verbs share which trace a guest. It owns the kernel image, the trace writer and
 * the session, handles signals and limits, serves the monitor, and prints the results. It knows the
 * guest as a struct guest, and the owner of the guest (sonde run's machine, sonde attach's domain)
 * by its struct monitor_guest_ops. Main thread only, except recorder_poll().
 *
 * Order: create, watch, begin, run, end, close, conclude, destroy. After a failure continue with
 * end. close may come before end.
 */
struct recorder;
struct event_loop;

struct recorder_config {
	const char *verb; /* for messages */
	const struct recorder_options *options;
	struct event_loop *loop;
	struct kernel_image *image; /* taken over, also on error; NULL: read `kernel` */
	const char *kernel;         /* its file; NULL: no image is needed */
	unsigned int nr_vcpus;
	const char *clock;  /* of the time stamps, for the sidecar */
	const char *memory; /* how guest memory is read, for the sidecar */
	const char *domain; /* the guest's name, for monitor and metrics; NULL: it has none */
	bool progress;      /* show the counts on the terminal, which the guest does not use */
	bool no_trace;      /* write nothing, even if options->output is set */
	/* The guest waits for this process: job control must not stop it. SIGTSTP (Ctrl-Z) ends the
	 * run, SIGTTIN and SIGTTOU are ignored. */
	bool never_stopped;
	/* The guest boots this kernel, and has no modules yet: functions that specs name must be
	 * the kernel's, unless they name a module. */
	bool boots;
	/* Async-signal-safe: called before a second signal kills the process. May be NULL. */
	void (*before_death)(void);
};

/*
 * Prepare the trace directory and analyse the kernel. Without options->output the recorder traces
 * nothing, but handles signals, limits and the monitor. `options`, `loop` and `domain` must outlive
 * the recorder. Errors are one line for the user: those of trace_writer_prepare(),
 * kernel_given_open(), kernel_image_open() and tracer_check_image(), -ENOMEM.
 */
int recorder_create(const struct recorder_config *config, struct recorder **out, struct error *err);
/* NULL-safe. After recorder_end(). */
void recorder_destroy(struct recorder *recorder);

/* NULL without an image. */
const struct kernel_image *recorder_image(const struct recorder *recorder);

/* The kernel's location is known: guest memory need not be searched. Before recorder_begin(). */
void recorder_kernel_at(struct recorder *recorder, uint64_t virt_slide, uint64_t text_gpa);

/* From now on job control does not stop this process: as config->never_stopped, for what comes
 * before recorder_watch(), which takes up a SIGTSTP that has come meanwhile. */
void recorder_never_stop(void);
/*
 * Catch SIGINT, SIGTERM and SIGHUP: the first one calls ops->quit(), the next one kills the
 * process. Listen for monitor clients. Existing threads must block these signals; new ones inherit
 * that. The umask changes for a moment.
 */
int recorder_watch(struct recorder *recorder, struct guest *guest,
		   const struct monitor_guest_ops *ops, void *arg, struct error *err);

/*
 * Create the session. If the command line has specs and the kernel's location is known, start
 * tracing. Before the guest's first instruction, or while the guest runs. -EAGAIN: the guest is
 * still booting. Other errors: those of trace_writer_create() and trace_session_start().
 */
int recorder_begin(struct recorder *recorder, struct guest *guest, struct error *err);

/*
 * For a guest that places its kernel itself: start tracing when the kernel is found in memory. To
 * be called while the guest boots, also on a vCPU's thread, until it returns true.
 */
bool recorder_poll(struct recorder *recorder);

/*
 * Run the event loop, with the limits of the command line, until something ends it. *reason is what
 * event_loop_run() returns. Any later signal kills the process.
 */
int recorder_run(struct recorder *recorder, int *reason, struct error *err);
/* Why tracing has ended, if neither the user nor a limit ended it: "the guest hibernates"; NULL: it
 * has not. The loop goes on. Valid as long as the recorder. */
const char *recorder_ended(const struct recorder *recorder);
/* The signal that has ended the run, or 0. */
int recorder_signal(const struct recorder *recorder);

enum recorder_leave {
	RECORDER_GUEST_RUNS, /* its text is put back, and its vCPUs leave the trampolines */
	RECORDER_GUEST_OVER, /* its vCPUs have ended, or it is another guest: no vCPU is waited for
			      */
};
/*
 * End tracing, and complete the trace. `why`, if not NULL, says why tracing ended if not by the
 * user or a limit; it must outlive the recorder. The guest's memory must still exist. Idempotent.
 */
void recorder_end(struct recorder *recorder, enum recorder_leave leave, const char *why);

/*
 * Have written to the trace what a flight recorder keeps; it goes on. Other recorders write what
 * they have gathered. Does not wait for the disk: the user is told of a failure when it is known.
 */
void recorder_snapshot(struct recorder *recorder);

/* Whether the guest's kernel has panicked: 1 or 0, by its own memory. -errno: that is not known, as
 * its kernel has not been found, or tracing has ended. */
int recorder_guest_panicked(struct recorder *recorder);

/* Print "sonde VERB: <formatted>" as one line on stderr while the guest is traced: waits neither
 * for a terminal that is stopped nor for a reader. Thread-safe. */
void recorder_say(struct recorder *recorder, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Send an event to the monitor's clients; `data` is taken over and may be NULL. */
void recorder_event(struct recorder *recorder, const char *name, json_t *data);
/* Disconnect the monitor's clients, and remove its socket. Any later signal kills the process. */
void recorder_close(struct recorder *recorder);

/*
 * Print on stderr which limit ended the run, what was recorded and what was lost. Returns 0, or
 * -errno with *err set if the trace is not what was asked for (tracing never started, disk full,
 * text not restored). After recorder_end().
 */
int recorder_conclude(const struct recorder *recorder, struct error *err);
/* Print which command shows the trace, if there is one: the last line. */
void recorder_print_next(const struct recorder *recorder);

/* For -v: the kernel, and its location. `how` says how it was found; may be NULL. */
void recorder_print_kernel(const struct recorder *recorder, const char *how, FILE *to);

/* Print what the guest decides of an instance's conditions, and what the host, each with `before`
 * and `after` around it; nothing of an instance without conditions. */
struct trace_instance_status;
void recorder_print_conditions(const struct trace_instance_status *instance, const char *before,
			       const char *after, FILE *to);

#endif

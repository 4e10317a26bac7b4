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
 * What every verb does that traces a guest: it owns the kernel image, the trace writer and the
 * session, watches for signals and limits, serves the monitor, and prints how it went. It knows the
 * guest as a struct guest, and its owner (a machine of this process, a libvirt domain) by struct
 * monitor_guest_ops. Main thread only, but for recorder_poll().
 *
 * In this order: create, watch, begin, run, end, close, conclude, destroy. Close and end can also
 * be swapped; after a failure go on with either.
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
	const char *clock;  /* what time stamps count */
	const char *memory; /* how the guest's memory is read, and why so */
	bool progress;      /* the terminal is free for a line that shows the counts */
	bool no_trace;      /* nothing is written, whatever the options say */
	/* Async-signal-safe: called before a second signal kills the process. May be NULL. */
	void (*before_death)(void);
};

/*
 * Prepare the trace directory and analyse the kernel. Without options->output nothing is traced,
 * all else works. `options` and `loop` must outlive the recorder. Errors are for the user.
 */
int recorder_create(const struct recorder_config *config, struct recorder **out, struct error *err);
/* NULL-safe. After recorder_end(). */
void recorder_destroy(struct recorder *recorder);

/* NULL without an image. */
const struct kernel_image *recorder_image(const struct recorder *recorder);

/* Where the kernel is: the guest's memory is not searched for it. Before recorder_begin(). */
void recorder_kernel_at(struct recorder *recorder, uint64_t virt_slide, uint64_t text_gpa);

/*
 * Catch SIGINT, SIGTERM and SIGHUP: the first calls ops->quit(), and the next kills the process.
 * Listen for monitor clients. Threads that exist by then must block these signals; the umask
 * changes for a moment.
 */
int recorder_watch(struct recorder *recorder, struct guest *guest,
		   const struct monitor_guest_ops *ops, void *arg, struct error *err);

/*
 * Create the session and start tracing the specs of the command line, if there are any, and it is
 * known where the kernel is. Before the guest's first instruction, or while it runs. -EAGAIN: the
 * guest is still booting.
 */
int recorder_begin(struct recorder *recorder, struct guest *guest, struct error *err);

/*
 * Start tracing when the kernel can be found in a guest that places it itself. To be called while
 * the guest boots, also on a vCPU's thread, until it returns true: nothing is left to wait for.
 */
bool recorder_poll(struct recorder *recorder);

/*
 * Run the event loop, with the limits of the command line, until something ends it. *reason is what
 * event_loop_run() returns. From then on any signal kills the process.
 */
int recorder_run(struct recorder *recorder, int *reason, struct error *err);
/* The signal that has ended the run, or 0. */
int recorder_signal(const struct recorder *recorder);

enum recorder_leave {
	RECORDER_GUEST_RUNS, /* its text is put back, and its vCPUs leave the trampolines */
	RECORDER_GUEST_OVER, /* its vCPUs have ended, or it is another guest: nobody is waited for
			      */
};
/*
 * End tracing, and complete the trace. `why` says what ended it if not its user, or is NULL; it is
 * kept until recorder_destroy(). The guest's memory must still exist. Idempotent.
 */
void recorder_end(struct recorder *recorder, enum recorder_leave leave, const char *why);

/* Send an event to the monitor's clients; `data` is taken over and may be NULL. */
void recorder_event(struct recorder *recorder, const char *name, json_t *data);
/* Disconnect the monitor's clients, and remove its socket. From then on any signal kills the
 * process.
 */
void recorder_close(struct recorder *recorder);

/*
 * Print on stderr what was recorded and what was lost. Returns 0, or -errno with *err set if the
 * trace is not what was asked for (tracing never started, disk full, text not restored). After
 * recorder_end().
 */
int recorder_conclude(const struct recorder *recorder, struct error *err);
/* Print which command shows the trace, if there is one: the last line. */
void recorder_print_next(const struct recorder *recorder);

/* Which kernel it is, and where: for -v. `how` it was found out may be NULL. */
void recorder_print_kernel(const struct recorder *recorder, const char *how, FILE *to);
/* Which functions are not traced, and why. On stderr, after recorder_begin(). */
void recorder_print_refused(const struct recorder *recorder);

#endif

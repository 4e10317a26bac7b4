/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_INTERNAL_H
#define SONDE_VMM_RECORDER_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include "formats/trace/writer.h"
#include "patcher/session/session.h"
#include "vmm/monitor/monitor.h"
#include "vmm/recorder/live-memory.h"
#include "vmm/recorder/messages.h"
#include "vmm/recorder/metrics-file.h"
#include "vmm/recorder/recorder.h"
#include "vmm/recorder/snapshots.h"

/* recorder.c: the trace; disk.c: while its disk hangs; watch.c: what ends it; monitor.c: clients;
 * report.c: output; snapshots.c: what a flight recorder writes meanwhile; profiles.c, hists.c: what
 * was counted, document.c writes it. */
struct recorder {
	struct recorder_config config;
	const struct recorder_options *options;
	const char *dir; /* of the trace; NULL: none */
	struct kernel_image *image;
	struct guest *guest;

	struct trace_writer *writer;
	struct trace_session *session; /* from begin to end */
	struct snapshots *snapshots;   /* likewise */
	struct snapshot *snapshot;     /* that recorder_snapshot() asked for last; or NULL */
	/*
	 * Around all use of the session while the guest runs, because recorder_poll() is called on
	 * a vCPU's thread. The main thread may wait for its turn to stop the guest while it holds
	 * the lock; a vCPU's thread must not. So the main thread never waits long, even while the
	 * guest is paused.
	 */
	pthread_mutex_t lock;
	bool located; /* virt_slide and text_gpa are known */
	uint64_t virt_slide, text_gpa;
	uint64_t starts; /* how often tracing was switched on */
	int64_t started_ns, started_realtime_ns;
	const char *ended;    /* why the trace ended, if not by a command, a signal or the guest */
	char ended_text[256]; /* where that may be kept */
	bool end_failed;      /* tracing has to end, and the user was told that it cannot */
	const char *limit_reached; /* the option that ended the run; or NULL */
	struct error failed;       /* the first failure; code 0: none */
	bool has_profiles;         /* the trace has them; at its end */
	bool has_hists;            /* likewise histograms */
	struct trace_status last;  /* of the session, before it was destroyed */

	/* What ends it. */
	const struct monitor_guest_ops *ops;
	void *arg;
	struct event_source *signals, *ticks, *limit;
	struct event_source *early_tick; /* as long as there is a session */
	int signal_fd, signal_number;
	sigset_t old_signals;
	bool let_through; /* signals kill the process from now on */
	uint64_t nr_ticks, run_since_ms;
	struct trace_switches told_switches;   /* of sites that the user was told of */
	uint64_t printed[TRACE_MAX_INSTANCES]; /* of the instances that trace, or fail, likewise */
	uint64_t gaps_mark;                    /* of the gaps of which the user was told */
	bool yields_printed;                   /* what the tracer cannot give way to */

	uint64_t patience_ms;   /* until a disk that does not answer hangs */
	atomic_bool disk_hangs; /* as the user was told */

	struct monitor_target target;
	struct monitor *monitor;
	struct messages *messages;    /* on stderr, while the guest is traced */
	struct metrics_file *metrics; /* or NULL */
	bool metrics_failed;          /* and the user was told */
	struct live_memory *live;     /* or NULL */
};

/* With the lock held: start tracing `specs` (NULL: those of the last start). Errors as
 * trace_session_start(). */
int recorder_start_locked(struct recorder *recorder, const char *const *specs, struct error *err);
/* A message of several parts: print them to `to`, each line with its own beginning. */
struct recorder_message {
	struct recorder *recorder;
	FILE *to;
	char *text;
	size_t size;
};
/* False without memory. */
bool recorder_begin_message(struct recorder *recorder, struct recorder_message *message);
void recorder_end_message(struct recorder_message *message);

/* Keep the first failure, for recorder_conclude(). */
void recorder_fail(struct recorder *recorder, const struct error *err);
/* Say it at once, too: the guest may run for hours until then. With the lock held. */
void recorder_fail_meanwhile(struct recorder *recorder, const struct error *err);

/* Records of all vCPUs in the trace. */
struct trace_writer_counts recorder_sum(const struct recorder *recorder);
/* All counters: those of the session, and what the writer and the recorder itself count. */
struct trace_counters recorder_counters(const struct recorder *recorder,
					const struct trace_status *status);
/* Events per second of the time that was traced. */
double recorder_rate(const struct recorder *recorder, const struct trace_status *status);

struct profile_set;

/* What the session's profiles have counted; profile_set_deinit() is due. -ENOMEM. */
int recorder_read_profiles(const struct trace_session *session, struct profile_set *out,
			   struct error *err);
/* They count from 0 again: those of this name; NULL: all. -ENOENT. */
int recorder_clear_profiles(const struct trace_session *session, const char *name,
			    struct error *err);
/* Into the folder of the trace, if there are any: *any. */
int recorder_write_profiles(const struct trace_session *session, struct trace_writer *writer,
			    bool *any, struct error *err);

struct hist_set;

/* Likewise its histograms, in the order that each asks for. */
int recorder_read_hists(struct trace_session *session, struct hist_set *out, struct error *err);
int recorder_clear_hists(const struct trace_session *session, const char *name, struct error *err);
int recorder_write_hists(struct trace_session *session, struct trace_writer *writer, bool *any,
			 struct error *err);

/* A file of the trace. Consumes the document; NULL: no memory. -errno. */
int recorder_write_document(struct trace_writer *writer, const char *name, json_t *document,
			    struct error *err);

/* The reply to query-trace (a new object), or NULL if memory is out. */
json_t *recorder_query(struct recorder *recorder);

/* Have the file of --metrics written anew, if there is one. */
void recorder_put_metrics(struct recorder *recorder);

/* Start the monitor if the command line asks for one. */
int recorder_listen(struct recorder *recorder, struct error *err);

/* Make early_tick; on any thread: let it come. For struct trace_options; arg is the recorder. */
int recorder_add_wake(struct recorder *recorder, struct error *err);
void recorder_wake(void *arg);

/* Tell the user if the snapshot of recorder_snapshot() has failed. */
void recorder_look_at_snapshot(struct recorder *recorder);

/* Tell the user when the disk hangs, and when it answers again. */
void recorder_look_at_disk(struct recorder *recorder);
/* Call fn, and do so meanwhile. */
void recorder_use_disk(struct recorder *recorder, void (*fn)(struct recorder *recorder));

/* With -v: print a switch of sites that is new. With the lock held, or without a tick. */
void recorder_print_switched(struct recorder *recorder);

/* Print functions that a tracer cannot see, with the reasons, and how many are traced: once, when
 * tracing is on, and again when they change. Likewise. */
void recorder_print_gaps(struct recorder *recorder);
/* Once tracing is on: what of the guest's own the tracer cannot give way to, in one line, once. */
void recorder_print_yields(struct recorder *recorder);

/* Print instances that have begun to trace: all with -v, else those that have refused functions.
 * Likewise. */
void recorder_print_instances(struct recorder *recorder);

/* The line that shows the counts on a terminal: write it anew. */
void recorder_show_progress(struct recorder *recorder);

#endif

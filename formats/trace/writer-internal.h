/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_WRITER_INTERNAL_H
#define SONDE_FORMATS_TRACE_WRITER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "formats/trace/site-names.h"
#include "formats/trace/writer.h"

/* What writer.c (the trace as a whole), describe.c (what its files say), instances.c and sinks.c
 * (events of instances) share. */
struct event_sink {
	struct trace_writer *writer;
	unsigned int vcpu;
	pthread_mutex_t lock;
	/* Of the thread that has the lock and appends events; that thread alone reads and writes
	 * them. */
	struct event_batch *batch;
	struct event_sink *next; /* in the batch */
	bool closed;
	bool rests; /* closed again, and not only not open yet */
	uint64_t overruns;
	uint64_t disk_drops;       /* of these, those that the disk was too slow for */
	struct stream_writer *out; /* of the encoding; NULL if it could not be made */
};

struct writer_instance {
	struct trace_instance about; /* owned, but for the classes */
	atomic_bool open;            /* changed under instances_lock, as is about.spec */
	atomic_bool wanted;          /* its streams are to have files */
	_Atomic uint64_t lost;       /* before they got to a sink */
	struct event_sink sinks[];   /* by vCPU */
};

/*
 * What the output's thread is asked to describe, so that nobody else waits for the disk. No packet
 * is written that was put behind a request which is owed. A request is known by its number.
 */
struct description {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t asked; /* the last request */
	uint64_t tried; /* the last one that was tried; and how that went: */
	int ret;
	struct error err;
	uint64_t done; /* the last one that the files tell of */
	uint64_t owed; /* the last one whose thread has gone on without an answer */
};

struct trace_writer {
	int dir_fd;
	bool drop; /* events, rather than wait for a slow disk */
	trace_patience_fn *patience; /* or NULL */
	void *patience_arg;
	struct output *output;
	pthread_mutex_t source_lock;   /* outside of the others */
	trace_info_fn *source;         /* or NULL */
	trace_symbolize_fn *symbolize; /* or NULL */
	void *source_arg;
	uint64_t flushed_ns, refreshed_ns;
	_Atomic uint64_t describing_since; /* the disk has one of the files of describe_lock, or
					    * names; 0: it has none */
	pthread_mutex_t describe_lock;     /* the files that describe the whole trace */
	struct description description;
	pthread_mutex_t state_lock; /* what they say, in memory; inside of describe_lock */
	struct trace_info info;
	uint64_t nr_infos; /* that trace_writer_set_info() has set */
	unsigned int nr_vcpus;
	pthread_mutex_t instances_lock; /* adding and closing */
	pthread_mutex_t append_lock;    /* trace_writer_append(): outside of the sinks' */
	struct writer_instance *instances[TRACE_INSTANCES_MAX];
	atomic_uint nr_instances; /* each is there for good */
	struct cache_table caches;
	struct budget budget; /* of the guest */
	struct call_sites sites;
	struct site_names names; /* under source_lock */
	struct trace_encoder *encoder;

	pthread_mutex_t error_lock;
	atomic_bool failed; /* error is set, and constant from now on */
	struct error error;
};

enum writer_files {
	WRITE_FILES = 1,
	WRITE_SIDECAR = 2,
	WRITE_NAMES = 4,    /* in the sidecar */
	WRITE_COMPLETE = 8, /* the sidecar says that it is final */
};

/* Write the files that describe the trace, or those asked for, as of an unfinished one. */
int writer_describe(struct trace_writer *writer, unsigned int what, struct error *err);
/* The same when no packet is written any more: nothing is reserved for a later one. */
int writer_describe_end(struct trace_writer *writer, unsigned int what, struct error *err);

void writer_description_init(struct trace_writer *writer);
void writer_description_deinit(struct trace_writer *writer);

/*
 * Have the output's thread write these files, and create those of streams that are to have some;
 * and wait for TRACE_PATIENCE_MS at most, all in all while the disk hangs. Returns 0, or -errno of
 * the disk. 0 also without an answer: with `owed` no packet that is put from now on is written
 * before the files tell of what was changed until now.
 */
int writer_ask(struct trace_writer *writer, bool owed, struct error *err);
/* On the output's thread: do so, if that is asked for. Returns 0, or -errno while what is owed
 * could not be written. */
int writer_answer(struct trace_writer *writer);

/* Keep the first failure for trace_writer_error(). Returns ret. */
int writer_keep_error(struct trace_writer *writer, int ret, const char *what, unsigned int vcpu);

/*
 * Put what a sink has gathered into the output. `waits`: for room, if the queue is full. Returns 0,
 * -EAGAIN if the queue is full and it does not wait, or an error of output_put() or output_wait().
 */
int writer_flush_sink(struct event_sink *sink, bool waits);

/* Write what all streams hold. Returns 0, or -errno of the first failure, which is kept. */
int writer_flush_streams(struct trace_writer *writer, struct error *err);

/* Put what all streams have gathered, as far as there is room. */
void writer_put_gathered(struct trace_writer *writer);

/* If its instance is closed: a sink has no more events for now. */
void writer_rest_sink(struct event_sink *sink);

/* What could not be written by now is lost. */
void writer_discard_unwritten(struct trace_writer *writer);

void writer_destroy_instances(struct trace_writer *writer);

/* What the budget had no room for. */
uint64_t writer_count_refused(const struct trace_writer *writer);

#endif

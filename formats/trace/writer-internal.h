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
	uint64_t overruns;
	uint64_t disk_drops;       /* of these, those that the disk was too slow for */
	struct stream_writer *out; /* of the encoding; NULL if it could not be made */
};

struct writer_instance {
	struct trace_instance about; /* owned, but for the classes */
	atomic_bool open;            /* changed under instances_lock, as is about.spec */
	_Atomic uint64_t lost;       /* before they got to a sink */
	struct event_sink sinks[];   /* by vCPU */
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
	pthread_mutex_t describe_lock;     /* info, and the files that describe the whole trace */
	struct trace_info info;
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

/* What could not be written by now is lost. */
void writer_discard_unwritten(struct trace_writer *writer);

void writer_destroy_instances(struct trace_writer *writer);

/* What the budget had no room for. */
uint64_t writer_count_refused(const struct trace_writer *writer);

#endif

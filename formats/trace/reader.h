/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_READER_H
#define SONDE_FORMATS_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/kmem.h"
#include "formats/event/record-stream.h"
#include "formats/trace/decoder.h"
#include "formats/trace/files.h"
#include "formats/trace/sidecar.h"

/*
 * Reads a trace as one stream of events: those of each vCPU and instance in the order of their
 * file, the files merged by time stamp (of equal ones the lower vCPU first). Memory is bounded by
 * the number of files. The encoding is any of trace_decoders. Everything but the files `cpu<n>` is
 * optional.
 */
struct trace_reader;

/* Open a directory. -ENOENT and a text that says what is missing if it is not a trace. */
int trace_reader_open(const char *dir, struct trace_reader **out, struct error *err);

/* The same on files in memory, which must outlive the reader. */
int trace_reader_open_memory(const struct trace_memory_file *files, size_t nr_files,
			     struct trace_reader **out, struct error *err);

/* NULL-safe. */
void trace_reader_close(struct trace_reader *reader);

/*
 * Returns 1 and the next event, whose bytes are valid until the next call; 0 at the end, or -errno
 * if a file cannot be read.
 */
int trace_reader_next(struct trace_reader *reader, struct event *event, struct error *err);

/* Events that follow each other both in a stream and in the trace. */
struct trace_run {
	const struct stream_event *events;
	const uint8_t *bytes; /* of the events: see struct stream_event */
	const struct kmem_brief *briefs; /* instead: see trace_reader_read_briefs(); or NULL */
	const struct trace_instance *instance;
	unsigned int vcpu;
	uint64_t index; /* of the first one, in the stream */
	size_t n;       /* at least 1 */
	size_t more;    /* events of the stream that are at hand behind these: they come later */
	bool is_new;    /* none of them, and of those, was at hand before */
};

/*
 * As trace_reader_next() again and again, for as many events as are known to follow each other.
 * An event of `end_ns` or later is a run of its own. All functions here tell of the time behind
 * the run's last event.
 */
int trace_reader_next_run(struct trace_reader *reader, int64_t end_ns, struct trace_run *run,
			  struct error *err);

/* The time of the first event. */
static inline int64_t trace_run_ns(const struct trace_run *run)
{
	return run->briefs ? run->briefs->ns : run->events->ns;
}

/* The bytes of event i. */
static inline const void *trace_run_bytes(const struct trace_run *run, size_t i)
{
	return run->bytes + run->events[i].at;
}

/* Event i, also one of those that come later. */
static inline struct event trace_run_event(const struct trace_run *run, size_t i)
{
	const struct stream_event *from = &run->events[i];

	return (struct event){.class = &run->instance->classes[from->class],
			      .instance = run->instance,
			      .vcpu = run->vcpu,
			      .ns = from->ns,
			      .bytes = trace_run_bytes(run, i),
			      .index = run->index + i,
			      .offset = from->end - from->length};
}

/*
 * Before the first event: decode the streams ahead, on up to so many threads, or on the caller's
 * (0). Events come as they do otherwise, and all functions here say the same. The trace cannot be
 * followed. TRACE_READER_ALL_CPUS: a thread on each CPU of this process but one.
 */
enum { TRACE_READER_ALL_CPUS = INT32_MAX };
void trace_reader_read_ahead(struct trace_reader *reader, unsigned int nr_threads);

/* Likewise, of a trace that is read ahead: runs of an instance of kmem may have briefs instead of
 * events. Then there is only trace_reader_next_run(). */
void trace_reader_read_briefs(struct trace_reader *reader, const struct trace_instance *instance);

/* A record of kmem that will come soon, if one is at hand; else NULL. Valid as the last event is.
 */
const struct kmem_record *trace_reader_soon(const struct trace_reader *reader);

/*
 * Follow a trace that is being written: look whether its files have grown. To be called some times
 * per second, each time before trace_reader_next() until that returns 0, which means "none yet".
 *
 * Events come in the order of time as far as it is known. If each stream has a later event, it is.
 * Else an event waits for those of other vCPUs for one to two seconds, in which a writer brings to
 * the disk what it has gathered; what comes later, as the disk is slow, comes out of order.
 *
 * What the sidecar says of losses, gaps, caches and the rest is taken anew, too.
 *
 * Returns 1; 0 if no writer has the trace open: the next time trace_reader_next() goes to its end.
 * Streams that are added later are not followed: another reader knows them. -errno as
 * trace_reader_next().
 */
int trace_reader_follow(struct trace_reader *reader, struct error *err);

/* Before the first event: leave out those that `former`, which has followed the same trace, has
 * handed out. -errno as trace_reader_next(). */
int trace_reader_skip(struct trace_reader *reader, const struct trace_reader *former,
		      struct error *err);

/*
 * The sidecar, or NULL if there is none or it is unusable. Lives as long as the reader. While
 * the streams of an unfinished trace are read, it grows by the caches that they define.
 */
const struct sidecar *trace_reader_sidecar(const struct trace_reader *reader);

/* Add names of functions to the sidecar, if there is one, for addresses that it has none for.
 * Copies. Returns 0 or -ENOMEM. */
int trace_reader_add_symbols(struct trace_reader *reader, const struct sidecar_symbol *symbols,
			     size_t n);

/*
 * Read the functions of a kernel image, at the addresses they had in the guest that a trace with
 * this info is of. *out and its names are the caller's. -EINVAL: it is another kernel.
 */
typedef int kernel_functions_fn(const char *path, const struct trace_info *info,
				struct sidecar_symbol **out, size_t *n, struct error *err);

/* What trace_reader_name_functions() reads images with: formats/ cannot. For main(). */
void trace_reader_set_kernel_source(kernel_functions_fn *fn);

/*
 * Name functions that the trace has no names of, after this kernel image: those of the kernel
 * itself, not of its modules. -ENOENT: nothing says where the kernel was; errors of the function
 * above.
 */
int trace_reader_name_functions(struct trace_reader *reader, const char *kernel, struct error *err);

/* What trace_reader_add_lines() reads debug information with, likewise. */
void trace_reader_set_lines_source(source_lines_open_fn *fn);

/*
 * Let the sidecar know where call sites are in the source: after the debug information in the file
 * `path`, or with NULL of where this system keeps it. -ENOENT: there is no sidecar; errors of the
 * function above.
 */
int trace_reader_add_lines(struct trace_reader *reader, const char *path, struct error *err);
/* Give the sidecar, which there is, lines that are at hand. They become the reader's. */
void trace_reader_take_lines(struct trace_reader *reader, struct source_lines *lines);

/* Why there is no usable sidecar, or that the one there is is damaged. The code is ENOENT if there
 * is none, 0 if there is a whole one. */
const struct error *trace_reader_sidecar_error(const struct trace_reader *reader);

/* How one stream was read so far; final once trace_reader_next() has returned 0. */
struct trace_stream_info {
	unsigned int vcpu;
	const struct trace_instance *instance;
	const char *suffix;                  /* of the file: cpu<vcpu><suffix> */
	const struct stream_damage *damages; /* the first STREAM_DAMAGES_MAX */
	uint64_t nr_damages, damaged_bytes;
	enum record_fault fault;
	uint64_t records;  /* read */
	uint64_t offset;   /* bytes read; the place of the fault, if there is one */
	uint64_t lost;     /* records lost in recording, if the stream itself says so */
	uint64_t ignored;  /* bytes behind offset that could not be read; 0 without a fault */
	uint64_t expected; /* records that there should be by a complete sidecar, else equal to
			      `records` */
};
size_t trace_reader_nr_streams(const struct trace_reader *reader);

/* What the stream of the last event that trace_reader_next() returned lacks before it. If a number
 * has grown since the stream's event before, events are missing between the two. */
struct trace_stream_losses {
	uint64_t lost;    /* records lost in recording, as far as the stream says so */
	uint64_t damages; /* places that were passed over */
};
struct trace_stream_losses trace_reader_stream_losses(const struct trace_reader *reader);

/* One more than the greatest number of a vCPU that has a stream, or should have one. */
unsigned int trace_reader_vcpu_end(const struct trace_reader *reader);
/* vCPUs that have a stream. */
size_t trace_reader_nr_vcpus(const struct trace_reader *reader);
void trace_reader_stream_info(const struct trace_reader *reader, size_t i,
			      struct trace_stream_info *out);

/* The instances of the trace, with the classes of their events. They live as long as the reader. */
const struct trace_instance *trace_reader_instances(const struct trace_reader *reader,
						    size_t *nr_instances);

/*
 * Whether a stream has ended before its last event, or has a damaged part, as far as the reader
 * got: from here on events are missing from the merged trace.
 */
bool trace_reader_cut(const struct trace_reader *reader);

/* Whether the format has checksums of its records: else only values that are impossible show
 * damage.
 */
bool trace_reader_has_checksums(const struct trace_reader *reader);

/* What was not recorded. */
struct trace_losses {
	const char *unknown; /* why the trace does not say what was lost: there may be more than the
			      * counters have. NULL: it does. Lives as long as the reader. */
	struct trace_counters counters;
	bool unfinished; /* the last records are missing: up to a buffer per vCPU */
	bool recording;  /* unfinished, as it is still being written (when the reader was opened, or
			  * followed it last) */
	const char
		*writer; /* the verb that writes or wrote it, or "". Lives as long as the reader. */
};
void trace_reader_losses(const struct trace_reader *reader, struct trace_losses *out);

/* How many events are missing from a trace that was read to its end. */
struct trace_missing {
	bool is_bounded; /* else the trace has gaps, and nothing says how many are missing */
	uint64_t events; /* at most */
};
struct trace_missing trace_reader_missing(const struct trace_reader *reader);

/* What the user should know of the trace's encoding, but for damage; or "". */
const char *trace_reader_note(const struct trace_reader *reader);

/* What is damaged beside the streams, such as "metadata is damaged: its checksum is wrong": the
 * n-th, from 0 on, or NULL. Valid until more of the trace is read. */
const char *trace_reader_damage(const struct trace_reader *reader, size_t n);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_WRITER_H
#define SONDE_FORMATS_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/kmem.h"
#include "formats/event/trace-info.h"
#include "formats/trace/encoder.h"
#include "formats/trace/sidecar.h"
#include "formats/trace/site-names.h"

/* The longest that a thread waits for the disk which changes what a trace is of. */
enum { TRACE_PATIENCE_MS = 1000 };

/*
 * Writes a trace directory: for each instance a stream per vCPU (`cpu0`, `cpu1`, ... for kmem,
 * `cpu0.NAME` for others), the sidecar (sidecar.h), and the other files of the encoding.
 * sonde-trace(5) describes them.
 *
 * After creation the directory is readable as a trace at any moment, also if the process dies.
 */
struct trace_writer;

/* Whether a trace in `encoding` can have these instances, before there is one: -EINVAL, and the
 * reason. */
int trace_writer_check(unsigned int encoding, const struct trace_instance *instances, size_t n,
		       struct error *err);

/* Check early whether trace_writer_create() will take `dir`, and make it if it is not there. */
int trace_writer_prepare(const char *dir, struct error *err);

/*
 * Create `dir` (or take an existing empty one). Refuses a non-empty or unwritable directory.
 * `encoding` is an index of trace_encoders. `info` is copied, and written to the sidecar at once
 * with "complete": false. The directory is locked as long as the writer lives, by which readers
 * know that it does. -EBUSY: another process is writing a trace there.
 */
int trace_writer_create(const char *dir, unsigned int nr_vcpus, unsigned int encoding,
			const struct trace_info *info, struct trace_writer **out,
			struct error *err);

/*
 * Fill in what is to be said of the trace now. Returns false if that cannot be found out at once.
 * Called a few times per second on a thread of the writer's own. Waits for no thread that appends
 * records, or that calls the writer.
 */
typedef bool trace_info_fn(void *arg, struct trace_info *info);

/*
 * While the trace is recorded, keep the directory up to date: records appear in it within a second,
 * and the sidecar says what fn says, at the latest when records of what happened after that appear.
 * Before a record appears its call site is named in the file of names, as far as symbolize has a
 * name. It is called as fn is, with the same argument. NULL for either: it is not called any more,
 * and is not running. Until trace_writer_finish() at most.
 */
void trace_writer_set_source(struct trace_writer *writer, trace_info_fn *fn,
			     trace_symbolize_fn *symbolize, void *arg);

/* NULL-safe. Does not finish: see trace_writer_finish(). */
void trace_writer_destroy(struct trace_writer *writer);

/*
 * Add an instance, also while others record: a stream per vCPU. `instance` is copied, but for the
 * classes, which must outlive the writer. An instance that was closed, of the same name and
 * classes, is taken up again, with its streams. Returns its number; -EEXIST if there is one of this
 * name and these classes that is open, -EINVAL for a name that is not allowed or for classes that
 * the encoding cannot express (kmemtrace: other than kmem's), -ENOSPC if there are
 * TRACE_INSTANCES_MAX; -errno if its files cannot be written. A disk that hangs is waited for
 * TRACE_PATIENCE_MS at most: then the instance is there, and its events, and all that come later,
 * are written when its files are.
 */
int trace_writer_add_instance(struct trace_writer *writer, const struct trace_instance *instance,
			      struct error *err);

/* Have written what its streams hold; does not wait for the disk. Events that come to its sinks
 * afterwards are lost, and counted. */
void trace_writer_close_instance(struct trace_writer *writer, unsigned int number);
/* It goes on with another spec, which the sidecar will say. -ENOMEM. */
int trace_writer_set_spec(struct trace_writer *writer, unsigned int number, const char *spec,
			  struct error *err);

/* Of a copy: the last spec, and whether it is late, interrupted, removed, as its source says. */
void trace_writer_adopt_course(struct trace_writer *writer, unsigned int number,
			       const struct trace_instance *course);

/* Where events of an instance's vCPU go. Lives as long as the writer. */
struct event_sink *trace_writer_sink(const struct trace_writer *writer, unsigned int number,
				     unsigned int vcpu);

/*
 * Append events in a batch, to any number of sinks: a sink's lock is taken with its first event,
 * and kept until the batch ends, so that others who need it (counts, flushes) wait. One thread at a
 * time for each sink. `bytes` is an event of the instance's class with this index. Events are
 * buffered, and written by a thread of the writer's own (output.h). If the buffer is full:
 *  - If the disk is slow, put waits for it. With trace_writer_set_drop() it does not: the event is
 *    lost.
 *  - If the disk is full or fails, or has shown no sign of life for OUTPUT_STALL_MS or as long as
 *    trace_writer_set_patience() says, the event is lost, and trace_writer_error() has the first
 *    failure.
 *
 * Lost events are counted as overruns of that vCPU. put returns 0, -EAGAIN if the disk is too slow,
 * -EPIPE if the instance is closed, or another -errno.
 */
int event_batch_put(struct event_batch *batch, struct event_sink *sink, unsigned int class_index,
		    int64_t ns, const void *bytes);
/* Both append each of these, with the same outcome as by event_batch_put(). */
void event_batch_put_run(struct event_batch *batch, struct event_sink *sink,
			 unsigned int class_index, const struct event_run *run);
void event_batch_put_mix(struct event_batch *batch, struct event_sink *sink,
			 const struct event_mix *mix);
void event_batch_end(struct event_batch *batch);

/*
 * For how long the thread that puts an event may wait for a disk that shows no sign of life: in
 * milliseconds, at most OUTPUT_STALL_MS. Called on that thread, when it is about to wait. NULL: for
 * OUTPUT_STALL_MS. While no thread puts events.
 */
typedef unsigned int trace_patience_fn(void *arg);
void trace_writer_set_patience(struct trace_writer *writer, trace_patience_fn *patience, void *arg);

/*
 * Append one record to the stream of a vCPU of the first instance whose classes are kmem's; without
 * one, kmem_instance is added. Thread-safe. For converters and tests: a batch is cheaper.
 */
int trace_writer_append(struct trace_writer *writer, unsigned int vcpu,
			const struct kmem_record *record);

/* Whether sinks lose events rather than wait for a slow disk. At first false. */
void trace_writer_set_drop(struct trace_writer *writer, bool drop);

/* Id (>= 1) for a slab cache, as cache_table_id(); 0 if the table (65535) is full. */
uint16_t trace_writer_cache_id(struct trace_writer *writer, const char *name, uint64_t object_size,
			       uint64_t size);

/* The name of the cache with this id, cut to `size`; false if there is none. */
bool trace_writer_cache_name(struct trace_writer *writer, uint16_t id, char *out, size_t size);

/*
 * Add a cache with its id from another trace, unless the id is taken. A trace gets all its
 * caches so, or all from trace_writer_cache_id(). Returns 0 or -ENOMEM.
 */
int trace_writer_adopt_cache(struct trace_writer *writer, const struct sidecar_cache *cache);

/* Count `n` events of an instance's vCPU as lost that its sink never got. */
void trace_writer_add_overruns(struct trace_writer *writer, unsigned int number, unsigned int vcpu,
			       uint64_t n);

/* Count `n` events of an instance as lost before they got to any of its sinks. */
void trace_writer_add_lost(struct trace_writer *writer, unsigned int number, uint64_t n);

/*
 * Replace the info that was given at creation, and rewrite the files that contain it, still with
 * "complete": false. For what is known only when tracing starts (the slide). A disk that hangs is
 * waited for as by trace_writer_add_instance(): no event that comes later is written before.
 */
int trace_writer_set_info(struct trace_writer *writer, const struct trace_info *info,
			  struct error *err);

/*
 * Write all that is buffered, in whole records, and the files that describe it. Returns 0 or
 * -errno.
 */
int trace_writer_flush(struct trace_writer *writer, struct error *err);
/* The same as far as the disk does it within twice TRACE_PATIENCE_MS. The rest is written
 * meanwhile. */
void trace_writer_flush_briefly(struct trace_writer *writer);

/*
 * A flight recorder keeps the last packets of each stream in memory, of this many bytes at most,
 * and writes them when it is asked, and at the end. Before the first event.
 */
void trace_writer_set_flight_recorder(struct trace_writer *writer, size_t bytes);

/*
 * Write what is kept; then go on. A second snapshot is written behind the first one; what was
 * forgotten in between is counted. What the disk refuses is kept as before. One snapshot at a time;
 * on any thread, while others append, flush, and change instances. Returns 0 or -errno.
 */
int trace_writer_snapshot(struct trace_writer *writer, struct error *err);

/* For how long the disk has not answered; 0: it was asked for nothing. On any thread. */
uint64_t trace_writer_hangs_ns(const struct trace_writer *writer);

/* The first write failure, or NULL. Valid until destroy. */
const struct error *trace_writer_error(const struct trace_writer *writer);

struct trace_writer_counts {
	uint64_t events;        /* accepted, of all classes */
	uint64_t allocs, frees; /* those of them that are of the kmem tracer */
	uint64_t overruns;      /* lost */
	uint64_t disk_drops;    /* of these, because the disk was too slow */
	uint64_t overwritten;   /* forgotten by a flight recorder */
};
/* Of a vCPU, over all instances; and of one of them. */
void trace_writer_counts(const struct trace_writer *writer, unsigned int vcpu,
			 struct trace_writer_counts *out);
void trace_writer_instance_counts(const struct trace_writer *writer, unsigned int number,
				  unsigned int vcpu, struct trace_writer_counts *out);

/* What the guest that is traced may make this process use: of the writer's tables, and of those
 * that read the guest. Lives as long as the writer. */
struct budget *trace_writer_budget(struct trace_writer *writer);

/* Bytes of finished packets, in files or on their way; not those that a flight recorder keeps. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);

/* Fill in the counters that are the writer's: losses of all vCPUs, and how writing went. */
void trace_writer_counters(struct trace_writer *writer, struct trace_counters *counters);

/*
 * Write, or replace, a file of the directory beside those of the trace: a text that readers take
 * for a document of its own. On the disk after that. Returns 0 or -errno, with the old file there.
 */
int trace_writer_put_document(struct trace_writer *writer, const char *name, const char *text,
			      struct error *err);

/*
 * Flush, and write the final sidecar ("complete": true, counts, a symbol for every call site)
 * and the encoding's other files. `info` replaces what was given at creation; `symbolize` may be
 * NULL. No thread may append at the same time or afterwards. Records that cannot be written are
 * counted as overruns; all else is written nevertheless. On a disk that is too full for a sidecar
 * with the symbols, or if readers would not take one so large, they stay in the file of names.
 * Returns 0, or -errno of the first failure.
 */
int trace_writer_finish(struct trace_writer *writer, const struct trace_info *info,
			trace_symbolize_fn *symbolize, void *arg, struct error *err);

#endif

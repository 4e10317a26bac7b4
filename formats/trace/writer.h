/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_WRITER_H
#define SONDE_FORMATS_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/kmem.h"
#include "formats/event/trace-info.h"
#include "formats/trace/call-sites.h"
#include "formats/trace/encoder.h"
#include "formats/trace/sidecar.h"

/*
 * Writes a trace directory: a stream per vCPU (`cpu0`, `cpu1`, ...), the sidecar (sidecar.h),
 * and the other files of the encoding. sonde-trace(5) describes them.
 *
 * After creation the directory is readable as a trace at any moment, also if the process dies.
 */
struct trace_writer;

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
 * fn NULL: no more; then fn is not running any more. Until trace_writer_finish() at most.
 */
void trace_writer_set_source(struct trace_writer *writer, trace_info_fn *fn, void *arg);

/* NULL-safe. Does not finish: see trace_writer_finish(). */
void trace_writer_destroy(struct trace_writer *writer);

/*
 * Append one record to the stream of a vCPU. Thread-safe; buffered, and written by a thread of the
 * writer's own (output.h). If the buffer is full:
 *  - If the disk is slow, this waits for it. With trace_writer_set_drop() it does not: the record
 * is lost.
 *  - If the disk is full or fails, or has shown no sign of life for OUTPUT_STALL_MS, the record is
 *    lost, and trace_writer_error() has the first failure.
 * Lost records are counted as overruns of that vCPU. Returns 0, -EAGAIN if the disk is too slow, or
 * -errno.
 */
int trace_writer_append(struct trace_writer *writer, unsigned int vcpu,
			const struct kmem_record *record);

/* Whether trace_writer_append() loses records rather than wait for a slow disk. At first false. */
void trace_writer_set_drop(struct trace_writer *writer, bool drop);

/* Id (>= 1) for a slab cache, the same for the same three values; 0 if the table (65535) is full.
 */
uint16_t trace_writer_cache_id(struct trace_writer *writer, const char *name, uint64_t object_size,
			       uint64_t size);

/*
 * Add a cache with its id from another trace, unless the id is taken. A trace gets all its
 * caches so, or all from trace_writer_cache_id(). Returns 0 or -ENOMEM.
 */
int trace_writer_adopt_cache(struct trace_writer *writer, const struct sidecar_cache *cache);

/* Count `n` records of the vCPU as lost that trace_writer_append() never got. */
void trace_writer_add_overruns(struct trace_writer *writer, unsigned int vcpu, uint64_t n);

/*
 * Replace the info that was given at creation, and rewrite the files that contain it, still with
 * "complete": false. For what is known only when tracing starts (the slide).
 */
int trace_writer_set_info(struct trace_writer *writer, const struct trace_info *info,
			  struct error *err);

/*
 * Write all that is buffered, in whole records, and the files that describe it. Returns 0 or
 * -errno.
 */
int trace_writer_flush(struct trace_writer *writer, struct error *err);

/* The first write failure, or NULL. Valid until destroy. */
const struct error *trace_writer_error(const struct trace_writer *writer);

struct trace_writer_counts {
	uint64_t allocs, frees; /* records accepted */
	uint64_t overruns;      /* records lost */
	uint64_t disk_drops;    /* of these, because the disk was too slow */
};
void trace_writer_counts(const struct trace_writer *writer, unsigned int vcpu,
			 struct trace_writer_counts *out);

/* Bytes of finished packets, in files or on their way. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);

/* Fill in the counters that are the writer's: losses of all vCPUs, and how writing went. */
void trace_writer_counters(struct trace_writer *writer, struct trace_counters *counters);

/*
 * Flush, and write the final sidecar ("complete": true, counts, a symbol for every call site)
 * and the encoding's other files. `info` replaces what was given at creation; `symbolize` may be
 * NULL. No thread may append at the same time or afterwards. Records that cannot be written are
 * counted as overruns; all else is written nevertheless. Returns 0, or -errno of the first
 * failure.
 */
int trace_writer_finish(struct trace_writer *writer, const struct trace_info *info,
			trace_symbolize_fn *symbolize, void *arg, struct error *err);

#endif

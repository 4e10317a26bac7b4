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
 * with "complete": false.
 */
int trace_writer_create(const char *dir, unsigned int nr_vcpus, unsigned int encoding,
			const struct trace_info *info, struct trace_writer **out,
			struct error *err);

/* NULL-safe. Does not finish: see trace_writer_finish(). */
void trace_writer_destroy(struct trace_writer *writer);

/*
 * Append one record to the stream of a vCPU. Thread-safe; buffered. If the disk is full or
 * fails, the record is lost and counted as an overrun of that vCPU, and trace_writer_error() has
 * the first failure. Waits for nothing but the disk. Returns 0 or -errno.
 */
int trace_writer_append(struct trace_writer *writer, unsigned int vcpu,
			const struct kmem_record *record);

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
 * "complete": false. For what is known only when tracing starts (the slide). Not while records
 * are appended.
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
};
void trace_writer_counts(const struct trace_writer *writer, unsigned int vcpu,
			 struct trace_writer_counts *out);

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

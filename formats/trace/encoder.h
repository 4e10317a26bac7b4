/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_ENCODER_H
#define SONDE_FORMATS_TRACE_ENCODER_H

#include <stdint.h>
#include "formats/trace/cache-table.h"
#include "formats/base/error.h"
#include "formats/event/record.h"
#include "formats/trace/sidecar.h"

/*
 * What the trace writer needs of an encoding: all files of a trace directory but the sidecar. To
 * add one, embed the two structures at the start of yours, fill in all operations, and name it in
 * trace-writer.h.
 *
 * One vCPU's stream; calls on one stream never overlap. Its files are a valid trace whenever no
 * call is under way: what the disk refuses stays buffered, and the files are cut back.
 */
struct stream_writer {
	const struct stream_writer_ops *ops;
	uint64_t dropped; /* records of this vCPU that were refused or dropped, kept by the user */
};

struct stream_writer_ops {
	/* Returns 0, or -errno if the buffer is full and cannot be written. */
	int (*append)(struct stream_writer *stream, const struct kmem_record *record);
	/* Write what is buffered. Returns 0, or -errno with the unwritten still buffered. */
	int (*flush)(struct stream_writer *stream);
	/* Drop what is buffered, adding the number of allocations and frees to the counts. */
	void (*drop)(struct stream_writer *stream, uint64_t *allocs, uint64_t *frees);
	/* Close, without writing anything. */
	void (*destroy)(struct stream_writer *stream);
};

/* The whole trace. */
struct trace_encoder {
	const struct trace_encoder_ops *ops;
	const char *sidecar_name; /* of its sidecar file */
};

struct trace_encoder_ops {
	/* Create the files of a vCPU, which must not exist. Returns 0 or -errno. */
	int (*add_stream)(struct trace_encoder *encoder, unsigned int vcpu,
			  struct stream_writer **out);
	/*
	 * Write, or write again, the files that say something of all streams. Called once before
	 * any stream is added, and whenever what the sidecar says has changed, also while records
	 * are appended. Returns 0 or -errno, the old files then still being valid.
	 */
	int (*describe)(struct trace_encoder *encoder, const struct sidecar *sidecar,
			struct error *err);
	/* After its streams. */
	void (*destroy)(struct trace_encoder *encoder);
};

/* Both keep dir_fd, and `caches`, which must outlive them. Return 0 or -errno. */
int kmemtrace_encoder_create(int dir_fd, struct trace_encoder **out);
int ctf_encoder_create(int dir_fd, struct cache_table *caches, struct trace_encoder **out);

#endif

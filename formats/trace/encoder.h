/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_ENCODER_H
#define SONDE_FORMATS_TRACE_ENCODER_H

#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/kmem.h"
#include "formats/trace/cache-table.h"
#include "formats/trace/output.h"
#include "formats/trace/sidecar.h"

/*
 * What the trace writer needs of an encoding: all files of a trace directory but the sidecar. To
 * add an encoder, embed the two structures at the start of two of its own, fill in all
 * operations, and add a row to formats/encodings.c.
 *
 * One vCPU's stream; calls on one stream never overlap. It gathers records in packets of at most
 * OUTPUT_PACKET_MAX bytes and puts them into the trace's output, whose thread writes them: its
 * files are a valid trace at any time.
 */
struct stream_writer {
	const struct stream_writer_ops *ops;
	struct output_stream *output; /* set by add_stream */
	uint64_t lost; /* records of this vCPU that could not be written; the writer counts them */
};

struct stream_writer_ops {
	/* Returns 0, or an error of output_put() if there is no room for the record. */
	int (*append)(struct stream_writer *stream, const struct kmem_record *record);
	/* Put what is gathered so far. Returns 0, or an error of output_put() and keeps it. */
	int (*flush)(struct stream_writer *stream);
	/*
	 * Forget what was gathered or put, and is not written. Adds the number of its allocations
	 * and frees to the counts. May put a packet that says so.
	 */
	void (*discard)(struct stream_writer *stream, uint64_t *allocs, uint64_t *frees);
	/* Close, without writing anything. The output has ended. */
	void (*destroy)(struct stream_writer *stream);
};

/* The whole trace. */
struct trace_encoder {
	const struct encoder_ops *ops;
};

struct encoder_ops {
	const char *sidecar_name; /* a name that the encoding's readers pass over */

	/* dir_fd and caches must outlive the encoder. Returns 0 or -errno. */
	int (*create)(int dir_fd, struct cache_table *caches, struct trace_encoder **out);
	/* Create the files of a vCPU, which must not exist. Returns 0 or -errno. */
	int (*add_stream)(struct trace_encoder *encoder, struct output *output, unsigned int vcpu,
			  struct stream_writer **out);
	/*
	 * Write, or write again, the files that describe all streams. The writer calls it once
	 * before it adds a stream, and whenever what the sidecar says has changed, also while
	 * records are appended. Returns 0, or -errno with the old files still valid.
	 */
	int (*describe)(struct trace_encoder *encoder, const struct sidecar *sidecar,
			struct error *err);
	/* After its streams. */
	void (*destroy)(struct trace_encoder *encoder);
};

/* All encoders, and what users call them; NULL-terminated. The first one is the default. In
 * formats/encodings.c. */
extern const struct encoder_ops *const trace_encoders[];
extern const char *const trace_encoding_names[];

#endif

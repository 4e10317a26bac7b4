/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_ENCODER_H
#define SONDE_FORMATS_TRACE_ENCODER_H

#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/event.h"
#include "formats/trace/cache-table.h"
#include "formats/trace/call-sites.h"
#include "formats/trace/sidecar.h"

/*
 * What the trace writer needs of an encoding: all files of a trace directory but the sidecar. To
 * add an encoder, embed the two structures at the start of two of its own, fill in all
 * operations, and add a row to formats/encodings.c.
 *
 * One vCPU's stream of an instance; calls on one stream never overlap. Between calls its files are
 * a valid trace: what the disk refuses stays buffered, and the files are cut back.
 */
enum { STREAM_MAX_CLASSES = 32 };

struct stream_writer {
	const struct stream_writer_ops *ops;
	uint64_t lost; /* events of this stream that could not be written; the writer counts them */
	/* By the encoder, by index of the class: events taken, and those of them in the file. */
	uint64_t counts[STREAM_MAX_CLASSES], written[STREAM_MAX_CLASSES];
};

struct stream_writer_ops {
	/*
	 * Append an event of the instance's class with this index, and count it. Returns 0; -EINVAL
	 * for a class that is not there; -errno if the buffer is full and cannot be written.
	 */
	int (*put)(struct stream_writer *stream, unsigned int class_index, int64_t ns,
		   const void *bytes);
	/* Write what is buffered. Returns 0, or -errno with the unwritten still buffered. */
	int (*flush)(struct stream_writer *stream);
	/* Forget what is buffered: the counts become those of what is written. */
	void (*discard)(struct stream_writer *stream);
	/* Give back memory that is not needed until the next event. */
	void (*rest)(struct stream_writer *stream);
	/* Close, without writing anything. */
	void (*destroy)(struct stream_writer *stream);
};

/* Of all classes together. */
static inline uint64_t stream_writer_sum(const uint64_t counts[STREAM_MAX_CLASSES])
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < STREAM_MAX_CLASSES; i++)
		sum += counts[i];
	return sum;
}

/* The whole trace. */
struct trace_encoder {
	const struct encoder_ops *ops;
};

/* What an encoder works with. All of it outlives it. */
struct encoder_input {
	int dir_fd;
	struct cache_table *caches;
	struct call_sites *sites; /* is told of each address of code */
};

struct encoder_ops {
	const char *sidecar_name; /* a name that the encoding's readers pass over */

	/* Returns 0 or -errno. */
	int (*create)(const struct encoder_input *input, struct trace_encoder **out);
	/*
	 * Add an instance: its number is how many there were before. It is copied, but for the
	 * classes, which outlive the encoder. -EINVAL, and the reason, for one whose classes the
	 * encoding cannot express. Also while events are appended.
	 */
	int (*add_instance)(struct trace_encoder *encoder, const struct trace_instance *instance,
			    struct error *err);
	/* Create the files of an instance's vCPU, which must not exist. Returns 0 or -errno. */
	int (*add_stream)(struct trace_encoder *encoder, unsigned int instance, unsigned int vcpu,
			  struct stream_writer **out);
	/*
	 * Write, or write again, the files that describe all streams. The writer calls it before it
	 * adds streams, and whenever what the sidecar says has changed, also while events are
	 * appended. Returns 0, or -errno with the old files still valid.
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

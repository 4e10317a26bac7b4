/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_DECODER_H
#define SONDE_FORMATS_TRACE_DECODER_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/record-stream.h"
#include "formats/trace/files.h"
#include "formats/trace/sidecar.h"

/*
 * What the trace reader needs of an encoding: to recognise it, and a stream of events for each
 * instance and vCPU. To add a decoder, embed struct trace_decoder at the start of a structure, fill
 * in the operations, and add a row to formats/encodings.c.
 */
struct trace_decoder {
	const struct decoder_ops *ops;
	bool checksums;    /* of its records: damage to them is noticed */
	bool losses_known; /* the encoding itself says what was lost: */
	uint64_t overruns; /* records of all streams, apart from what the streams themselves say */
	char note[96];     /* what the user should know of the encoding; or "" */
	char damage[96];   /* what is wrong with its description of the streams; or "" */
	const struct trace_instance *instances;
	size_t nr_instances;
};

/* What a decoder works with. Both outlive it. */
struct decoder_input {
	struct trace_files *files;
	/* The decoder calls this for each cache that a stream defines, before the stream hands out
	 * the event behind it. Returns 0, or -errno, which ends the reading. */
	int (*add_cache)(struct record_stream *stream, const struct sidecar_cache *cache);
};

struct decoder_ops {
	const char *sidecar_name; /* where the encoding keeps its sidecar */

	/*
	 * Returns 1 and a decoder if the files are a trace in this encoding; 0 if not; -errno
	 * and the reason if they are one that cannot be read.
	 */
	int (*open)(const struct decoder_input *input, struct trace_decoder **out,
		    struct error *err);
	/* The stream of a instance's vCPU; one without a file is empty. Returns 0 or -errno. */
	int (*add_stream)(struct trace_decoder *decoder, unsigned int instance, unsigned int vcpu,
			  struct record_stream **out, struct error *err);
	/* Before or after its streams. */
	void (*destroy)(struct trace_decoder *decoder);
};

/* All decoders, in the order in which they are asked; NULL-terminated. In formats/encodings.c. */
extern const struct decoder_ops *const trace_decoders[];

#endif

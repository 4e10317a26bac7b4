/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_ENCODER_H
#define SONDE_FORMATS_TRACE_ENCODER_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/call-sites.h"
#include "formats/event/event.h"
#include "formats/output/output.h"
#include "formats/trace/cache-table.h"
#include "formats/trace/sidecar.h"

/*
 * What the trace writer needs of an encoding: all files of a trace directory but the sidecar. To
 * add an encoder, embed the two structures at the start of two of its own, fill in all
 * operations, and add a row to formats/encodings.c.
 *
 * One vCPU's stream of an instance; calls on one stream never overlap. It gathers events in packets
 * of at most OUTPUT_PACKET_MAX bytes and puts them into the trace's output, whose thread writes
 * them: its files are a valid trace at any time.
 */
struct stream_writer {
	const struct stream_writer_ops *ops;
	struct output_stream *output; /* set by add_stream */
	uint64_t lost; /* events of this stream that could not be written; the writer counts them */
	/* By the encoder: events in the packet at hand, and in all packets that were put. */
	struct output_events gathered, put;
	bool ready; /* by the encoder: the packet at hand has room for another event */
};

struct stream_writer_ops {
	/* Begin a packet with an event of this time. Returns 0, and the stream is `ready`; or an
	 * error of output_put(). */
	int (*prepare)(struct stream_writer *stream, int64_t ns);
	/* With `ready`: take an event of the instance's class with this index, and count it.
	 * Returns 0. */
	int (*put)(struct stream_writer *stream, unsigned int class_index, int64_t ns,
		   const void *bytes);
	/* With `ready`: take some of the first events of a run, and count them. Returns how many; 0
	 * if the first one is for put(). NULL: all are. */
	size_t (*put_run)(struct stream_writer *stream, unsigned int class_index,
			  const struct event_run *run);
	/* Likewise of events of several classes. */
	size_t (*put_mix)(struct stream_writer *stream, const struct event_mix *mix);
	/* Put what is gathered so far. Returns 0, or an error of output_put() and keeps it. */
	int (*flush)(struct stream_writer *stream);
	/*
	 * Forget what was gathered or put, and is not written: it does not count any more. May put
	 * a packet that says so. Returns the number of events.
	 */
	uint64_t (*discard)(struct stream_writer *stream);
	/* Give back what is not needed until the next event. NULL: nothing to do. */
	void (*rest)(struct stream_writer *stream);
	/*
	 * On the output's thread: create its files, which must not exist, if they were not created
	 * before. Returns 0, or -errno and there are none. The first packet does it, too.
	 */
	int (*create_files)(struct stream_writer *stream);
	/* On the output's thread: remove those that have no packet. */
	void (*remove_files)(struct stream_writer *stream);
	/* Close, without writing anything. The output has ended. */
	void (*destroy)(struct stream_writer *stream);
};

/* For encoders: put a packet, with the events that were gathered for it. As output_put(), which
 * takes over the packet. */
int stream_writer_put(struct stream_writer *stream, void *packet, size_t size);

/* For encoders: forget as discard() says; *nr_packets of them were put. Returns the number of
 * events. */
uint64_t stream_writer_forget(struct stream_writer *stream, uint64_t *nr_packets);

/* The whole trace. */
struct trace_encoder {
	const struct encoder_ops *ops;
};

/* What an encoder works with. All of it but the output outlives it. */
struct encoder_input {
	int dir_fd;
	struct cache_table *caches;
	struct call_sites *sites; /* is told of each address of code */
	struct budget *budget;    /* for tables that grow with what the guest does */
	struct output *output;    /* of all streams; ends before they do */
};

struct encoder_ops {
	const char *sidecar_name; /* a name that the encoding's readers pass over */

	/* Whether a trace can have these instances: -EINVAL, and the reason. NULL: any. */
	int (*check)(const struct trace_instance *instances, size_t n, struct error *err);
	/* Returns 0 or -errno. */
	int (*create)(const struct encoder_input *input, struct trace_encoder **out);
	/*
	 * Add an instance: its number is how many there were before. It is copied, but for the
	 * classes, which outlive the encoder. -EINVAL, and the reason, for one whose classes the
	 * encoding cannot express. Also while events are appended.
	 */
	int (*add_instance)(struct trace_encoder *encoder, const struct trace_instance *instance,
			    struct error *err);
	/* A stream of an instance's vCPU, without files yet. Does not meet the disk. Returns 0 or
	 * -errno. */
	int (*add_stream)(struct trace_encoder *encoder, unsigned int instance, unsigned int vcpu,
			  struct stream_writer **out);
	/*
	 * Write, or write again, the files that describe all streams. The writer calls it before a
	 * stream has files, and whenever what the sidecar says has changed, also while events are
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

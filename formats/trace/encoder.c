/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/encoder.h"

int stream_writer_put(struct stream_writer *stream, void *packet, size_t size)
{
	int ret = output_put(stream->output, packet, size, &stream->gathered);

	if (ret)
		return ret;
	output_events_add(&stream->put, &stream->gathered);
	stream->gathered = (struct output_events){{0}};
	return 0;
}

uint64_t stream_writer_forget(struct stream_writer *stream, uint64_t *nr_packets)
{
	struct output_events put = {{0}};
	uint64_t n;

	*nr_packets = output_discard(stream->output, &put);
	for (unsigned int i = 0; i < OUTPUT_MAX_CLASSES; i++)
		stream->put.n[i] -= put.n[i];
	n = output_events_sum(&put) + output_events_sum(&stream->gathered);
	stream->gathered = (struct output_events){{0}};
	return n;
}

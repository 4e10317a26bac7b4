/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/record-stream.h"

int record_stream_next(struct record_stream *stream, struct trace_event *event)
{
	return stream->fault ? 0 : stream->ops->next(stream, event);
}

void record_stream_destroy(struct record_stream *stream)
{
	if (stream)
		stream->ops->destroy(stream);
}

int record_stream_stop(struct record_stream *stream, enum record_fault fault)
{
	stream->fault = fault;
	return 0;
}

int record_stream_take(struct record_stream *stream, struct trace_event *event, uint64_t size)
{
	event->class = &kmem_classes[kmem_class_of(&event->record)];
	event->vcpu = stream->vcpu;
	event->index = stream->index++;
	event->offset = stream->offset;
	stream->offset += size;
	return 1;
}

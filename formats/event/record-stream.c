/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/record-stream.h"

#include <stdlib.h>

int record_stream_next(struct record_stream *stream, struct event *event)
{
	return stream->fault ? 0 : stream->ops->next(stream, event);
}

void record_stream_next_run(struct record_stream *stream, struct stream_room *room)
{
	if (!stream->fault && stream->ops->next_run)
		stream->ops->next_run(stream, room);
}

void record_stream_next_briefs(struct record_stream *stream, struct brief_room *room)
{
	if (!stream->fault && stream->ops->next_briefs)
		stream->ops->next_briefs(stream, room);
}

void record_stream_resume(struct record_stream *stream)
{
	if (stream->fault == RECORD_FAULT_TRUNCATED)
		stream->fault = RECORD_FAULT_NONE;
	byte_source_refresh(&stream->records);
	if (stream->ops->resume)
		stream->ops->resume(stream);
}

void record_stream_destroy(struct record_stream *stream)
{
	if (!stream)
		return;
	stream_notes_free(stream->notes);
	stream->ops->destroy(stream);
}

void record_stream_note(struct record_stream *stream, struct stream_note *note)
{
	note->next = NULL;
	if (stream->notes)
		stream->last_note->next = note;
	else
		stream->notes = note;
	stream->last_note = note;
}

struct stream_note *record_stream_take_notes(struct record_stream *stream)
{
	struct stream_note *notes = stream->notes;

	stream->notes = NULL;
	return notes;
}

void stream_notes_free(struct stream_note *notes)
{
	while (notes) {
		struct stream_note *next = notes->next;

		free(notes);
		notes = next;
	}
}

int record_stream_stop(struct record_stream *stream, enum record_fault fault)
{
	stream->fault = fault;
	return 0;
}

void record_stream_damage(struct record_stream *stream, uint64_t offset, uint64_t size,
			  uint64_t packet)
{
	if (stream->nr_damages < STREAM_DAMAGES_MAX)
		stream->damages[stream->nr_damages] =
			(struct stream_damage){.offset = offset, .size = size, .packet = packet};
	stream->nr_damages++;
	stream->damaged_bytes += size;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/perfetto/packets.h"

#include "formats/export/proto.h"

enum { SEQUENCE = 1 /* there is one */ };

uint8_t *packet_begin(struct export_file *file, uint8_t **at)
{
	uint8_t *begin = proto_begin(export_room(file), TRACE_PACKET, PROTO_LARGE);

	*at = proto_number(begin, PACKET_SEQUENCE_ID, SEQUENCE);
	return begin;
}

void packet_end(struct export_file *file, uint8_t *begin, const uint8_t *end)
{
	proto_end(begin, end, PROTO_LARGE);
	export_took(file, end);
}

void packet_track(struct export_file *file, uint64_t uuid, uint64_t parent, const char *name,
		  bool is_counter)
{
	uint8_t *at, *packet = packet_begin(file, &at);
	uint8_t *track = proto_begin(at, PACKET_TRACK_DESCRIPTOR, PROTO_LARGE);

	at = proto_number(track, TRACK_UUID, uuid);
	at = proto_text(at, TRACK_NAME, name);
	if (parent)
		at = proto_number(at, TRACK_PARENT_UUID, parent);
	if (is_counter) {
		uint8_t *counter = proto_begin(at, TRACK_COUNTER, PROTO_SMALL);

		at = proto_number(counter, COUNTER_UNIT, UNIT_SIZE_BYTES);
		proto_end(counter, at, PROTO_SMALL);
	}
	proto_end(track, at, PROTO_LARGE);
	packet_end(file, packet, at);
}

void packet_entry(struct export_file *file, enum interned_data kind, uint64_t iid, const char *text)
{
	uint8_t *at, *packet = packet_begin(file, &at), *data, *entry;

	at = proto_number(at, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
	data = proto_begin(at, PACKET_INTERNED_DATA, PROTO_LARGE);
	entry = proto_begin(data, kind, PROTO_LARGE);
	at = proto_number(entry, ENTRY_IID, iid);
	at = proto_text(at, ENTRY_TEXT, text);
	proto_end(entry, at, PROTO_LARGE);
	proto_end(data, at, PROTO_LARGE);
	packet_end(file, packet, at);
}

void packet_thread(struct export_file *file, const struct thread_track *thread)
{
	uint8_t *at, *packet = packet_begin(file, &at), *descriptor;
	uint8_t *track = proto_begin(at, PACKET_TRACK_DESCRIPTOR, PROTO_LARGE);

	at = proto_number(track, TRACK_UUID, thread->uuid);
	descriptor = proto_begin(at, TRACK_THREAD, PROTO_SMALL);
	at = proto_number(descriptor, THREAD_PID, thread->pid);
	at = proto_number(at, THREAD_TID, thread->tid);
	if (thread->name[0])
		at = proto_text(at, THREAD_NAME, thread->name);
	proto_end(descriptor, at, PROTO_SMALL);
	proto_end(track, at, PROTO_LARGE);
	packet_end(file, packet, at);
}

void packet_counter(struct export_file *file, uint64_t track, int64_t ns, uint64_t value)
{
	uint8_t *at, *packet = packet_begin(file, &at), *track_event;

	at = proto_number(at, PACKET_TIMESTAMP, (uint64_t)ns);
	track_event = proto_begin(at, PACKET_TRACK_EVENT, PROTO_SMALL);
	at = proto_number(track_event, EVENT_TYPE, TYPE_COUNTER);
	at = proto_number(at, EVENT_TRACK_UUID, track);
	at = proto_number(at, EVENT_COUNTER_VALUE, value);
	proto_end(track_event, at, PROTO_SMALL);
	packet_end(file, packet, at);
}

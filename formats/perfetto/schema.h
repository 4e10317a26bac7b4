/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_PERFETTO_SCHEMA_H
#define SONDE_FORMATS_PERFETTO_SCHEMA_H

/*
 * Numbers of fields in protos/perfetto/trace/ of github.com/google/perfetto: trace.proto,
 * trace_packet.proto, interned_data/interned_data.proto, and in track_event/ track_event.proto,
 * track_descriptor.proto, thread_descriptor.proto, counter_descriptor.proto and
 * debug_annotation.proto.
 */

enum { TRACE_PACKET = 1 }; /* Trace */

enum trace_packet {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_TRACK_DESCRIPTOR = 60,
};

/* TracePacket.SequenceFlags */
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };

enum track_descriptor {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_THREAD = 4,
	TRACK_PARENT_UUID = 5,
	TRACK_COUNTER = 8,
};

enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 }; /* ThreadDescriptor */

enum { COUNTER_UNIT = 3, UNIT_SIZE_BYTES = 3 }; /* CounterDescriptor */

enum track_event {
	EVENT_CATEGORY_IIDS = 3,
	EVENT_ANNOTATIONS = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK_UUID = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER_VALUE = 30,
};

enum {
	TYPE_SLICE_BEGIN = 1,
	TYPE_SLICE_END = 2,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4
}; /* TrackEvent.Type */

enum debug_annotation {
	ANNOTATION_NAME_IID = 1,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_STRING = 6,
	ANNOTATION_POINTER = 7,
	ANNOTATION_STRING_IID = 17,
};

enum interned_data {
	INTERNED_CATEGORIES = 1,
	INTERNED_EVENT_NAMES = 2,
	INTERNED_ANNOTATION_NAMES = 3,
	INTERNED_STRINGS = 29,
};

/* EventCategory, EventName, DebugAnnotationName and InternedString are alike. */
enum { ENTRY_IID = 1, ENTRY_TEXT = 2 };

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that the kmemtrace ABI forbids. */
#include <inttypes.h>
#include "formats/checks/check.h"

enum class { EVENT_ID, TYPE_ID, NULL_POINTER, ZERO_BYTES, TOO_FEW_BYTES };

static void print_ids(FILE *out, const struct check_example *example)
{
	fprintf(out, ", ids %u and %u", example->event.record.event_id,
		example->event.record.type_id);
}

static void print_bytes(FILE *out, const struct check_example *example)
{
	fprintf(out, ", %" PRIu64 " of %" PRIu64 " bytes", example->event.record.bytes_alloc,
		example->event.record.bytes_req);
}

static const struct check_class classes[] = {
	[EVENT_ID] = {"event-id", "unknown event id", print_ids},
	[TYPE_ID] = {"type-id", "unknown type id", print_ids},
	[NULL_POINTER] = {"null-pointer", "NULL pointer", NULL},
	[ZERO_BYTES] = {"zero-bytes", "allocation of zero bytes", NULL},
	[TOO_FEW_BYTES] = {"too-few-bytes", "fewer bytes allocated than requested", print_bytes},
	{NULL, NULL, NULL},
};

static int event(struct check *check, const struct check_event *event)
{
	const struct kmem_record *record = &event->record;

	if (!event->is_record)
		return 0;
	if (record->event_id != KMEM_EVENT_ALLOC && record->event_id != KMEM_EVENT_FREE)
		check_error(check, EVENT_ID, event);
	if (record->type_id >= KMEM_TYPE_COUNT)
		check_error(check, TYPE_ID, event);
	if (!record->ptr)
		check_error(check, NULL_POINTER, event);
	if (!kmem_record_is_legal(record) || !record->ptr || record->event_id != KMEM_EVENT_ALLOC)
		return 0;
	if (!record->bytes_req)
		check_error(check, ZERO_BYTES, event);
	if (record->bytes_alloc < record->bytes_req)
		check_error(check, TOO_FEW_BYTES, event);
	return 0;
}

const struct check_ops check_kmem_records = {
	.classes = classes, .size = sizeof(struct check), .event = event};

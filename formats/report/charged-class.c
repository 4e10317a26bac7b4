/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/charged-class.h"

#include <stdlib.h>
#include <string.h>
#include "formats/event/kmem.h"

struct charged_class {
	struct event_class class;
	struct event_field fields[];
};

struct event_class *charged_class_create(const struct event_class *class)
{
	const size_t n = class->nr_fields;
	struct charged_class *charged =
		calloc(1, sizeof(*charged) + (n + 1) * sizeof(*charged->fields));

	if (!charged)
		return NULL;
	memcpy(charged->fields, class->fields, n * sizeof(*charged->fields));
	charged->fields[n] = (struct event_field){.name = "recorded_site",
						  .type = EVENT_CODE,
						  .size = sizeof(uint64_t),
						  .at = class->size};
	charged->class = *class;
	charged->class.fields = charged->fields;
	charged->class.nr_fields = n + 1;
	charged->class.size += sizeof(uint64_t);
	return &charged->class;
}

struct event charged_event(const struct event *event, const struct event_class *class,
			   const uint64_t *call_site,
			   uint64_t bytes[CHARGED_EVENT_MAX / sizeof(uint64_t)])
{
	struct kmem_record *record = (struct kmem_record *)bytes;
	struct event charged = *event;

	memcpy(bytes, event->bytes, event->class->size);
	bytes[event->class->size / sizeof(uint64_t)] = record->call_site;
	if (call_site)
		record->call_site = *call_site;
	charged.class = class;
	charged.bytes = bytes;
	return charged;
}

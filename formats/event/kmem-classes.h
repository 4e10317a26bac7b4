/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_KMEM_CLASSES_H
#define SONDE_FORMATS_EVENT_KMEM_CLASSES_H

#include "formats/event/event.h"
#include "formats/event/record.h"

/* The classes of the kmem tracer; an event's bytes are a struct kmem_record. */
extern const struct event_class kmem_classes[];
extern const size_t nr_kmem_classes;

/* The class of a record; of one that is no legal record the last. */
const struct event_class *kmem_class_of(const struct kmem_record *record);

#endif

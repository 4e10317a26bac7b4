/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_CHARGED_CLASS_H
#define SONDE_FORMATS_REPORT_CHARGED_CLASS_H

#include "formats/event/event.h"

/*
 * A class of events of kmem for filters on who is charged with an allocation (heap/callers.h): in
 * its events `call_site` is that call site, and a field behind all others, `recorded_site`, has the
 * recorded one.
 */

enum { CHARGED_EVENT_MAX = EVENT_MAX_SIZE + sizeof(uint64_t) };

/* To be freed, in one piece. `class` must outlive it. NULL: no memory. */
struct event_class *charged_class_create(const struct event_class *class);

/* The event, of the class that `class` was made of, as one of `class`, with its bytes in `bytes`.
 * `call_site` is who is charged; NULL: the recorded one. */
struct event charged_event(const struct event *event, const struct event_class *class,
			   const uint64_t *call_site,
			   uint64_t bytes[CHARGED_EVENT_MAX / sizeof(uint64_t)]);

#endif

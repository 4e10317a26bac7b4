/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_EVENT_HINTS_H
#define SONDE_FORMATS_REPORT_EVENT_HINTS_H

#include "formats/report/event-selection.h"
#include "formats/trace/sidecar.h"

/*
 * Names of functions and caches that filters ask for, and that no event of the trace can have: a
 * line of standard error for each, with the nearest name there is. Nothing is said of a trace that
 * has not all of its names: one that is being recorded, or was cut off. `sidecar` may be NULL.
 */
void event_hints_print(const char *verb, const struct event_selection *selection,
		       const struct sidecar *sidecar);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_EVENT_TEXT_H
#define SONDE_FORMATS_REPORT_EVENT_TEXT_H

#include "formats/base/error.h"
#include "formats/filter/filter.h"
#include "formats/trace/sidecar.h"

/*
 * The values of events as text: code addresses as symbols, caches and flags by name, as the sidecar
 * has them. Each text is made once. Not thread-safe.
 */
struct event_texts;

/* `sidecar` may be NULL; it must outlive the result. It may grow meanwhile. */
int event_texts_create(const struct sidecar *sidecar, struct event_texts **out, struct error *err);
/* NULL-safe. */
void event_texts_destroy(struct event_texts *texts);

/* The name of the function whose mcount site this is, valid until the next call. */
const char *event_texts_function(struct event_texts *texts, uint64_t ip);

/* For filters (formats/filter/filter.h); lives as long as `texts`. */
const struct event_names *event_texts_names(struct event_texts *texts);

/*
 * What lines show for a value of a field of code, flags or a cache: "symbol+0x1f/0x90". Valid until
 * the next call.
 */
const char *event_texts_of(struct event_texts *texts, const struct event_field *field,
			   uint64_t value);

/*
 * Prints events, a line each, to a file descriptor: as text
 *
 *	[vCPU] seconds system:name: field=value field=value ...
 *
 * and behind it a line for each frame of its stack, or as JSON objects. Buffers:
 *event_printer_flush() at the end.
 */
struct event_printer;

int event_printer_create(int fd, bool json, struct event_texts *texts, struct event_printer **out,
			 struct error *err);
/* NULL-safe. */
void event_printer_destroy(struct event_printer *printer);

/* Return 0, or -errno if it cannot be written. */
int event_printer_put(struct event_printer *printer, const struct event *event);
int event_printer_flush(struct event_printer *printer);

#endif

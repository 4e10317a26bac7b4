/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_FTRACE_FORMAT_H
#define SONDE_FORMATS_EXPORT_FTRACE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/event/event.h"
#include "formats/export/file.h"
#include "formats/trace/sidecar.h"

/*
 * Classes of events as ftrace describes and stores them (the kernel's
 * Documentation/trace/events.rst, section "Event formats"), and the other texts that a trace.dat
 * takes from tracefs.
 */
enum {
	FTRACE_COMMON_BYTES = 8,
	FTRACE_RECORD_MAX = 16 + EVENT_MAX_FIELDS * (EVENT_STRING_MAX + 8) +
			    EVENT_MAX_LONG_STRINGS * EVENT_TEXT_ROOM,
	FTRACE_FIRST_EVENT = 2000, /* number of the first class; ftrace's own are small */
};

struct ftrace_field {
	const struct event_field *field;
	uint16_t at;  /* bytes from the start of the record */
	uint8_t size; /* bytes there */
};

struct ftrace_class {
	const struct event_class *class;
	const struct event_field *pid, *comm; /* of the thread; or NULL */
	bool has_functions;                   /* a field is an EVENT_FUNCTION */
	uint16_t id;
	uint16_t size; /* bytes of a record without long strings, a multiple of 4 */
	struct ftrace_field fields[EVENT_MAX_FIELDS];
};

/* What a record has for a pid if its class has none: no thread has it. */
enum { FTRACE_NO_PID = -1 };

/* Lay out a class whose events have this number. */
void ftrace_class_init(struct ftrace_class *layout, const struct event_class *class, uint16_t id);

/* Make an event a record, little-endian. Returns how many bytes it has. */
uint32_t ftrace_put_record(const struct ftrace_class *layout, const void *bytes,
			   uint8_t out[FTRACE_RECORD_MAX]);

/* The pid that the record has. */
int32_t ftrace_pid(const struct ftrace_class *layout, const void *bytes);

/* Print what tracefs has in events/SYSTEM/NAME/format. The sidecar may be NULL. */
void ftrace_print_format(struct export_file *out, const struct ftrace_class *layout,
			 const struct sidecar *sidecar);

/*
 * Print the functions of a sidecar as /proc/kallsyms does. Readers take all up to the next
 * function for part of one, so where a function ends a symbol begins whose name is its address.
 */
void ftrace_print_kallsyms(struct export_file *out, const struct sidecar *sidecar);

/* Print a symbol there whose name is its address. */
void ftrace_print_address(struct export_file *out, uint64_t address);

/* events/header_page and events/header_event, of pages of 4,096 bytes. */
extern const char ftrace_header_page[], ftrace_header_event[];

#endif

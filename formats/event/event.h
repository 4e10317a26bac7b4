/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_EVENT_H
#define SONDE_FORMATS_EVENT_EVENT_H

#include <stddef.h>
#include <stdint.h>

/*
 * What an event consists of, described once. Text, JSON and filters follow from the description of
 * an event's class and know no class by name.
 */
enum event_field_type {
	EVENT_UINT,
	EVENT_INT,
	EVENT_HEX,
	EVENT_POINTER,    /* an address of data */
	EVENT_CODE,       /* an address of code: shown as symbol+offset */
	EVENT_FLAGS,      /* bits with names of their own */
	EVENT_DICTIONARY, /* an id whose name a dictionary holds */
};

/* Where a field lies in an event's bytes, in the host's byte order. */
struct event_field {
	const char *name;
	enum event_field_type type;
	uint8_t size; /* bytes: 1, 2, 4 or 8 */
	uint16_t at;  /* bytes from the start */
};

struct event_class {
	const char *system; /* "kmem" */
	const char *name;   /* "kmalloc", as the kernel's own event of this kind */
	const struct event_field *fields;
	size_t nr_fields;
};

struct event {
	const struct event_class *class;
	unsigned int vcpu;
	int64_t ns; /* trace clock */
	const void *bytes;
};

/* NULL if the class has no such field. */
const struct event_field *event_field_find(const struct event_class *class, const char *name);

/* A field's value; EVENT_INT is sign-extended to 64 bits. */
uint64_t event_field_value(const struct event_field *field, const void *bytes);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_EVENT_H
#define SONDE_FORMATS_EVENT_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * What an event consists of, described once. Encoding, decoding, text, JSON and filters follow from
 * the description of an event's class and know no class by name.
 */
enum event_field_type {
	EVENT_UINT,
	EVENT_INT,
	EVENT_HEX,
	EVENT_POINTER,     /* an address of data */
	EVENT_CODE,        /* an address of code: shown as symbol+offset */
	EVENT_FUNCTION,    /* one where a function begins: shown as the function's name */
	EVENT_FLAGS,       /* bits with names of their own */
	EVENT_DICTIONARY,  /* an id whose name a dictionary holds: a cache of the sidecar */
	EVENT_PAGES,       /* bytes of a block of pages, mostly 4096 times a power of two */
	EVENT_STRING,      /* characters, filled up with NULs */
	EVENT_STACK,       /* a call chain: EVENT_STACK_WORDS words; see below */
	EVENT_LONG_STRING, /* characters up to a NUL; without one it was cut */
	EVENT_NR_TYPES,
};

enum {
	EVENT_FORMS = 5,             /* at most, of a class */
	EVENT_MAX_FIELDS = 71,       /* of a class */
	EVENT_STRING_MAX = 16,       /* bytes of an EVENT_STRING */
	EVENT_LONG_STRING_MAX = 256, /* bytes of an EVENT_LONG_STRING */
	EVENT_MAX_LONG_STRINGS = 7,  /* of a class */
	EVENT_MAX_SHORT_SIZE = 1104, /* bytes of an event without such strings */
	EVENT_MAX_SIZE = EVENT_MAX_SHORT_SIZE + EVENT_MAX_LONG_STRINGS * EVENT_LONG_STRING_MAX,
	EVENT_TEXT_ROOM = EVENT_LONG_STRING_MAX + 3, /* of a string as users see it, with its NUL */
	EVENT_STACK_FRAMES = 64,
	EVENT_STACK_WORDS = EVENT_STACK_FRAMES + 1,
};

/*
 * A call chain: return addresses, innermost first, up to the first 0. The last word that is not 0
 * is EVENT_STACK_CUT if the chain is known to go on, or to be unknown from there on.
 */
#define EVENT_STACK_CUT UINT64_MAX

/*
 * Where a field lies in an event's bytes, in the host's byte order, and how many bits it takes on
 * disk.
 *
 * A class has several forms, and an event takes the first one that holds all of it. bits[form] is
 *	0                 the field is not written: it has the value `implied`
 *	8 * size          the field as it is
 *	less, otherwise   EVENT_CODE, EVENT_FUNCTION, EVENT_FLAGS, EVENT_STRING: the number of the
 *	                  value in a table of values; EVENT_PAGES: n of 4096 << n; EVENT_INT and
 *	                  EVENT_POINTER: the low bits, to be sign-extended; EVENT_STACK: the number
 *	                  of the innermost frame in a table of frames; else the low bits
 * EVENT_LONG_STRING: always 8, its characters up to and with a NUL.
 *
 * In the last form of a class, all fields are as they are.
 */
struct event_field {
	const char *name;
	enum event_field_type type;
	uint8_t size; /* bytes: 1, 2, 4 or 8; of an EVENT_STRING up to EVENT_STRING_MAX; of a stack
		       * those of a word, of an EVENT_LONG_STRING those of a character */
	uint16_t at;  /* bytes from the start */
	uint8_t bits[EVENT_FORMS];
	int8_t implied;
	bool is_argument; /* of a dynamic probe: the user has named it */
};

struct event_class {
	const char *system; /* "kmem" */
	const char *name;   /* "kmalloc", as the kernel's own event of this kind */
	const struct event_field *fields;
	size_t nr_fields;
	uint16_t size; /* bytes of an event, a multiple of 8 */
	uint8_t nr_forms;
	/*
	 * In a class that a trace describes: the class of this program with the same name, or NULL.
	 * The event's bytes begin with those of that class, with 0 for fields that the trace lacks.
	 */
	const struct event_class *known;
};

/* A named tracer. The names of instances that exist at the same time differ. */
struct trace_instance {
	const char *name; /* [A-Za-z][A-Za-z0-9_-]{0,62} */
	const char *spec; /* as the user gave it, without the name: "kmem", "function:vfs_*" */
	const struct event_class *classes;
	size_t nr_classes;
	/* Of functions whose arguments the events have, a line each: "openat(int dfd, ...)". NULL:
	 * none
	 */
	const char *prototypes;
	/* As the sidecar of a trace has it: added when tracing had been on before; has events of
	 * before it was removed and came again, or got another spec; was removed, and has not come
	 * again. */
	bool late, interrupted, removed;
	const char *suffix; /* in a trace that is read: its files are cpu<n><suffix> */
};

enum {
	EVENT_CLASS_NAME_MAX = 63,    /* and of its system; as the kernel's MAX_EVENT_NAME_LEN */
	TRACE_INSTANCE_NAME_MAX = 63, /* a probe is called like its event */
	TRACE_INSTANCES_MAX = 256     /* of a trace, closed ones included */
};

/* -ENOENT: `name`, which the user gave to --instance, is none of these. */
int trace_instance_unknown(const char *name, const struct trace_instance *instances, size_t n,
			   struct error *err);

/* Whether any of its classes has a field of this name. */
bool trace_instance_has_field(const struct trace_instance *instance, const char *name);

/* Sinks (formats/trace/writer.h) that a thread appends events to. Zeroed: none. */
struct event_sink;
struct event_batch {
	struct event_sink *first;
	pthread_mutex_t *lock; /* that the thread holds, but not while it waits for the disk;
				* NULL: none */
};

/* Events of one class that follow each other in a stream. */
struct event_run {
	size_t n;
	const int64_t *ns;    /* of each; never goes back */
	const uint8_t *bytes; /* of the first; the next one is `stride` bytes behind it */
	size_t stride;
};

static inline struct event_run event_run_rest(const struct event_run *run, size_t done)
{
	return (struct event_run){run->n - done, run->ns + done, run->bytes + done * run->stride,
				  run->stride};
}

/* Events of several classes that follow each other in a stream. */
struct event_mix {
	size_t n;
	const uint8_t *classes; /* of each: the number of the instance's class */
	/* Of the first; of the next one so many bytes behind it. Times never go back. */
	const int64_t *ns;
	size_t ns_stride;
	const uint8_t *bytes;
	size_t stride;
};

static inline int64_t event_mix_ns(const struct event_mix *mix, size_t i)
{
	return *(const int64_t *)(const void *)((const uint8_t *)mix->ns + i * mix->ns_stride);
}

/* The time behind this one. */
static inline const int64_t *event_mix_next(const struct event_mix *mix, const int64_t *ns)
{
	return (const void *)((const uint8_t *)ns + mix->ns_stride);
}

static inline struct event_mix event_mix_rest(const struct event_mix *mix, size_t done)
{
	const uint8_t *ns = (const uint8_t *)mix->ns + done * mix->ns_stride;

	return (struct event_mix){mix->n - done,
				  mix->classes + done,
				  (const void *)ns,
				  mix->ns_stride,
				  mix->bytes + done * mix->stride,
				  mix->stride};
}

struct event {
	const struct event_class *class;
	const struct trace_instance *instance;
	unsigned int vcpu;
	int64_t ns; /* trace clock */
	const void *bytes;
	uint64_t index, offset; /* in its stream: events, and bytes of the file, before it */
};

/* event_field_value() is an address of code: of a stack its innermost frame's. */
static inline bool event_field_is_code(const struct event_field *field)
{
	return field->type == EVENT_CODE || field->type == EVENT_FUNCTION ||
	       field->type == EVENT_STACK;
}

/* Bytes of a field in an event. */
static inline unsigned int event_field_bytes(const struct event_field *field)
{
	if (field->type == EVENT_LONG_STRING)
		return EVENT_LONG_STRING_MAX;
	return field->type == EVENT_STACK ? EVENT_STACK_WORDS * sizeof(uint64_t) : field->size;
}

static inline bool event_field_is_string(const struct event_field *field)
{
	return field->type == EVENT_STRING || field->type == EVENT_LONG_STRING;
}

/* The frames of an EVENT_STACK, innermost first; returns how many. *cut: the chain goes on. */
unsigned int event_field_frames(const struct event_field *field, const void *bytes,
				uint64_t frames[EVENT_STACK_FRAMES], bool *cut);

/* NULL if the class has no such field. */
const struct event_field *event_field_find(const struct event_class *class, const char *name);

/*
 * Whether a field is what Sonde itself records under this name: no argument. Where an argument has
 * the name, "common_" is in front of Sonde's, as in the kernel's names for what all events have.
 */
bool event_field_is_own(const struct event_field *field, const char *name);
/* The name that Sonde's field has then. Returns `out`. */
const char *event_own_name(const char *name, bool is_taken, char *out, size_t size);
/* Without that "common_". */
const char *event_plain_name(const char *name);
/* The one that is; NULL: there is none. */
const struct event_field *event_field_own(const struct event_class *class, const char *name);

/* What a column or key for a field has behind the field's name: "_" if there is a column of this
 * name for each event, else "". */
const char *event_column_suffix(const char *name);

/* The call chain of a class's events; NULL: they have none. */
const struct event_field *event_field_chain(const struct event_class *class);

/* A field's value; EVENT_INT is sign-extended to 64 bits. Not for strings. Of an EVENT_STACK the
 * first word. */
uint64_t event_field_value(const struct event_field *field, const void *bytes);

/* The text of a string, with '?' for what is not printable ASCII, NUL-terminated. `out` has room
 * for EVENT_STRING_MAX + 1 bytes, or for EVENT_LONG_STRING_MAX of an EVENT_LONG_STRING. */
void event_field_text(const struct event_field *field, const void *bytes, char *out);

/* An EVENT_LONG_STRING is longer than its text, which has as many characters as one can have. */
bool event_field_is_cut(const struct event_field *field, const void *bytes);

/* event_field_text() for users: with "..." behind a string that was cut. */
void event_field_shown(const struct event_field *field, const void *bytes,
		       char out[EVENT_TEXT_ROOM]);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CHECKS_CHECK_H
#define SONDE_FORMATS_CHECKS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/event/kmem.h"
#include "formats/event/record-stream.h"
#include "formats/heap/heap.h"
#include "formats/trace/reader.h"

/*
 * A check searches a trace for what cannot be true. `sonde check` runs all checks and shows
 * their findings: how many, and the first ones as examples.
 *
 * To add a check: a file NAME.c that defines `const struct check_ops check_NAME`, and a row in
 * registry.c.
 */
enum check_severity { CHECK_NOTE, CHECK_ERROR, CHECK_SEVERITY_COUNT };

enum { CHECK_MAX_EXAMPLES = 5 };

/* What a check looks at. */
struct check_event {
	struct event at; /* for a check about streams: instance, vcpu, index and offset only */
	bool is_record;  /* it is an event of the kmem tracer: */
	struct kmem_record record;
	uint64_t packet, size; /* of a damaged part of a stream: its number, bytes */
	const char *file;      /* not about a stream, but a file beside them: what is wrong with it;
				  lives as long as the reader */
};

struct check_example {
	struct check_event event;
	bool has_allocation; /* the object's allocation is known: */
	uint64_t allocation_call_site;
};

struct check_finding {
	uint64_t count;
	unsigned int nr_examples; /* the first ones */
	struct check_example examples[CHECK_MAX_EXAMPLES];
};

/* A class of findings. */
struct check_class {
	const char *id;   /* stable: "free-twice"; NULL ends an array */
	const char *text; /* "free of an address that is free already" */
	/* What text output adds to an example: ", 8 of 9 bytes". Or NULL. */
	void (*print_details)(FILE *out, const struct check_example *example);
};

/* What all checks know of the trace, at the current event. */
struct check_context {
	bool from_first; /* its instance has seen the guest's first slab allocation, so the
			    allocation of every object */
	bool uncertain;  /* events may be missing before it, or its instance sees a part of them */
};

/* A check at work. A check's own data begins with it. */
struct check {
	const struct check_ops *ops;
	const struct check_context *context;
	struct check_finding (*findings)[CHECK_SEVERITY_COUNT]; /* by class */
};

struct check_ops {
	const struct check_class *classes;
	bool is_about_streams; /* and not about events */
	size_t size;           /* of the check's own data, which are 0 at first */
	/* The sidecar may be NULL. NULL: nothing to do. */
	void (*init)(struct check *check, const struct sidecar *sidecar);
	/* Frees what its data own, but not these. NULL: nothing to do. */
	void (*deinit)(struct check *check);
	/* In merged order. Returns 0 or -ENOMEM. NULL: nothing to do. */
	int (*event)(struct check *check, const struct check_event *event);
	/* What an event changes in the heap of the first kmem instance. 0 or -ENOMEM; or NULL. */
	int (*change)(struct check *check, const struct check_event *event,
		      const struct heap_change *change);
	/* After the last event. NULL: nothing to do. */
	void (*finish)(struct check *check, const struct trace_reader *reader);
};

/* For checks: note a finding of a class, given by its index in ops->classes. */
void check_error(struct check *check, unsigned int class, const struct check_event *event);

/*
 * The same about an object's life; `allocation` is the call site of its allocation, or NULL. A
 * doubt is an error where the trace is whole up to here, and a note where missing events may
 * explain it.
 */
void check_note(struct check *check, unsigned int class, const struct check_event *event,
		const uint64_t *allocation);
void check_doubt(struct check *check, unsigned int class, const struct check_event *event,
		 const uint64_t *allocation);

/* --- all checks ------------------------------------------------------------------------------ */

/* In the order of output; NULL-terminated. In registry.c. */
extern const struct check_ops *const check_table[];

struct checker;

/* `lossy`: events are missing from the trace at unknown places. NULL: no memory. */
struct checker *checker_create(const struct sidecar *sidecar, bool lossy);
/* NULL-safe. */
void checker_destroy(struct checker *checker);

/* `cut`: a stream has ended too early before this event. Returns 0 or -ENOMEM. */
int checker_event(struct checker *checker, const struct event *event, bool cut);

/* What the last event has changed in the heap. Returns 0 or -ENOMEM. */
int checker_change(struct checker *checker, const struct heap_change *change);

/* After the last event of the reader. */
void checker_finish(struct checker *checker, const struct trace_reader *reader);

/* Findings of the n-th check's class. Valid until destroy. */
const struct check_finding *checker_finding(const struct checker *checker, size_t check,
					    size_t class, enum check_severity severity);

#endif

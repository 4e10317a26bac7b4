/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_CHECK_H
#define SONDE_FORMATS_ANALYSIS_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/event/record-stream.h"
#include "formats/trace/reader.h"

/*
 * Looks for what cannot be true in a trace: records that the kmemtrace ABI forbids, and objects'
 * lives that make no sense. Takes events in merged order. Memory grows with the number of objects
 * live at a time.
 */
enum check_class {
	CHECK_EVENT_ID,
	CHECK_TYPE_ID,
	CHECK_NULL_POINTER,
	CHECK_ZERO_BYTES,
	CHECK_TOO_FEW_BYTES,
	CHECK_TIME_ORDER,
	CHECK_ALLOC_LIVE,
	CHECK_FREE_TWICE,
	CHECK_FREE_UNKNOWN,
	CHECK_FAMILY,
	CHECK_FREE_EARLIER,
	/* about a stream: */
	CHECK_RECORD_SIZE,
	CHECK_PACKET,
	CHECK_EVENT,
	CHECK_EXTRA_RECORDS,
	CHECK_CUT,
	CHECK_CLASS_COUNT,
};

/*
 * Of a class about objects' lives (allocated twice, freed twice, ...) an item is an error where the
 * trace is whole, and a note where events before it are missing, as these may explain it.
 */
enum check_severity {
	CHECK_NOTE,
	CHECK_ERROR,
	CHECK_SEVERITY_COUNT,
};

enum { CHECK_MAX_EXAMPLES = 5 };

struct check_example {
	struct trace_event event; /* of a class about a stream: vcpu, index and offset only */
	bool has_allocation;      /* the object's allocation is known: */
	uint64_t allocation_call_site;
};

struct check_finding {
	uint64_t count;
	unsigned int nr_examples; /* the first ones */
	struct check_example examples[CHECK_MAX_EXAMPLES];
};

struct check;

/*
 * from_first: the trace has the guest's very first slab allocation, so every object was allocated
 * in it. lossy: records are missing, it is not known where. NULL: no memory.
 */
struct check *check_create(bool from_first, bool lossy);

/* NULL-safe. */
void check_destroy(struct check *check);

/* Check one event; `cut`: a stream has ended too early before it. Returns 0 or -ENOMEM. */
int check_add(struct check *check, const struct trace_event *event, bool cut);

/* After the last event: what is wrong with the reader's streams themselves. */
void check_streams(struct check *check, const struct trace_reader *reader);

/* Valid until destroy. */
const struct check_finding *check_finding(const struct check *check, enum check_class class,
					  enum check_severity severity);

/* Stable identifier ("free-twice") and one line of text ("free of an address that ..."). */
const char *check_class_id(enum check_class class);
const char *check_class_text(enum check_class class);

/* Whether items are about a whole stream, so that their examples have no record. */
bool check_class_is_stream(enum check_class class);

#endif

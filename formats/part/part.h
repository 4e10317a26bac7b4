/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_PART_PART_H
#define SONDE_FORMATS_PART_PART_H

#include "formats/base/error.h"
#include "formats/base/text.h"
#include "formats/report/event-selection.h"
#include "formats/report/trace-text.h"
#include "formats/trace/reader.h"

/* The part of a trace that the user wants: of what time, and which events. */
struct trace_part {
	const struct event_choice *choice;
	struct cli_time_range time; /* --since init included */
	struct event_filters filters;
	struct event_texts *texts;
	struct event_selection *selection; /* NULL: all events */
	struct trace_outside outside;      /* what was passed over */
	uint64_t read;                     /* events, all of them */
};

/*
 * Make the choice ready for a trace. It and the reader outlive the part, which is for
 * trace_part_deinit(), also on failure. With `charged`, filters may be on who is charged with an
 * allocation (report/charged-class.h); trace_part_place() goes by what is recorded nevertheless.
 * -EINVAL, -ENOENT: what the user wishes is of no use; -ENOMEM.
 */
int trace_part_init(struct trace_part *part, const struct trace_reader *reader,
		    const struct event_choice *choice, const struct cli_time_range *time,
		    bool charged, struct error *err);
void trace_part_deinit(struct trace_part *part);

/* Whether that is the whole trace. */
bool trace_part_is_all(const struct trace_part *part);

/* Whether it lacks events of its time and instances. */
bool trace_part_chooses_events(const struct trace_part *part);

/* Whether it has all events of the instances that it has events of. */
bool trace_part_has_whole_instances(const struct trace_part *part);

/* Whether events of a class, or of one of an instance, may be of the part. */
bool trace_part_has_class(const struct trace_part *part, const struct trace_instance *instance,
			  const struct event_class *class);
bool trace_part_has_instance(const struct trace_part *part, const struct trace_instance *instance);

/* Where an event is: it is of the part if all three are true. */
struct part_place {
	bool in_instance; /* that the user chose */
	bool in_time;     /* else before it */
	bool is_selected; /* by its name, fields and vCPU */
};

/* Returns 1; 0 if the event is behind the time: the rest of the trace is no part. */
int trace_part_place(struct trace_part *part, const struct event *event, struct part_place *out);

/* "from 5.000 s to before 10.000 s, events kmalloc or kfree"; "" if it is the whole trace. */
struct text trace_part_text(const struct trace_part *part);

/* What was written, and what is missing. */
struct copy_result {
	uint64_t events;
	struct trace_losses losses; /* of the source */
	struct text missing;        /* from sums over events; "" of what has none */
	struct text overlap;        /* what they are of that may be in them twice; or "" */
	struct text left_out;       /* fields that the format has no room for */
};

/*
 * Write the part of a fresh reader's trace as another one in `dir`, as trace_writer_create() takes
 * it. Records, order, ids of caches, counts and symbols are those of the source. If the source
 * lacks its last records, or its sidecar is damaged, or the part has not all of an instance, the
 * copy says so. Returns 0 or -errno. In copy.c.
 */
int part_copy(struct trace_reader *reader, const char *dir, unsigned int encoding,
	      struct trace_part *part, struct copy_result *result, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_EXPORT_H
#define SONDE_FORMATS_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/export/file.h"
#include "formats/part/part.h"
#include "formats/report/event-text.h"
#include "formats/trace/reader.h"

/*
 * An export is a file that another tool opens. It takes all events of a trace, of any class: what
 * it needs to know of them is in the description of their class.
 *
 * To add one: a file NAME.c that defines `const struct exporter_ops NAME_exporter`, and a row in
 * registry.c. `sonde convert --to NAME` then runs it.
 */
enum export_value { EXPORT_COUNT, EXPORT_BYTES, EXPORT_LIVE, EXPORT_TIME };

/* What an export adds up: what is missing of that makes it wrong. */
enum export_sums { EXPORT_SUMS_NOTHING, EXPORT_SUMS_EVENTS, EXPORT_SUMS_ALLOCATIONS };

/* What an export works with. All of it outlives the export. */
struct export_input {
	const struct trace_reader *reader;
	struct event_texts *texts;
	struct export_file *file;
	enum export_value value;
	const char *host;              /* of tables */
	const struct trace_part *part; /* NULL: the whole trace */
};

/* What the user chose. */
struct export_options {
	enum export_value value;
	const char *host;        /* printable ASCII */
	struct trace_part *part; /* NULL: the whole trace */
};

/* An export at work. Its own data begins with it. */
struct exporter {
	const struct exporter_ops *ops;
	struct export_input input;
};

struct exporter_ops {
	bool takes_value; /* shows one enum export_value */
	bool takes_host;  /* says whose the rows are */
	enum export_sums sums;
	bool takes_lines; /* shows inlined functions, or files and lines, if they are known */

	size_t size; /* of its own data, which are 0 at first */
	/* Returns 0 or -errno; deinit() follows either. */
	int (*init)(struct exporter *exporter, struct error *err);
	/* Frees what its data own, but not these. */
	void (*deinit)(struct exporter *exporter);
	/*
	 * Whether an event is selected, by who is charged with it: filters are on that then. NULL:
	 * by what is recorded. Returns 0 or -errno.
	 */
	int (*select)(struct exporter *exporter, const struct event *event, bool *selected);
	/* Of the part, in merged order. Returns 0 or -errno; errors of the file are left to it. */
	int (*event)(struct exporter *exporter, const struct event *event);
	/*
	 * An event of an instance that is exported, but not of the part: what keeps a heap needs
	 * it. NULL: nothing does. Returns 0 or -errno; likewise.
	 */
	int (*other)(struct exporter *exporter, const struct event *event,
		     const struct part_place *place);
	/* After the last event. Returns 0 or -errno; likewise. */
	int (*finish)(struct exporter *exporter, struct error *err);
};

/* All exports, and what users call them; NULL-terminated. In registry.c. */
extern const struct exporter_ops *const exporters[];
extern const char *const exporter_names[];

/* Names of the enum export_value, NULL-terminated. */
extern const char *const export_value_names[];

/* The export of this name, or NULL. */
const struct exporter_ops *exporter_find(const char *name);

/* Whether events of a class may be exported. */
bool export_has_class(const struct export_input *input, const struct trace_instance *instance,
		      const struct event_class *class);
bool export_has_instance(const struct export_input *input, const struct trace_instance *instance);

/* Whether what is exported of a trace has sums. */
bool export_has_sums(const struct exporter_ops *ops, const struct trace_reader *reader,
		     const struct trace_part *part);

/* "of 2 instances of kmem, which may have the same events", what the sums of a trace, or a part,
 * are if they are of all instances together; "" if they count nothing twice. */
struct text export_overlap(const struct exporter_ops *ops, const struct trace_reader *reader,
			   const struct trace_part *part, enum export_value value);

/* For texts: the part, and what sums over it lack or have twice; "" if there is nothing to say. */
struct text export_about(const struct exporter *exporter);

/*
 * Read a fresh reader to its end, or to that of the part, and write what the export makes of it to
 * the file `path`, as export_file_create() takes it. Returns 0, or -errno and there is no new file.
 * *nr_events is how many were read.
 */
int export_trace(const struct exporter_ops *ops, struct trace_reader *reader, const char *path,
		 bool replace, const struct export_options *options, uint64_t *nr_events,
		 struct error *err);

/* For texts: what a trace says of the guest's kernel, its banner; "" if it says nothing. */
const char *export_banner(const struct trace_reader *reader);

#endif

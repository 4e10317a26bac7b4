/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_TRACE_DAT_H
#define SONDE_FORMATS_EXPORT_TRACE_DAT_H

#include "formats/base/u64-map.h"
#include "formats/export/export.h"
#include "formats/export/ftrace-stream.h"

/* What trace-dat.c gathers of a trace, and trace-dat-file.c writes. */
struct place {
	uint64_t offset, size; /* in the file */
};

/* An instance of ftrace. */
struct buffer {
	const char *name;              /* "": the top instance */
	struct ftrace_stream *streams; /* by vCPU */
	struct place *cpus;            /* likewise: where their data is, once it is written */
	uint64_t offset;               /* likewise: of its section */
};

struct task {
	char comm[EVENT_STRING_MAX + 1];
};

struct trace_dat {
	struct exporter base;
	const struct trace_instance *instances; /* of the trace */
	size_t nr_instances;
	unsigned int nr_vcpus;
	struct ftrace_class *classes;            /* of all instances, in their order */
	size_t first_class[TRACE_INSTANCES_MAX]; /* by instance */
	size_t nr_classes;
	struct buffer buffers[1 + TRACE_INSTANCES_MAX]; /* the first is the top instance */
	size_t nr_buffers;
	size_t buffer_of[TRACE_INSTANCES_MAX]; /* by instance */
	struct trace_stream_losses *noted;     /* by instance and vCPU: before the last event */
	struct ftrace_spool spool;
	struct u64_map tasks;     /* by pid, struct task */
	struct u64_map functions; /* that began: by address, whether it has no name */
};

/* Write the whole file. Returns 0 or -errno; errors of the file are left to it. */
int trace_dat_write(struct trace_dat *t);

#endif

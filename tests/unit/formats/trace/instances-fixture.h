/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_FORMATS_TRACE_INSTANCES_FIXTURE_H
#define SONDE_TESTS_UNIT_FORMATS_TRACE_INSTANCES_FIXTURE_H

#include <stdlib.h>
#include <string.h>
#include "formats/event/function.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"

/* Traces of instances that record functions. */
enum { VCPUS = 2 };

static const struct trace_info info = {.tool_version = "1"};

static inline struct trace_instance functions(const char *name, unsigned int fields)
{
	return (struct trace_instance){.name = name,
				       .spec = "function:vfs_*",
				       .classes = function_class(fields),
				       .nr_classes = 1};
}

static inline struct trace_writer *create(const char *path, const char *encoding)
{
	struct trace_writer *writer;
	unsigned int number = 0;

	while (strcmp(trace_encoding_names[number], encoding))
		number++;
	if (trace_writer_create(path, VCPUS, number, &info, &writer, NULL))
		abort();
	return writer;
}

static inline int add(struct trace_writer *writer, const struct trace_instance *instance)
{
	struct error err = {0};
	int ret = trace_writer_add_instance(writer, instance, &err);

	if (ret < 0)
		tap_diag("%s", err.text);
	return ret;
}

#endif

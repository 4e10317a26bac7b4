/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_CONVERT_H
#define SONDE_FORMATS_TRACE_CONVERT_H

#include "formats/base/error.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"

struct convert_result {
	uint64_t records;
	struct trace_losses losses; /* of the source */
	bool cut;                   /* the source ended too early */
};

/*
 * Write all that `reader` reads, which must be fresh, as a trace in `dir`, as trace_writer_create()
 * takes it: records, order, ids of caches, counts and symbols are those of the source. What the
 * source lacks at its end, the copy says it lacks. Returns 0 or -errno.
 */
int convert_trace(struct trace_reader *reader, const char *dir, enum trace_encoding encoding,
		  struct convert_result *result, struct error *err);

#endif

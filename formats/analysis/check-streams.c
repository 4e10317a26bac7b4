/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The streams themselves: they can be read to their ends, and have all their records. */
#include <errno.h>
#include <stdlib.h>
#include "formats/analysis/check.h"

enum class { RECORD_SIZE, PACKET, EVENT, EXTRA_RECORDS, CUT };

static const struct check_class classes[] = {
	[RECORD_SIZE] = {"record-size",
			 "record of impossible size; the rest of the file is not readable", NULL},
	[PACKET] = {"packet", "packet with a wrong header; the rest of the file is not readable",
		    NULL},
	[EVENT] = {"event", "impossible event; the rest of the file is not readable", NULL},
	[EXTRA_RECORDS] = {"extra-records", "more records than sonde.json says", NULL},
	[CUT] = {"cut", "stream cut off, read up to there", NULL},
	{NULL, NULL, NULL},
};

static void check_stream(struct check *check, const struct trace_stream_info *info)
{
	static const enum class faults[] = {
		[RECORD_FAULT_SIZE] = RECORD_SIZE,
		[RECORD_FAULT_PACKET] = PACKET,
		[RECORD_FAULT_EVENT] = EVENT,
	};
	const struct trace_event end = {
		.vcpu = info->vcpu, .index = info->records, .offset = info->offset};

	if (info->fault && info->fault != RECORD_FAULT_TRUNCATED)
		check_error(check, faults[info->fault], &end);
	else if (info->fault || info->records < info->expected)
		check_note(check, CUT, &end, NULL);
	else if (info->records > info->expected)
		check_error(check, EXTRA_RECORDS, &end);
}

static void finish(struct check *check, const struct trace_reader *reader)
{
	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		struct trace_stream_info info;

		trace_reader_stream_info(reader, i, &info);
		check_stream(check, &info);
	}
}

static int create(struct check **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void destroy(struct check *check)
{
	free(check);
}

const struct check_ops check_streams = {.classes = classes,
					.is_about_streams = true,
					.create = create,
					.finish = finish,
					.destroy = destroy};

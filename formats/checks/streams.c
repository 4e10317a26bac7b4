/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files themselves: the streams can be read to their ends, and have all their records; what
 * describes them is whole. */
#include <inttypes.h>
#include "formats/checks/check.h"
#include "formats/base/text.h"

enum class { RECORD_SIZE, PACKET, EVENT, EXTRA_RECORDS, DAMAGED, MISSING, FILES, CUT };

static void print_damage(FILE *out, const struct check_example *example)
{
	fprintf(out, ", packet %" PRIu64, example->event.packet);
	if (example->event.size)
		fprintf(out, ", %s", text_number(example->event.size, "byte").s);
}

static const struct check_class classes[] = {
	[RECORD_SIZE] = {"record-size",
			 "record of impossible size; the rest of the file is not readable", NULL},
	[PACKET] = {"packet", "packet with a wrong header; the rest of the file is not readable",
		    NULL},
	[EVENT] = {"event", "impossible event; the rest of the file is not readable", NULL},
	[EXTRA_RECORDS] = {"extra-records", "more records than sonde.json says", NULL},
	[DAMAGED] = {"damaged-packet", "damaged packet, passed over", print_damage},
	[MISSING] = {"missing-packet", "packet that is missing", print_damage},
	[FILES] = {"damaged-file", "damaged file beside the events", NULL},
	[CUT] = {"cut", "stream cut off, read up to there", NULL},
	{NULL, NULL, NULL},
};

/* Those that the reader lists. */
static void check_damages(struct check *check, const struct trace_stream_info *info)
{
	for (size_t i = 0; i < info->nr_damages && i < STREAM_DAMAGES_MAX; i++) {
		const struct stream_damage *damage = &info->damages[i];
		const struct check_event place = {.at = {.instance = info->instance,
							 .vcpu = info->vcpu,
							 .offset = damage->offset},
						  .packet = damage->packet,
						  .size = damage->size};

		check_error(check, damage->size ? DAMAGED : MISSING, &place);
	}
}

static void check_stream(struct check *check, const struct trace_stream_info *info)
{
	static const enum class faults[] = {
		[RECORD_FAULT_SIZE] = RECORD_SIZE,
		[RECORD_FAULT_PACKET] = PACKET,
		[RECORD_FAULT_EVENT] = EVENT,
	};
	const struct check_event end = {.at = {.instance = info->instance,
					       .vcpu = info->vcpu,
					       .index = info->records,
					       .offset = info->offset}};

	check_damages(check, info);
	if (info->fault && info->fault != RECORD_FAULT_TRUNCATED)
		check_error(check, faults[info->fault], &end);
	else if (info->fault || info->records < info->expected)
		check_note(check, CUT, &end, NULL);
	else if (info->records > info->expected)
		check_error(check, EXTRA_RECORDS, &end);
}

static void check_files(struct check *check, const struct trace_reader *reader)
{
	struct check_event place = {0};

	for (size_t i = 0; (place.file = trace_reader_damage(reader, i)); i++)
		check_error(check, FILES, &place);
}

static void finish(struct check *check, const struct trace_reader *reader)
{
	check_files(check, reader);
	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		struct trace_stream_info info;

		trace_reader_stream_info(reader, i, &info);
		check_stream(check, &info);
	}
}

const struct check_ops check_streams = {.classes = classes,
					.is_about_streams = true,
					.size = sizeof(struct check),
					.finish = finish};

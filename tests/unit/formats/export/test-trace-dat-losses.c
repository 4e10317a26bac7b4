/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace-cmd as judge of what trace.dat says is missing: where, and how many events of each vCPU. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/trace/writer.h"
#include "tests/lib/count.h"
#include "tests/lib/damage.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

enum { RECORDS = 600, PER_PACKET = 60, LOST = 5, LOST_AT = 2 * PER_PACKET, NOT_CAPTURED = 3 };

static char trace[128], file[128];

/* Packets of one vCPU. Events are lost between two of them, and others nobody knows where. */
static void make(void)
{
	static struct kmem_record records[RECORDS];
	struct trace_info info = {.mode = "trap", .page_size = 4096};
	struct trace_writer *writer;

	damage_make_records(records, RECORDS, 64);
	info.counters.v[COUNTER_LOST] = NOT_CAPTURED;
	if (trace_writer_create(trace, 1, 0, &info, &writer, NULL))
		abort();
	for (size_t i = 0; i < RECORDS; i++) {
		if (i % PER_PACKET == 0 && trace_writer_flush(writer, NULL))
			abort();
		if (i == LOST_AT)
			trace_writer_add_overruns(writer, 0, 0, LOST);
		if (trace_writer_append(writer, 0, &records[i]))
			abort();
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static char *trace_cmd(const char *options)
{
	char *text;

	if (tool_run(&text, "trace-cmd report %s '%s' 2>&1", options, file))
		abort();
	return text;
}

static void check(const char *what, unsigned long nr_damages)
{
	char *events, *stats, *overrun;
	unsigned long missing;

	export_make_convert(trace, "trace.dat", file, "--force");
	events = trace_cmd("-t");
	stats = trace_cmd("--stat");
	missing = RECORDS - count_in(events, "call_site=");
	overrun = strstr(stats, "overrun: ");
	if (!ok(overrun && strtoul(overrun + strlen("overrun: "), NULL, 10) == missing + LOST,
		"%s: the statistics have all that the vCPU lacks", what))
		tap_diag("%lu missing, %s", missing, stats);
	ok(count_in(events, "CPU:0 [EVENTS DROPPED]\n") == nr_damages,
	   "%s: what was passed over is seen between events", what);
	ok(strstr(stats, "3 events: not captured"),
	   "%s: the statistics have what was lost of no vCPU", what);
	free(events);
	free(stats);
}

static void test_lost(void)
{
	static const char dropped[] = "CPU:0 [5 EVENTS DROPPED]\n";
	char *events = trace_cmd("-t"), *at = strstr(events, dropped);

	ok(at && count_in(events, dropped) == 1, "lost events are seen, and how many");
	if (at)
		*at = '\0';
	ok(count_in(events, "call_site=") == LOST_AT,
	   "between those that they are missing between");
	free(events);
}

/* The time of an event is its number in microseconds. */
static void test_time(void)
{
	char *events;

	if (unlink(file))
		abort();
	export_make_convert(trace, "trace.dat", file, "--time=0.0003,");
	events = trace_cmd("-t");
	ok(count_in(events, "call_site=") == RECORDS - 300 && !count_in(events, "DROPPED"),
	   "what was lost before a part is not missing from it");
	free(events);
}

int main(void)
{
	struct scratch dir;
	char *bytes;
	size_t size;

	if (!tool_exists("trace-cmd"))
		return tap_skip_all("trace-cmd is not installed");
	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(file, sizeof(file), "%s/trace.dat", dir.path);
	make();
	check("a whole file", 0);
	test_lost();
	test_time();
	bytes = file_get(trace, "cpu0", &size);
	bytes[size / 2] ^= 1;
	file_put(trace, "cpu0", bytes, size);
	check("a damaged file", 1);
	bytes[size / 2] ^= 1;
	file_put(trace, "cpu0", bytes, size / 2);
	check("a file that was cut off", 0);
	free(bytes);
	scratch_remove(&dir);
	return tap_done();
}

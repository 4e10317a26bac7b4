/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A writer that keeps the last events only. */
#include <stdlib.h>
#include <string.h>
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { MANY = 100000, KEEP = 200 << 10 };

static const struct trace_info info = {.mode = "trap", .page_size = 4096};
static unsigned int encoding; /* of the trace under test */

static void append(struct trace_writer *writer, int64_t first)
{
	for (int64_t ns = first; ns < first + MANY; ns++) {
		const struct kmem_record record = make_alloc(
			KMEM_TYPE_KMALLOC, (uint64_t)ns, 0x1000 + (uint64_t)ns % 97 * 16, 8, 8, ns);

		if (trace_writer_append(writer, 0, &record))
			abort();
	}
}

static uint64_t overwritten(struct trace_writer *writer)
{
	struct trace_counters counters = {0};

	trace_writer_counters(writer, &counters);
	return counters.v[COUNTER_OVERWRITTEN];
}

/* Whether the trace has events in this order, and no other place is damaged. */
static uint64_t count_events(const char *path, int64_t *first, int64_t *last)
{
	struct trace_stream_info stream;
	struct trace_reader *reader;
	struct event event;
	uint64_t n = 0, wrong = 0;

	*first = *last = 0;
	if (trace_reader_open(path, &reader, NULL))
		return 0;
	for (; trace_reader_next(reader, &event, NULL) > 0; n++) {
		wrong += event.ns <= *last;
		*first = n ? *first : event.ns;
		*last = event.ns;
	}
	trace_reader_stream_info(reader, 0, &stream);
	is_u64(wrong + stream.nr_damages + stream.fault, 0, "what is written is in order");
	is_u64(stream.expected, n, "the trace knows how many events it has");
	trace_reader_close(reader);
	return n;
}

static void test_flight(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer;
	int64_t first, last;
	uint64_t n, all;

	if (trace_writer_create(dir.path, 1, encoding, &info, &writer, NULL))
		abort();
	trace_writer_set_flight_recorder(writer, KEEP);
	append(writer, 1);
	ok(overwritten(writer) > MANY / 2, "a flight recorder forgets old events");
	is_u64(count_events(dir.path, &first, &last), 0, "it writes nothing");
	ok(!trace_writer_snapshot(writer, NULL), "a snapshot is written");
	n = count_events(dir.path, &first, &last);
	ok(n && first == MANY - (int64_t)n + 1 && last == MANY, "it has the last events");
	is_u64(n + overwritten(writer), MANY, "all others are counted");
	append(writer, MANY + 1);
	is_u64(count_events(dir.path, &first, &last), n, "after that nothing is written again");
	ok(!trace_writer_finish(writer, &info, NULL, NULL, NULL), "the trace is finished");
	all = count_events(dir.path, &first, &last);
	ok(all > n && last == 2 * MANY, "at the end the last events are written");
	is_u64(all + overwritten(writer), 2 * MANY, "all others are counted");
	trace_writer_destroy(writer);
	scratch_remove(&dir);
}

int main(void)
{
	for (encoding = 0; trace_encoding_names[encoding]; encoding++) {
		tap_diag("%s", trace_encoding_names[encoding]);
		test_flight();
	}
	return tap_done();
}

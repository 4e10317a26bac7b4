/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading a trace while it is written. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { VCPUS = 2, DEADLINE_MS = 10000 };

static const struct trace_info info = {.mode = "trap", .writer = "run", .page_size = 4096};
static unsigned int encoding; /* of the trace under test */

static bool tell(void *arg, struct trace_info *out)
{
	(void)arg;
	*out = info;
	return true;
}

static bool tell_losses(void *arg, struct trace_info *out)
{
	(void)arg;
	*out = info;
	out->counters.v[COUNTER_UNREADABLE] = 7;
	out->nr_gaps = 1;
	out->gaps[0] = (struct trace_gap){"kmalloc", "it is inlined"};
	return true;
}

static void append(struct trace_writer *writer, unsigned int vcpu, int64_t ns)
{
	const struct kmem_record record =
		make_alloc(KMEM_TYPE_KMALLOC, (uint64_t)ns, 0x1000, 8, 8, ns);

	if (trace_writer_append(writer, vcpu, &record))
		abort();
}

/* With one event. */
static struct trace_writer *create(const char *path)
{
	struct trace_writer *writer;

	if (trace_writer_create(path, VCPUS, encoding, &info, &writer, NULL))
		abort();
	trace_writer_set_source(writer, tell, NULL, NULL);
	append(writer, 0, 1);
	if (trace_writer_flush(writer, NULL))
		abort();
	return writer;
}

static struct trace_reader *open_reader(const char *path)
{
	struct trace_reader *reader;

	if (trace_reader_open(path, &reader, NULL))
		abort();
	return reader;
}

/* The time of the next event that comes; 0 if none does. */
static int64_t await_event(struct trace_reader *reader)
{
	const uint64_t until = clock_monotonic_ms() + DEADLINE_MS;
	struct event event;

	while (clock_monotonic_ms() < until && trace_reader_follow(reader, NULL) >= 0) {
		if (trace_reader_next(reader, &event, NULL) > 0)
			return event.ns;
		clock_wait_ms(20);
	}
	return 0;
}

static void test_order(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path);
	struct trace_reader *reader = open_reader(dir.path);
	struct event event;

	is_u64((uint64_t)trace_reader_follow(reader, NULL), 1, "a trace that is written is alive");
	ok(!trace_reader_next(reader, &event, NULL), "an event waits for those of other vCPUs");
	append(writer, 1, 5);
	append(writer, 1, 20);
	append(writer, 0, 10);
	is_u64((uint64_t)await_event(reader), 1, "it comes when the others are later");
	is_u64((uint64_t)await_event(reader), 5, "events of all vCPUs are in the order of time");
	is_u64((uint64_t)await_event(reader), 10, "whichever comes to the files first");
	is_u64((uint64_t)await_event(reader), 20,
	       "an event does not wait for ever for a vCPU without events");
	append(writer, 0, 30);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	ok(!trace_reader_follow(reader, NULL), "a trace is not alive when its writer has ended");
	ok(trace_reader_next(reader, &event, NULL) == 1 && event.ns == 30,
	   "then its last event does not wait");
	ok(!trace_reader_next(reader, &event, NULL), "that is its end");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

/* Whether both readers say the same of what is missing. */
static bool agree(const struct trace_reader *a, const struct trace_reader *b)
{
	const struct trace_missing x = trace_reader_missing(a), y = trace_reader_missing(b);
	struct trace_losses of_a, of_b;

	trace_reader_losses(a, &of_a);
	trace_reader_losses(b, &of_b);
	return x.is_bounded == y.is_bounded && x.events == y.events &&
	       trace_reader_cut(a) == trace_reader_cut(b) && of_a.unfinished == of_b.unfinished &&
	       of_a.recording == of_b.recording &&
	       !memcmp(&of_a.counters, &of_b.counters, sizeof(of_a.counters)) &&
	       trace_reader_sidecar(a)->info.nr_gaps == trace_reader_sidecar(b)->info.nr_gaps &&
	       trace_reader_sidecar(a)->nr_caches == trace_reader_sidecar(b)->nr_caches;
}

static size_t count_files(void)
{
	DIR *open = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(open))
		n++;
	closedir(open);
	return n;
}

/* The writer's thread opens one at times. */
static bool await_files(size_t n)
{
	for (unsigned int i = 0; count_files() != n && i < 5000; i++)
		clock_wait_ms(1);
	return count_files() == n;
}

static void test_losses(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path);
	struct trace_reader *reader = open_reader(dir.path), *later;
	struct event event;
	struct trace_info last;
	size_t nr_files;

	trace_reader_follow(reader, NULL);
	nr_files = count_files();
	trace_writer_set_source(writer, tell_losses, NULL, NULL);
	append(writer, 1, 5);
	trace_writer_adopt_cache(writer, &(struct sidecar_cache){.id = 3, .name = (char[]){"d"}});
	tell_losses(NULL, &last);
	if (trace_writer_set_info(writer, &last, NULL) || trace_writer_flush(writer, NULL))
		abort();
	is_u64((uint64_t)trace_reader_follow(reader, NULL), 1, "the trace goes on");
	later = open_reader(dir.path);
	ok(trace_reader_sidecar(reader)->info.nr_gaps == 1 &&
		   trace_reader_sidecar(reader)->info.counters.v[COUNTER_UNREADABLE] == 7,
	   "a reader that follows knows of new gaps and losses");
	ok(!trace_reader_cut(reader), "it does not take a trace for cut that goes on");
	trace_reader_follow(later, NULL);
	ok(agree(reader, later), "it says what one says that is opened now");
	trace_reader_close(later);
	ok(await_files(nr_files), "and has opened no more files");
	append(writer, 0, 30);
	if (trace_writer_finish(writer, &last, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	ok(!trace_reader_follow(reader, NULL), "the trace has ended");
	later = open_reader(dir.path);
	while (trace_reader_next(reader, &event, NULL) > 0)
		;
	while (trace_reader_next(later, &event, NULL) > 0)
		;
	ok(agree(reader, later), "then it says what one says that reads the whole trace");
	trace_reader_close(later);
	trace_reader_close(reader);
	scratch_remove(&dir);
}

enum { EVENTS = 40 };

static void *record(void *arg)
{
	struct trace_writer *writer = arg;

	for (int i = 1; i <= EVENTS; i++) {
		append(writer, (unsigned int)i % VCPUS, i * 1000);
		usleep(20000);
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	return NULL;
}

/* Each line has its event's time behind the name of its vCPU. */
static unsigned int count_lines(const char *text)
{
	unsigned int n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void test_verb(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path);
	struct verb_result result;
	pthread_t thread;

	if (pthread_create(&thread, NULL, record, writer))
		abort();
	result = verb_run(cmd_events, (const char *const[]){"events", "--follow", dir.path, NULL});
	pthread_join(thread, NULL);
	ok(!result.status, "sonde events --follow ends when the recorder ends");
	is_u64(count_lines(result.out), EVENTS + 1, "it has printed all events");
	ok(!strstr(result.err, "Lost") && !strstr(result.err, "Now"),
	   "in the end nothing is lost, nor still to come: %s", result.err);
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

/* Events of an instance that is added while others record. */
static void *record_more(void *arg)
{
	const struct trace_instance calls = {
		.name = "calls", .spec = "function", .classes = function_class(0), .nr_classes = 1};
	const struct function_event event = {.ip = 0x1000};
	struct trace_writer *writer = arg;
	struct event_batch batch = {0};
	int number;

	for (int i = 1; i <= EVENTS; i++)
		append(writer, (unsigned int)i % VCPUS, i * 1000);
	clock_wait_ms(2500);
	number = trace_writer_add_instance(writer, &calls, NULL);
	for (int i = 1; i <= EVENTS; i++) {
		append(writer, (unsigned int)i % VCPUS, (EVENTS + i) * 1000);
		event_batch_put(&batch, trace_writer_sink(writer, (unsigned int)number, 0), 0,
				(EVENTS + i) * 1000, &event);
		event_batch_end(&batch);
	}
	if (trace_writer_flush(writer, NULL))
		abort();
	clock_wait_ms(2500);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	return NULL;
}

static void test_added(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path);
	struct verb_result result;
	pthread_t thread;

	if (pthread_create(&thread, NULL, record_more, writer))
		abort();
	result = verb_run(cmd_events, (const char *const[]){"events", "--follow", dir.path, NULL});
	pthread_join(thread, NULL);
	is_u64(count_lines(result.out), 3 * EVENTS + 1,
	       "events of an instance that is added are printed, too, and none twice");
	is_str(result.err, "", "and none is missing");
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

int main(void)
{
	for (encoding = 0; trace_encoding_names[encoding]; encoding++) {
		tap_diag("%s", trace_encoding_names[encoding]);
		test_order();
		test_losses();
		test_verb();
	}
	encoding = 0;
	test_added();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A trace that changes while its disk hangs: nobody waits for it, and what is on the disk is true.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer-internal.h"
#include "tests/lib/trace-make.h"
#include "tests/unit/formats/trace/instances-fixture.h"

enum { EVENTS = 1000, BOUND_MS = 10000, HEALED_MS = 30000, WHILE_MS = 1000, DEADLINE_MS = 60000 };

/* No file gets its name, or no packet is written, as long as this is set. */
static atomic_bool names_hang, packets_hang;
static atomic_int names_fail; /* errno */
static atomic_uint nr_hanging;

static void hang_while(const atomic_bool *hangs)
{
	nr_hanging++;
	while (*hangs)
		clock_wait_ms(1);
	nr_hanging--;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	hang_while(&names_hang);
	if (names_fail) {
		errno = names_fail;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	hang_while(&packets_hang);
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

/* For a writer that waits for the disk: its test ends nevertheless. */
static atomic_bool test_is_over;

static void *heal_in_the_end(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; !test_is_over && i < HEALED_MS; i++)
		clock_wait_ms(1);
	names_hang = packets_hang = false;
	return NULL;
}

static void put_events(struct trace_writer *writer, int number, int64_t first)
{
	struct event_sink *sink = trace_writer_sink(writer, (unsigned int)number, 0);
	const struct function_event event = {.ip = 0xffffffff81000000};
	struct event_batch batch = {0};

	for (int64_t ns = first; ns < first + EVENTS; ns++)
		event_batch_put(&batch, sink, 0, ns, &event);
	event_batch_end(&batch);
}

static uint64_t count_of(const char *path, const char *name)
{
	struct trace_reader *reader;
	struct event event;
	uint64_t n = 0;

	if (trace_reader_open(path, &reader, NULL))
		return 0;
	while (trace_reader_next(reader, &event, NULL) > 0)
		n += !strcmp(event.instance->name, name);
	trace_reader_close(reader);
	return n;
}

static bool has_file(const char *dir, const char *name)
{
	char *bytes = file_get(dir, name, NULL);

	free(bytes);
	return bytes;
}

/* Within a time in which a disk that hangs does not answer. */
static void was_quick(uint64_t began_ms, const char *what)
{
	const uint64_t ms = clock_monotonic_ms() - began_ms;

	ok(ms < BOUND_MS, "%s does not wait for a disk that hangs (%llu ms)", what,
	   (unsigned long long)ms);
}

/* All that the main thread does when a trace changes. */
static int change(struct trace_writer *writer, int old)
{
	static const struct trace_info later = {.tool_version = "1", .mode = "trap"};
	const struct trace_instance instances[] = {functions("b", 0), functions("c", 0)};
	uint64_t began = clock_monotonic_ms();
	int number = add(writer, &instances[0]);

	was_quick(began, "adding an instance");
	began = clock_monotonic_ms();
	add(writer, &instances[1]);
	was_quick(began, "adding another one");
	put_events(writer, number, 2 * EVENTS);
	put_events(writer, old, 2 * EVENTS);
	began = clock_monotonic_ms();
	ok(!trace_writer_set_info(writer, &later, NULL), "another info is taken");
	was_quick(began, "that");
	began = clock_monotonic_ms();
	ok(!trace_writer_set_spec(writer, (unsigned int)old, "function:x", NULL), "so is a spec");
	trace_writer_close_instance(writer, (unsigned int)old);
	was_quick(began, "closing an instance");
	began = clock_monotonic_ms();
	trace_writer_flush_briefly(writer);
	was_quick(began, "a brief flush");
	return number;
}

static void end(struct trace_writer *writer, const struct scratch *dir, pthread_t healer)
{
	ok(!trace_writer_finish(writer, &info, NULL, NULL, NULL) && !trace_writer_error(writer),
	   "the trace is completed");
	trace_writer_destroy(writer);
	is_u64(count_of(dir->path, "a"), 2 * EVENTS, "with all events of before and meanwhile");
	is_u64(count_of(dir->path, "b"), EVENTS, "of the instance that was added, too");
	test_is_over = true;
	pthread_join(healer, NULL);
	test_is_over = false;
}

static struct trace_writer *begin(const char *path, int *number, pthread_t *healer)
{
	const struct trace_instance instance = functions("a", 0);
	struct trace_writer *writer = create(path, "ctf");

	*number = add(writer, &instance);
	put_events(writer, *number, 0);
	if (trace_writer_flush(writer, NULL) || pthread_create(healer, NULL, heal_in_the_end, NULL))
		abort();
	return writer;
}

/* No file gets its name; then none may have one. */
static void test_names_hang(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer;
	pthread_t healer;
	int number;

	writer = begin(dir.path, &number, &healer);
	names_hang = true;
	change(writer, number);
	clock_wait_ms(WHILE_MS);
	ok(!has_file(dir.path, "cpu0.b"), "no packet gets ahead of its description");
	names_fail = ENOSPC;
	names_hang = false;
	clock_wait_ms(WHILE_MS);
	ok(!has_file(dir.path, "cpu0.b") && count_of(dir.path, "a") == EVENTS,
	   "nor while the disk refuses that");
	names_fail = 0;
	for (unsigned int i = 0; count_of(dir.path, "b") != EVENTS && i < DEADLINE_MS; i += 10)
		clock_wait_ms(10);
	is_u64(count_of(dir.path, "b"), EVENTS, "when the disk answers again, all is written");
	end(writer, &dir, healer);
	scratch_remove(&dir);
}

/* The disk has a packet, and does not answer. */
static void test_packets_hang(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer;
	pthread_t healer;
	int number;

	writer = begin(dir.path, &number, &healer);
	packets_hang = true;
	put_events(writer, number, EVENTS);
	writer_put_gathered(writer);
	while (!nr_hanging)
		clock_wait_ms(1);
	change(writer, number);
	packets_hang = false;
	ok(!trace_writer_finish(writer, &info, NULL, NULL, NULL), "the trace is completed");
	trace_writer_destroy(writer);
	is_u64(count_of(dir.path, "a"), 3 * EVENTS, "with all events of before and meanwhile");
	is_u64(count_of(dir.path, "b"), EVENTS, "of the instance that was added, too");
	test_is_over = true;
	pthread_join(healer, NULL);
	test_is_over = false;
	scratch_remove(&dir);
}

/* A disk that answers, but refuses: who asked is told, and nothing else changes. */
static void test_refused(void)
{
	const struct trace_instance instance = functions("b", 0);
	struct scratch dir = scratch_make();
	struct trace_writer *writer;
	struct error err = {0};
	pthread_t healer;
	int number;

	writer = begin(dir.path, &number, &healer);
	names_fail = ENOSPC;
	ok(trace_writer_add_instance(writer, &instance, &err) == -ENOSPC,
	   "an instance that a full disk refuses is refused: %s", err.text);
	put_events(writer, number, EVENTS);
	writer_put_gathered(writer);
	for (unsigned int i = 0; count_of(dir.path, "a") != 2 * EVENTS && i < DEADLINE_MS; i += 10)
		clock_wait_ms(10);
	is_u64(count_of(dir.path, "a"), 2 * EVENTS, "that does not hold up the others");
	names_fail = 0;
	put_events(writer, add(writer, &instance), 0);
	end(writer, &dir, healer);
	scratch_remove(&dir);
}

int main(void)
{
	test_names_hang();
	test_packets_hang();
	test_refused();
	return tap_done();
}

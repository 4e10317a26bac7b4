/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A client changes what is traced while the trace's disk hangs: the main thread, which serves it,
 * has others to serve. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cmd.h"
#include "formats/trace/reader.h"
#include "tests/unit/vmm/recorder/tracing-fixture.h"

enum { BOUND_MS = 15000, HEALED_MS = 40000 };

/* No file gets its name. */
static atomic_bool disk_hangs, test_is_over;

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	while (disk_hangs)
		clock_wait_ms(1);
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

/* For a recorder that waits for the disk: its test ends nevertheless. */
static void *heal_in_the_end(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; !test_is_over && i < HEALED_MS; i++)
		clock_wait_ms(1);
	disk_hangs = false;
	return NULL;
}

static void was_quick(uint64_t began_ms, const char *what)
{
	const uint64_t ms = clock_monotonic_ms() - began_ms;

	ok(ms < BOUND_MS, "%s does not wait for a disk that hangs (%llu ms)", what,
	   (unsigned long long)ms);
}

static void change(const struct tracing *t, enum monitor_change what, const char *text)
{
	const struct monitor_target *target = &t->recorder->target;
	const uint64_t began = clock_monotonic_ms();
	struct error err = {0};
	json_t *reply = NULL;

	ok(!target->trace->change(target->trace_arg, what, text, &reply, &err),
	   "tracers are changed: %s: %s", text, err.text);
	was_quick(began, "that");
	json_decref(reply);
}

static uint64_t count(const struct tracing *t, const char *name)
{
	struct trace_reader *reader;
	struct event event;
	uint64_t n = 0;

	if (trace_reader_open(t->trace, &reader, NULL))
		abort();
	while (trace_reader_next(reader, &event, NULL) > 0)
		n += !strcmp(event.instance->name, name);
	trace_reader_close(reader);
	return n;
}

int main(void)
{
	static struct tracing t;
	struct verb_result result;
	pthread_t healer;
	uint64_t began;

	if (pthread_create(&healer, NULL, heal_in_the_end, NULL))
		abort();
	begin_tracing(&t, 0);
	allocate(&t);
	disk_hangs = true;
	began = clock_monotonic_ms();
	switch_tracing(&t, false);
	was_quick(began, "switching tracing off");
	began = clock_monotonic_ms();
	switch_tracing(&t, true);
	was_quick(began, "switching it on");
	allocate(&t);
	change(&t, MONITOR_ADD, "more=kmem:kmalloc");
	allocate(&t);
	change(&t, MONITOR_REPLACE, "more=kmem:kmalloc,cache");
	allocate(&t);
	change(&t, MONITOR_REMOVE, "more");
	allocate(&t);
	is_u64(count(&t, "more"), 0, "no event gets ahead of its description");
	disk_hangs = false;
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	is_u64(count(&t, "kmem"), 5, "when the disk answers, all events are written");
	is_u64(count(&t, "more"), 2, "those of the tracers that came and went, too");
	result = verb_run(cmd_check, (const char *const[]){"check", t.trace, NULL});
	ok(!result.status && strstr(result.out, "1 gap: tracing was switched off"),
	   "the trace knows of the gap: %s", result.out);
	verb_result_deinit(&result);
	test_is_over = true;
	pthread_join(healer, NULL);
	end_tracing(&t);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trace on the disk says while it is recorded, and after a kill. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cmd.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer-internal.h"
#include "tests/unit/vmm/recorder/tracing-fixture.h"

static struct recorder *concluded;

static int conclude(int argc, char **argv)
{
	struct error err;

	(void)argc;
	(void)argv;
	recorder_end(concluded, RECORDER_GUEST_RUNS, NULL);
	return recorder_conclude(concluded, &err);
}

/* Let sonde check read the trace when its recorder has written `n` records. */
static struct verb_result check_when(const struct tracing *t, const char *n)
{
	const char *const argv[] = {"check", t->trace, NULL};
	struct verb_result result = {0};
	char records[32];

	snprintf(records, sizeof(records), "%s record", n);
	for (unsigned int i = 0; i < 500; i++) {
		verb_result_deinit(&result);
		result = verb_run(cmd_check, argv);
		if (strstr(result.out, records))
			break;
		usleep(10000);
	}
	return result;
}

/* A disk on which no file gets its name, until it works again. */
static atomic_bool disk_hangs;
/* A guest that the thread which ends its trace must not hold for as long as a disk may take: how
 * often that thread used the disk, and how often with the guest stopped. */
static const struct fake_guest *bystander;
static pthread_t holder;
static atomic_uint looks, looks_at_stopped;

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	if (bystander && pthread_equal(pthread_self(), holder)) {
		looks++;
		looks_at_stopped += bystander->stopped != 0;
	}
	while (disk_hangs)
		clock_wait_ms(1);
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

enum { TOLD_MS = 180000 };

static void *heal_disk_when_told(void *arg)
{
	const struct recorder *r = arg;

	for (int i = 0; !r->disk_hangs && i < TOLD_MS; i++)
		clock_wait_ms(1);
	disk_hangs = false;
	return NULL;
}

/* The object is freed in the pause, and the same address allocated again. */
static void test_pause(void)
{
	static struct tracing t;
	struct verb_result result;

	begin_tracing(&t, 0);
	allocate(&t);
	switch_tracing(&t, false);
	switch_tracing(&t, true);
	allocate(&t);
	result = check_when(&t, "2");
	if (!ok(!result.status && strstr(result.out, "0 errors"),
		"sonde check of a trace that is being recorded finds no error behind a pause"))
		tap_diag("%s", result.out);
	ok(strstr(result.out, "1 gap: tracing was switched off"), "it knows of the pause");
	ok(strstr(result.out, "sonde attach is writing this trace"),
	   "it knows that the trace is being recorded");
	verb_result_deinit(&result);
	concluded = t.recorder;
	result = verb_run(conclude, (const char *const[]){"attach", NULL});
	ok(strstr(result.err, "lost: none, beside what happened in the gaps"),
	   "after a pause the recorder does not say that nothing is missing: %s", result.err);
	verb_result_deinit(&result);
	end_tracing(&t);
}

static void test_disk_hangs(void)
{
	static struct tracing t;
	struct verb_result result;
	pthread_t healer;

	begin_tracing(&t, 0);
	allocate(&t);
	t.recorder->patience_ms = 100;
	disk_hangs = true;
	if (pthread_create(&healer, NULL, heal_disk_when_told, t.recorder))
		abort();
	concluded = t.recorder;
	result = verb_run(conclude, (const char *const[]){"attach", NULL});
	pthread_join(healer, NULL);
	ok(strstr(result.err, "trace: the disk has not answered for 0 s: waiting for it"),
	   "an end that waits for the disk says so: %s", result.err);
	ok(strstr(result.err, "trace: the disk answers again"), "and that the disk answers again");
	ok(!result.status && strstr(result.err, "lost: none"), "nothing is lost");
	verb_result_deinit(&result);
	result = check_when(&t, "1");
	ok(!result.status, "the trace is whole");
	verb_result_deinit(&result);
	end_tracing(&t);
}

/* A guest that each read stops is held for many reads at a time, but not while the disk may hang.
 */
static void test_disk_is_not_waited_for(void)
{
	static struct tracing t;

	bystander = &t.fs.fg;
	holder = pthread_self();
	begin_tracing_with(&t, 0, GUEST_STOPS_TO_READ);
	ok(looks > 0 && !looks_at_stopped,
	   "the trace is begun on the disk while the guest runs (%u of %u)", looks_at_stopped,
	   looks);
	allocate(&t);
	looks = 0;
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	ok(looks > 0 && !looks_at_stopped, "and ended (%u of %u)", looks_at_stopped, looks);
	end_tracing(&t);
	bystander = NULL;
}

static void allocate_on_timer(void *arg)
{
	struct tracing *t = arg;

	for (unsigned int i = 0; i < 1000; i++)
		allocate(t);
}

static uint64_t count_events(struct trace_reader *reader)
{
	struct event event;
	uint64_t n = 0;

	while (trace_reader_next(reader, &event, NULL) > 0)
		n++;
	return n;
}

static uint64_t overwritten(const struct trace_reader *reader)
{
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	return losses.counters.v[COUNTER_OVERWRITTEN];
}

enum { EVENTS_MS = 60000 };

/* Until so many events have come to the writer. */
static bool await_events(const struct tracing *t, uint64_t n)
{
	uint64_t seen = 0;

	for (int i = 0; seen < n && i < EVENTS_MS; i++, clock_wait_ms(1)) {
		seen = 0;
		for (unsigned int vcpu = 0; vcpu < FAKE_VCPUS; vcpu++) {
			struct trace_writer_counts counts;

			trace_writer_counts(t->recorder->writer, vcpu, &counts);
			seen += counts.events + counts.overwritten;
		}
	}
	return seen == n;
}

static int write_snapshot(const struct tracing *t, struct error *err)
{
	const struct monitor_trace_ops *trace = t->recorder->target.trace;
	void *snapshot;
	int ret = trace->snapshot(t->recorder, &snapshot, err);

	return ret ? ret : trace->await_snapshot(snapshot, err);
}

/* Far more than is kept, then a snapshot; and again, to the end. */
static void test_flight_recorder(void)
{
	static struct tracing t;
	struct verb_result result;
	struct trace_reader *reader;
	struct error err = {0};
	uint64_t n;

	begin_tracing(&t, 1 << 20);
	for (unsigned int i = 0; i < 100; i++)
		allocate_on_timer(&t);
	ok(await_events(&t, 100000) &&
		   output_counts(t.recorder->writer->output).queued_bytes <= 1 << 20,
	   "a flight recorder keeps what it may, and no more");
	is_u64(trace_writer_bytes(t.recorder->writer), 0, "--max-size does not count that");
	if (trace_reader_open(t.trace, &reader, &err))
		abort();
	is_u64(count_events(reader), 0, "it writes nothing while it records");
	trace_reader_close(reader);
	ok(!write_snapshot(&t, &err), "a snapshot is written: %s", err.text);
	if (trace_reader_open(t.trace, &reader, &err))
		abort();
	ok(trace_writer_bytes(t.recorder->writer) > 10000, "it counts the snapshot");
	n = count_events(reader);
	ok(n > 10000 && n < 90000 && n + overwritten(reader) == 100000,
	   "it has the last events, and says how many came before");
	trace_reader_close(reader);
	for (unsigned int i = 0; i < 100; i++)
		allocate_on_timer(&t);
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	if (trace_reader_open(t.trace, &reader, &err))
		abort();
	is_u64(count_events(reader) + overwritten(reader), 200000,
	       "at the end the last events are written behind it");
	trace_reader_close(reader);
	result = verb_run(cmd_check, (const char *const[]){"check", t.trace, NULL});
	ok(!result.status && strstr(result.out, "older than what the flight recorder keeps"),
	   "sonde check takes that for no error: %s", result.out);
	verb_result_deinit(&result);
	end_tracing(&t);
}

static uint64_t count_in_trace(const struct tracing *t)
{
	struct trace_reader *reader;
	uint64_t n;

	if (trace_reader_open(t->trace, &reader, NULL))
		abort();
	n = count_events(reader);
	trace_reader_close(reader);
	return n;
}

/* A guest panics while the disk hangs, twice: the main thread goes on. Then the trace ends. */
static void test_snapshot_on_panic(void)
{
	static struct tracing t;
	struct snapshot *asked;
	struct error err = {0};
	uint64_t began;

	begin_tracing(&t, 1 << 20);
	allocate_on_timer(&t);
	await_events(&t, 1000);
	output_hold(t.recorder->writer->output);
	began = clock_monotonic_ms();
	recorder_snapshot(t.recorder);
	recorder_snapshot(t.recorder);
	ok(!snapshots_ask(t.recorder->snapshots, &asked, &err) && !snapshot_is_over(asked) &&
		   clock_monotonic_ms() - began < 1000,
	   "nobody waits for a snapshot");
	output_resume(t.recorder->writer->output);
	ok(!snapshot_await(asked, &err), "a client can: %s", err.text);
	is_u64(count_in_trace(&t), 1000, "what was kept is written");
	allocate_on_timer(&t);
	await_events(&t, 2000);
	snapshots_ask(t.recorder->snapshots, &asked, &err);
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	ok(snapshot_is_over(asked) && !snapshot_await(asked, &err),
	   "the end of the trace waits for a snapshot");
	is_u64(count_in_trace(&t), 2000, "the trace is complete");
	end_tracing(&t);
}

static void test_max_size(void)
{
	static struct tracing t;
	struct event_source *timer;
	struct trace_losses losses;
	struct trace_reader *reader;
	struct error err;
	int reason;

	begin_tracing(&t, 0);
	t.options.max_bytes = 20000;
	if (event_loop_add_timer(t.loop, 20, allocate_on_timer, &t, &timer, &err))
		abort();
	ok(!recorder_run(t.recorder, &reason, &err), "a run with --max-size ends");
	event_source_remove(timer);
	ok(trace_writer_bytes(t.recorder->writer) >= 20000 &&
		   trace_writer_bytes(t.recorder->writer) < 2000000,
	   "it ends when the trace has that size");
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	if (trace_reader_open(t.trace, &reader, &err))
		abort();
	trace_reader_losses(reader, &losses);
	ok(!losses.unfinished, "the trace is complete");
	is_str(trace_reader_sidecar(reader)->info.ended, "--max-size is reached",
	       "the trace says which limit has ended it");
	trace_reader_close(reader);
	end_tracing(&t);
}

enum { TRIED_MS = 450, ENOUGH_MS = 700, PATIENCE_MS = 10000, HLT = 0xf4 };

static struct tracing *leaving;
static bool ended_early;

static void let_writes_succeed(void *arg)
{
	(void)arg;
	ended_early = recorder_ended(leaving->recorder);
	leaving->fs.fg.failing_gpa = 0;
}

static int run_while_leaving(int argc, char **argv)
{
	struct event_source *mend, *quit;
	struct error err;
	int reason;

	(void)argc;
	(void)argv;
	if (event_loop_add_timer(leaving->loop, 0, let_writes_succeed, NULL, &mend, &err) ||
	    event_loop_add_timer(leaving->loop, 0, quit_loop, leaving, &quit, &err))
		abort();
	event_timer_arm(mend, TRIED_MS);
	event_timer_arm(quit, ENOUGH_MS);
	reason = recorder_run(leaving->recorder, &reason, &err);
	event_source_remove(mend);
	event_source_remove(quit);
	return reason;
}

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
		n++;
	return n;
}

/* The guest is about to start another kernel, while its text cannot be restored. */
static void test_end_fails(void)
{
	static struct tracing t;
	struct verb_result result;

	begin_tracing(&t, 0);
	leaving = &t;
	*fake_text(&t.fs.fg, FAKE_MSLEEP) = HLT;
	fake_session_call(&t.fs, 1, FAKE_KEXEC, 0);
	t.fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	result = verb_run(run_while_leaving, (const char *const[]){"attach", NULL});
	ok(!ended_early, "a trace that cannot be ended has not ended");
	is_u64(count(result.err, "cannot be ended yet (trying again): fake write failure"), 1,
	       "the user is told once, and why");
	is_u64(count(result.err, "(kexec): tracing has ended\n"), 1,
	       "when it can be ended, it has, and the user is told once");
	is_str(recorder_ended(t.recorder), "the guest starts another kernel (kexec)",
	       "the trace knows why");
	tap_diag("%s", result.err);
	verb_result_deinit(&result);
	end_tracing(&t);
}

static void *end_it(void *arg)
{
	recorder_end(arg, RECORDER_GUEST_RUNS, NULL);
	return NULL;
}

/* Another thread writes it with the guest stopped. */
static bool is_restored(struct tracing *t)
{
	struct guest *guest = &t->fs.fg.guest;
	bool same;

	guest->control->stop(guest, NULL);
	same = fake_session_text_same(&t->fs);
	guest->control->resume(guest, NULL);
	return same;
}

/* The thread that writes hangs in the file system, with the writer's lock. */
static void test_hung_disk(void)
{
	struct tracing t;
	pthread_t thread;

	begin_tracing(&t, 0);
	ok(!is_restored(&t), "the guest is patched");
	pthread_mutex_lock(&t.recorder->writer->source_lock);
	if (pthread_create(&thread, NULL, end_it, t.recorder))
		abort();
	for (unsigned int i = 0; i < PATIENCE_MS && !is_restored(&t); i++)
		clock_wait_ms(1);
	ok(is_restored(&t),
	   "an end gives the guest its text back while the trace's file system hangs");
	pthread_mutex_unlock(&t.recorder->writer->source_lock);
	pthread_join(thread, NULL);
	end_tracing(&t);
}

/* As a kill leaves it: nothing is finished. */
static void test_killed(void)
{
	static struct tracing t;
	struct verb_result result;
	int status;
	pid_t pid;

	t.dir = scratch_make();
	pid = fork();
	if (!pid) {
		struct scratch dir = t.dir;

		if (!freopen("/dev/null", "w", stdout))
			abort();
		begin_tracing(&t, 0);
		allocate(&t);
		switch_tracing(&t, false);
		switch_tracing(&t, true);
		allocate(&t);
		result = check_when(&t, "2");
		if (rename(t.trace, strcat(dir.path, "/trace")))
			abort();
		raise(SIGKILL);
	}
	waitpid(pid, &status, 0);
	strcat(strcpy(t.trace, t.dir.path), "/trace");
	result = check_when(&t, "2");
	ok(!result.status && strstr(result.out, "1 gap: tracing was switched off"),
	   "the trace of a recorder that was killed tells of a pause");
	ok(strstr(result.out, "sonde attach did not end in order"),
	   "it tells that the recorder did not end in order");
	verb_result_deinit(&result);
	scratch_remove(&t.dir);
}

/* The guest wants more memory than it may have. */
static void test_budget(void)
{
	static const char *const argv[] = {"conclude", NULL};
	static struct tracing t;
	struct verb_result result;
	struct budget *budget;

	begin_tracing(&t, 0);
	budget = t.fs.fg.guest.budget;
	if (!ok(budget && budget->most == BUDGET_OF_A_GUEST, "the guest has a budget of memory"))
		return;
	budget->most = budget->used;
	allocate(&t);
	budget->most = BUDGET_OF_A_GUEST;
	concluded = t.recorder;
	result = verb_run(conclude, argv);
	ok(strstr(result.err, "the guest made use of all the memory that it may (256.0 MiB, "),
	   "the user is told once that it is used up: %s", result.err);
	verb_result_deinit(&result);
	ok(!t.fs.fg.guest.budget, "the budget ends with the session");
	end_tracing(&t);
}

int main(void)
{
	test_pause();
	test_disk_hangs();
	test_disk_is_not_waited_for();
	test_max_size();
	test_end_fails();
	test_flight_recorder();
	test_snapshot_on_panic();
	test_hung_disk();
	test_killed();
	test_budget();
	return tap_done();
}

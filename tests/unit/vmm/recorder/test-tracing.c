/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trace on the disk says while it is recorded, and after a kill. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cmd.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer-internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"
#include "vmm/loop/event-loop.h"
#include "vmm/recorder/internal.h"

struct tracing {
	struct fake_session fs; /* its guest */
	struct event_loop *loop;
	struct recorder_options options;
	struct recorder *recorder;
	struct scratch dir;
	char trace[96], monitor[96], metrics[96];
	const char *awaited; /* a line of the metrics */
};

static void quit_loop(void *arg);

static const struct monitor_guest_ops ops = {.quit = quit_loop};

/* Traces by traps: the guest's functions are executed instruction by instruction. `caps`: further
 * ones of the guest. */
static void begin_tracing_with(struct tracing *t, uint64_t keep_bytes, uint32_t caps)
{
	struct recorder_config config = {.verb = "attach",
					 .domain = "web1",
					 .options = &t->options,
					 .nr_vcpus = FAKE_VCPUS,
					 .clock = "fake",
					 .memory = "fake"};
	struct error err;

	fake_session_create(&t->fs);
	t->fs.fg.guest.caps |= caps;
	t->dir = scratch_make();
	snprintf(t->trace, sizeof(t->trace), "%s/trace", t->dir.path);
	snprintf(t->monitor, sizeof(t->monitor), "%s/monitor", t->dir.path);
	snprintf(t->metrics, sizeof(t->metrics), "%s/metrics.prom", t->dir.path);
	recorder_options_init(&t->options);
	t->options.metrics = t->metrics;
	t->options.mode = RECORDER_TRAP;
	t->options.specs[0] = "kmem";
	t->options.nr_specs = 1;
	t->options.keep_bytes = keep_bytes;
	t->options.output = t->trace;
	t->options.monitor = t->monitor;
	if (event_loop_create(&t->loop, &err))
		exit(1);
	config.loop = t->loop;
	config.image = &t->fs.fg.base.image;
	if (recorder_create(&config, &t->recorder, &err))
		exit(1);
	recorder_kernel_at(t->recorder, FAKE_SLIDE, FAKE_PHYS_TEXT);
	if (!ok(!recorder_watch(t->recorder, &t->fs.fg.guest, &ops, t, &err) &&
			!recorder_begin(t->recorder, &t->fs.fg.guest, &err),
		"the recorder traces a fake guest"))
		tap_diag("%s", err.text);
}

static void begin_tracing(struct tracing *t, uint64_t keep_bytes)
{
	begin_tracing_with(t, keep_bytes, 0);
}

/* The image is the fake guest's. */
static void end_tracing(struct tracing *t)
{
	recorder_end(t->recorder, RECORDER_GUEST_RUNS, NULL);
	recorder_close(t->recorder);
	t->recorder->image = NULL;
	recorder_destroy(t->recorder);
	event_loop_destroy(t->loop);
	scratch_remove(&t->dir);
	fake_session_destroy(&t->fs);
}

static void switch_tracing(struct tracing *t, bool on)
{
	const struct monitor_target *target = &t->recorder->target;
	struct error err = {0};

	if (on)
		target->trace->start(target->trace_arg, NULL, 0, &err);
	else
		target->trace->stop(target->trace_arg, &err);
	ok(!err.code, "tracing is switched %s: %s", on ? "on" : "off", err.text);
}

static void allocate(struct tracing *t)
{
	fake_session_call(&t->fs, 0, FAKE_KMALLOC, 64);
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

static struct recorder *concluded;

static int conclude(int argc, char **argv)
{
	struct error err;

	(void)argc;
	(void)argv;
	recorder_end(concluded, RECORDER_GUEST_RUNS, NULL);
	return recorder_conclude(concluded, &err);
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

static void quit_loop(void *arg)
{
	event_loop_quit(((struct tracing *)arg)->loop, 1);
}

static int change(const struct tracing *t, enum monitor_change what, const char *text)
{
	const struct monitor_target *target = &t->recorder->target;
	struct error err = {0};
	json_t *reply = NULL;
	int ret = target->trace->change(target->trace_arg, what, text, &reply, &err);

	json_decref(reply);
	tap_diag("%s: %s", text, err.text);
	return ret;
}

/* The names of the instances, each with a space behind. */
static void list(const struct tracing *t, char *names, size_t size)
{
	const struct monitor_target *target = &t->recorder->target;
	json_t *instances = target->trace->instances(target->trace_arg), *instance;
	size_t i, used = 0;

	names[0] = '\0';
	json_array_foreach(instances, i, instance)
	{
		used += (size_t)snprintf(names + used, size - used, "%s ",
					 json_string_value(json_object_get(instance, "name")));
	}
	json_decref(instances);
}

static void test_instances(void)
{
	static struct tracing t;
	char names[64];

	begin_tracing(&t, 0);
	list(&t, names, sizeof(names));
	is_str(names, "kmem ", "the tracer of the command line is listed");
	ok(change(&t, MONITOR_ADD, "kmem:cache") == -EEXIST, "its name is taken");
	ok(change(&t, MONITOR_ADD, "x=nonsense") == -EINVAL, "an unknown tracer is refused");
	ok(change(&t, MONITOR_REMOVE, "x") == -ENOENT, "one that is not there cannot be removed");
	switch_tracing(&t, false);
	ok(!change(&t, MONITOR_REPLACE, "kmem:cache"), "while tracing is off it can be replaced");
	list(&t, names, sizeof(names));
	is_str(names, "kmem ", "there is one still");
	switch_tracing(&t, true);
	end_tracing(&t);
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
	ok(await_events(&t, 100000) && trace_writer_bytes(t.recorder->writer) <= 1 << 20,
	   "a flight recorder keeps what it may, and no more");
	if (trace_reader_open(t.trace, &reader, &err))
		abort();
	is_u64(count_events(reader), 0, "it writes nothing while it records");
	trace_reader_close(reader);
	ok(!t.recorder->target.trace->snapshot(t.recorder, &err), "a snapshot is written: %s",
	   err.text);
	if (trace_reader_open(t.trace, &reader, &err))
		abort();
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

static bool metrics_have(const struct tracing *t, const char *line)
{
	size_t size;
	char *text = file_get(t->dir.path, "metrics.prom", &size);
	bool found = text && strstr(text, line);

	free(text);
	return found;
}

static void quit_with_metrics(void *arg)
{
	if (metrics_have(arg, "\nsonde_tracing{domain=\"web1\"} 1\n"))
		quit_loop(arg);
}

static void test_metrics(void)
{
	enum { LIMIT_MS = 180000, PAUSE_MS = 10 };
	static struct tracing t;
	struct event_source *timer;
	struct error err;
	struct stat st;
	int reason;

	begin_tracing(&t, 0);
	allocate(&t);
	if (event_loop_add_timer(t.loop, PAUSE_MS, quit_with_metrics, &t, &timer, &err))
		abort();
	ok(!recorder_run(t.recorder, &reason, &err), "--metrics writes while it traces");
	event_source_remove(timer);
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	for (int i = 0; i < LIMIT_MS && !metrics_have(&t, "\nsonde_tracing{domain=\"web1\"} 0\n");
	     i += PAUSE_MS)
		clock_wait_ms(PAUSE_MS);
	ok(metrics_have(&t, "\nsonde_tracing{domain=\"web1\"} 0\n"), "and when tracing has ended");
	ok(metrics_have(&t, "\nsonde_allocs_total{domain=\"web1\",vcpu=\"0\"} 1\n"),
	   "all that was recorded is counted");
	ok(!stat(t.metrics, &st) && (st.st_mode & 0777) == 0644, "all users may read the file");
	end_tracing(&t);
}

static void quit_when_awaited(void *arg)
{
	const struct tracing *t = arg;

	if (metrics_have(t, t->awaited))
		quit_loop(arg);
}

/* Trace an allocation, with this much memory for what is live, until the metrics have `line`. */
static void await_live(uint64_t live_bytes, const char *line, const char *label)
{
	enum { PAUSE_MS = 10 };
	static struct tracing t;
	struct event_source *timer;
	struct error err;
	int reason;

	begin_tracing(&t, 0);
	ok(!live_memory_create(t.trace, live_bytes, &t.recorder->live, &err),
	   "live memory is asked for");
	allocate(&t);
	t.awaited = line;
	if (event_loop_add_timer(t.loop, PAUSE_MS, quit_when_awaited, &t, &timer, &err))
		abort();
	ok(!recorder_run(t.recorder, &reason, &err) && metrics_have(&t, line), "%s", label);
	event_source_remove(timer);
	end_tracing(&t);
}

static void test_live_metrics(void)
{
	/* Its cache has objects of FAKE_CACHE_SIZE. */
	await_live(1 << 20, "\nsonde_live_bytes{domain=\"web1\"} 96\n",
		   "the metrics have the bytes that are live, while they are traced");
	await_live(1, "\nsonde_live_failed{domain=\"web1\"} 1\n",
		   "a heap that takes more memory than it may ends, and the metrics say so");
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

/* As a kill leaves it: nothing is finished. */
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

static json_int_t number_in(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text_in(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* What a monitor's client gets. */
static void test_query(void)
{
	static struct tracing t;
	const struct monitor_trace_ops *trace;
	const char *specs[TRACE_MAX_INSTANCES + 1];
	json_t *reply, *vcpus;
	struct error err;
	uint64_t gpa = 0;

	begin_tracing(&t, 0);
	trace = t.recorder->target.trace;
	allocate(&t);
	allocate(&t);
	reply = trace->query(t.recorder);
	ok(json_is_true(json_object_get(reply, "enabled")) && number_in(reply, "events") == 2 &&
		   number_in(reply, "allocs") == 2 && !number_in(reply, "frees"),
	   "query-trace: tracing is on, and how many events there are");
	ok(number_in(reply, "tracing_ns") > 0, "query-trace: for how long it has been on");
	is_str(text_in(reply, "mode"), "trap", "query-trace: how it traces");
	is_str(text_in(reply, "trace_dir"), t.trace, "query-trace: where to");
	is_str(text_in(reply, "domain"), "web1", "query-trace: of which domain");
	ok(number_in(json_object_get(reply, "sites"), "entry") > 0 &&
		   json_is_array(json_object_get(json_object_get(reply, "sites"), "refused")),
	   "query-trace: how many functions");
	vcpus = json_object_get(reply, "vcpus");
	ok(json_array_size(vcpus) == FAKE_VCPUS &&
		   number_in(json_array_get(vcpus, 0), "allocs") == 2 &&
		   !number_in(json_array_get(vcpus, 1), "allocs"),
	   "query-trace: which vCPU's");
	json_decref(reply);
	ok(!trace->translate(t.recorder, FAKE_LINK_TEXT + FAKE_SLIDE, &gpa, &err) &&
		   gpa == FAKE_PHYS_TEXT,
	   "an address of the kernel's text is translated");
	ok(trace->translate(t.recorder, 0x1000, &gpa, &err) < 0,
	   "one that is not mapped is not: %s", err.text);
	ok(trace->start(t.recorder, NULL, 0, &err) == -EALREADY,
	   "what traces cannot be started: %s", err.text);
	ok(trace->start(t.recorder, specs, TRACE_MAX_INSTANCES + 1, &err) == -E2BIG,
	   "there may be so many tracers: %s", err.text);
	ok(!trace->snapshot(t.recorder, &err), "what is gathered is written at once");
	ok(!trace->stop(t.recorder, &err) && trace->stop(t.recorder, &err) == -EALREADY,
	   "tracing is stopped once: %s", err.text);
	reply = trace->query(t.recorder);
	ok(json_is_false(json_object_get(reply, "enabled")), "query-trace: tracing is off");
	json_decref(reply);
	end_tracing(&t);
}

static struct recorder *printed;

static int print_all(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_kernel(printed, "as its loader says", stdout);
	recorder_print_next(printed);
	recorder_show_progress(printed);
	return 0;
}

static void test_print(void)
{
	static const char *const argv[] = {"print", NULL};
	static struct tracing t;
	struct verb_result result;

	begin_tracing(&t, 0);
	printed = t.recorder;
	result = verb_run(print_all, argv);
	ok(strstr(result.out, "kernel   ") && strstr(result.out, "as its loader says") &&
		   strstr(result.out, "slide 0x"),
	   "the kernel is described: %s", result.out);
	ok(strstr(result.err, "next: sonde report "), "the next command is named: %s", result.err);
	verb_result_deinit(&result);
	t.recorder->has_profiles = true;
	result = verb_run(print_all, argv);
	ok(strstr(result.err, "next: sonde profile "),
	   "a trace of profiles only has its own verb: %s", result.err);
	verb_result_deinit(&result);
	t.recorder->has_profiles = false;
	t.recorder->has_hists = true;
	result = verb_run(print_all, argv);
	ok(strstr(result.err, "next: sonde hist "), "so has one of histograms only: %s",
	   result.err);
	verb_result_deinit(&result);
	t.recorder->has_hists = false;
	t.recorder->dir = "it's here";
	result = verb_run(print_all, argv);
	ok(strstr(result.err, "next: sonde report 'it'\\''s here'"),
	   "in quotes, if a shell needs them: %s", result.err);
	verb_result_deinit(&result);
	t.recorder->dir = t.trace;
	end_tracing(&t);
}

static int print_gaps(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_gaps(printed);
	return 0;
}

/* The fake image has no jump table, which shows whether all functions are known. */
static void test_gaps(void)
{
	static const char *const argv[] = {"print", NULL};
	static struct tracing t;
	struct verb_result result;

	begin_tracing(&t, 0);
	printed = t.recorder;
	result = verb_run(print_gaps, argv);
	ok(strstr(result.err, "sonde attach: not traced: other functions: ") &&
		   strstr(result.err, "no jump table"),
	   "the user is told what is not traced, and why: %s", result.err);
	ok(strstr(result.err, "\nsonde attach: traced nevertheless: ") &&
		   strstr(result.err, " functions\n"),
	   "and how many functions are");
	verb_result_deinit(&result);
	result = verb_run(print_gaps, argv);
	is_str(result.err, "", "once");
	verb_result_deinit(&result);
	switch_tracing(&t, false);
	t.recorder->gaps_mark = 0;
	result = verb_run(print_gaps, argv);
	is_str(result.err, "", "nothing is said of gaps while nothing is traced");
	verb_result_deinit(&result);
	end_tracing(&t);
}

static int print_yields(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_yields(printed);
	return 0;
}

/* Two functions by which the guest would show what it does are inlined. */
static void test_yields(void)
{
	static const struct fake_symbol evidence[] = {{"machine_kexec", FAKE_MSLEEP}, {NULL, 0}};
	static const char *const argv[] = {"print", NULL};
	static struct tracing t;
	struct verb_result result;

	begin_tracing(&t, 0);
	printed = t.recorder;
	result = verb_run(print_yields, argv);
	is_str(result.err, "", "nothing is said if the tracer gives way to all");
	verb_result_deinit(&result);
	switch_tracing(&t, false);
	if (fake_guest_inline(&t.fs.fg, "arch_prepare_kprobe") ||
	    fake_guest_inline(&t.fs.fg, "kernel_kexec") ||
	    fake_guest_add_symbols(&t.fs.fg, evidence))
		abort();
	t.recorder->yields_printed = false;
	result = verb_run(print_yields, argv);
	is_str(result.err, "", "nor while nothing is traced");
	verb_result_deinit(&result);
	switch_tracing(&t, true);
	result = verb_run(print_yields, argv);
	is_str(result.err,
	       "sonde attach: the tracer cannot give way to kprobes (the kernel has kprobe_table "
	       "but "
	       "no arch_prepare_kprobe()), kexec (the kernel has machine_kexec but no "
	       "kernel_kexec()): not to be used in the guest meanwhile\n",
	       "what it cannot give way to is one line");
	verb_result_deinit(&result);
	result = verb_run(print_yields, argv);
	is_str(result.err, "", "once");
	verb_result_deinit(&result);
	end_tracing(&t);
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
	ok(strstr(result.err, "the guest made use of all the memory that it may (256.0 MiB)"),
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
	test_instances();
	test_max_size();
	test_metrics();
	test_live_metrics();
	test_end_fails();
	test_flight_recorder();
	test_hung_disk();
	test_killed();
	test_budget();
	test_query();
	test_print();
	test_gaps();
	test_yields();
	return tap_done();
}

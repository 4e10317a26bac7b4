/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Several instances in one trace: their streams, their names, and their coming and going. */
#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/trace/reader.h"
#include "formats/trace/sidecar.h"
#include "formats/trace/writer-internal.h"
#include "tests/lib/babeltrace.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"
#include "tests/unit/formats/trace/instances-fixture.h"

enum { EVENTS = 5000, CTF = 0 };

/* The i-th event, at time i. */
static struct function_event event_at(unsigned int i)
{
	struct function_event event = {.ip = 0xffffffff81000000 + i % 700 * 16,
				       .parent_ip = 0xffffffff82000000 + i % 50 * 16,
				       .pid = i % 9,
				       .tgid = i % 5,
				       .cgroup = i % 4 ? i % 4 : 1u << 24};

	snprintf(event.comm, sizeof(event.comm), "task-%u", i / 1000);
	return event;
}

static void put_functions(struct trace_writer *writer, int number, unsigned int from,
			  unsigned int to)
{
	for (unsigned int vcpu = 0; vcpu < VCPUS; vcpu++) {
		struct event_sink *sink = trace_writer_sink(writer, (unsigned int)number, vcpu);
		struct event_batch batch = {0};

		for (unsigned int i = from; i < to; i++) {
			const struct function_event event = event_at(i);

			if (event_batch_put(&batch, sink, 0, i, &event))
				abort();
		}
		event_batch_end(&batch);
	}
}

static void put_records(struct trace_writer *writer, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		const struct kmem_record record =
			make_free(KMEM_TYPE_KMALLOC, 0xffff888000001000 + i, 0xffffffff81000010, i);

		if (trace_writer_append(writer, i % VCPUS, &record))
			abort();
	}
}

static void finish(struct trace_writer *writer)
{
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static bool is_same(const struct event *event, unsigned int fields)
{
	const struct function_event want = event_at((unsigned int)event->ns);
	const struct function_event *got = event->bytes;

	return got->ip == want.ip &&
	       got->parent_ip == (fields & FUNCTION_PARENT ? want.parent_ip : 0) &&
	       got->pid == (fields & FUNCTION_PID ? want.pid : 0) &&
	       got->tgid == (fields & FUNCTION_TGID ? want.tgid : 0) &&
	       got->cgroup == (fields & FUNCTION_CGROUP ? want.cgroup : 0) &&
	       !memcmp(got->comm, fields & FUNCTION_COMM ? want.comm : (char[16]){0},
		       sizeof(want.comm));
}

static void test_fields(unsigned int fields)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	const struct trace_instance instance = functions("calls", fields);
	struct trace_reader *reader;
	unsigned int n = 0, wrong = 0;
	struct event event;

	put_functions(writer, add(writer, &instance), 0, EVENTS);
	finish(writer);
	if (trace_reader_open(dir.path, &reader, NULL))
		abort();
	for (; trace_reader_next(reader, &event, NULL) == 1; n++)
		wrong += !is_same(&event, fields) || strcmp(event.instance->name, "calls") ||
			 event.class->nr_fields != instance.classes->nr_fields;
	ok(n == VCPUS * EVENTS && !wrong, "%s%s%s%s%s%sall events of the function tracer come back",
	   fields & FUNCTION_PARENT ? "with the caller, " : "",
	   fields & FUNCTION_PID ? "with pid, " : "", fields & FUNCTION_TGID ? "with tgid, " : "",
	   fields & FUNCTION_COMM ? "with comm, " : "",
	   fields & FUNCTION_CGROUP ? "with cgroup, " : "", fields ? "" : "with ip only, ");
	trace_reader_close(reader);
	ok(!babeltrace_run("", dir.path, NULL), "babeltrace2 reads them");
	scratch_remove(&dir);
}

static void test_all_fields(void)
{
	for (unsigned int fields = 0; fields <= FUNCTION_ALL; fields++)
		if (!(fields & FUNCTION_STACK))
			test_fields(fields);
}

/* A probe's event, group and instance may have the longest name; files of an instance that comes
 * again with other fields have more behind it. */
static void test_longest_names(void)
{
	const unsigned int fields[] = {FUNCTION_PID, FUNCTION_PARENT};
	char name[TRACE_INSTANCE_NAME_MAX + 1] = "";
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	struct event_class classes[2];
	struct trace_reader *reader;
	unsigned int n = 0, wrong = 0;
	struct error err = {0};
	struct event event;

	memset(name, 'n', TRACE_INSTANCE_NAME_MAX);
	for (int i = 0; i < 2; i++) {
		struct trace_instance instance = functions(name, fields[i]);
		int number;

		classes[i] = *instance.classes;
		classes[i].system = classes[i].name = name;
		instance.classes = &classes[i];
		number = add(writer, &instance);
		put_functions(writer, number, 0, EVENTS);
		trace_writer_close_instance(writer, (unsigned int)number);
	}
	finish(writer);
	if (trace_reader_open(dir.path, &reader, &err))
		tap_diag("%s", err.text);
	for (; !err.code && trace_reader_next(reader, &event, NULL) == 1; n++)
		wrong += strcmp(event.instance->name, name) || strcmp(event.class->system, name) ||
			 strcmp(event.class->name, name);
	ok(n == 2 * VCPUS * EVENTS && !wrong, "names of %d characters come back",
	   TRACE_INSTANCE_NAME_MAX);
	if (!err.code)
		trace_reader_close(reader);
	ok(!babeltrace_run("", dir.path, NULL), "babeltrace2 reads them");
	scratch_remove(&dir);
}

/* Events by instance, and whether they come in the order of time. */
static void count_events(const char *path, uint64_t counts[3], bool *ordered)
{
	struct trace_reader *reader;
	const struct trace_instance *instances;
	struct event event;
	size_t nr_instances;
	int64_t last = 0;

	*ordered = true;
	if (trace_reader_open(path, &reader, NULL))
		abort();
	instances = trace_reader_instances(reader, &nr_instances);
	while (trace_reader_next(reader, &event, NULL) == 1) {
		counts[event.instance - instances]++;
		*ordered = *ordered && event.ns >= last;
		last = event.ns;
	}
	trace_reader_close(reader);
}

static bool has_file(const char *dir, const char *name)
{
	char *bytes = file_get(dir, name, NULL);

	free(bytes);
	return bytes;
}

static void test_side_by_side(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	const struct trace_instance first = functions("calls", 0);
	const struct trace_instance second = functions("a-b_9", FUNCTION_ALL);
	struct trace_writer_counts counts;
	uint64_t n[3] = {0};
	bool ordered;

	is_u64((uint64_t)add(writer, &kmem_instance), 0, "the first instance has number 0");
	is_u64((uint64_t)add(writer, &first), 1, "the second has number 1");
	put_records(writer, 100);
	put_functions(writer, 1, 0, 50);
	is_u64((uint64_t)add(writer, &second), 2, "one is added while others record");
	put_functions(writer, 2, 0, 70);
	trace_writer_counts(writer, 1, &counts);
	ok(counts.events == 50 + 50 + 70 && counts.frees == 50, "events are counted by vCPU");
	trace_writer_instance_counts(writer, 2, 1, &counts);
	is_u64(counts.events, 70, "events are counted by instance");
	finish(writer);
	ok(has_file(dir.path, "cpu1") && has_file(dir.path, "cpu1.calls") &&
		   has_file(dir.path, "cpu1.a-b_9"),
	   "kmem's files are named as ever, others by their instance");
	count_events(dir.path, n, &ordered);
	ok(n[0] == 100 && n[1] == 100 && n[2] == 140, "all events of all instances are read");
	ok(ordered, "events of all instances come in the order of time");
	ok(!babeltrace_run("", dir.path, NULL), "babeltrace2 reads the trace");
	scratch_remove(&dir);
}

static struct sidecar *load_sidecar(const char *path)
{
	struct sidecar *sidecar = NULL;
	struct trace_files *files;

	if (trace_files_open(path, &files, NULL) || sidecar_load(files, &sidecar, NULL))
		abort();
	trace_files_close(files);
	return sidecar;
}

static void check_sidecar(const char *path)
{
	struct sidecar *sidecar = load_sidecar(path);
	const struct sidecar_instance *instances = sidecar->instances;

	is_u64(instances[0].lost, 7, "an instance's losses are in the sidecar");
	is_u64(instances[1].lost, 0, "and not another's");
	is_str(instances[1].about.spec, "function:x", "as is its last spec");
	ok(instances[0].about.interrupted && instances[1].about.interrupted &&
		   instances[0].about.removed && !instances[1].about.removed,
	   "that an instance was away, or is, is known");
	ok(!instances[0].about.late && instances[1].about.late, "so is which one came later");
	sidecar_destroy(sidecar);
}

static void test_coming_and_going(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	const struct trace_instance plain = functions("calls", 0);
	struct trace_instance more = functions("calls", FUNCTION_PID);
	struct trace_writer_counts counts;
	struct function_event event = event_at(0);
	struct event_batch batch = {0};
	uint64_t n[3] = {0};
	bool ordered;

	more.late = true;
	is_u64((uint64_t)add(writer, &plain), 0, "an instance is added");
	is_u64((uint64_t)-add(writer, &plain), EEXIST, "a name is not given twice");
	is_u64((uint64_t)add(writer, &more), 1, "but for other fields");
	put_functions(writer, 0, 0, 10);
	trace_writer_close_instance(writer, 0);
	is_u64((uint64_t)-event_batch_put(&batch, trace_writer_sink(writer, 0, 1), 0, 10, &event),
	       EPIPE, "a closed instance takes no events");
	event_batch_end(&batch);
	put_functions(writer, 1, 10, 20);
	trace_writer_close_instance(writer, 1);
	for (unsigned int i = 2; i < 100; i++) {
		int number = add(writer, i % 2 ? &plain : &more);

		if (number != (int)(i % 2 ? 0 : 1))
			abort();
		put_functions(writer, number, i * 10, i * 10 + 10);
		trace_writer_close_instance(writer, (unsigned int)number);
	}
	trace_writer_counts(writer, 1, &counts);
	is_u64(counts.overruns, 1, "the event that came too late is counted as lost");
	trace_writer_add_lost(writer, 0, 6);
	ok(!trace_writer_set_spec(writer, 1, "function:x", NULL), "a spec changes");
	finish(writer);
	check_sidecar(dir.path);
	count_events(dir.path, n, &ordered);
	ok(n[0] == 1000 && n[1] == 1000 && ordered,
	   "an instance that comes back goes on in its streams");
	ok(has_file(dir.path, "cpu0.calls") && has_file(dir.path, "cpu0.calls.2") &&
		   !has_file(dir.path, "cpu0.calls.3"),
	   "the same name with other fields has files of its own");
	scratch_remove(&dir);
}

static bool nothing_new(void *arg, struct trace_info *out)
{
	(void)arg;
	*out = info;
	return true;
}

/* The thread that writes needs the locks that the batch has, each half second. With sanitizers the
 * batch ends by the clock. */
static void test_long_batch(void)
{
	enum { MANY = 2000000, LONGEST_MS = 2000, LOOK = 1000 };
	const uint64_t end_ms = clock_monotonic_ms() + LONGEST_MS;
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	const struct trace_instance instances[] = {functions("a", FUNCTION_ALL),
						   functions("b", FUNCTION_ALL)};
	struct event_batch batch = {0};
	struct trace_writer_counts counts;
	unsigned int n = 0;
	int failed = 0;

	trace_writer_set_source(writer, nothing_new, NULL, NULL);
	add(writer, &instances[0]);
	add(writer, &instances[1]);
	for (; n < MANY && (n % LOOK || clock_monotonic_ms() < end_ms); n++) {
		struct function_event event = event_at(n);

		/* each packet is full of names, and so the queue is full soon */
		event.parent_ip = UINT64_C(0x9e3779b97f4a7c15) * n;
		for (unsigned int number = 0; number < 2; number++)
			failed |= event_batch_put(&batch, trace_writer_sink(writer, number, 0), 0,
						  n, &event);
	}
	event_batch_end(&batch);
	trace_writer_counts(writer, 0, &counts);
	ok(!failed && !counts.overruns && counts.events == 2 * n,
	   "a batch of several sinks that waits for the disk loses nothing");
	trace_writer_destroy(writer);
	scratch_remove(&dir);
}

enum { APPENDS = 20000 };

static void *append_records(void *writer)
{
	for (unsigned int i = 0; i < APPENDS; i++) {
		const struct kmem_record record =
			make_free(KMEM_TYPE_KMALLOC, 0xffff888000001000 + i, 0xffffffff81000010, i);

		trace_writer_append(writer, 0, &record);
	}
	return NULL;
}

static void test_threads(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	struct trace_writer_counts counts;
	pthread_t other;

	if (pthread_create(&other, NULL, append_records, writer))
		abort();
	append_records(writer);
	pthread_join(other, NULL);
	trace_writer_counts(writer, 0, &counts);
	ok(counts.events == 2 * APPENDS && !counts.overruns,
	   "two threads append records of one vCPU");
	trace_writer_destroy(writer);
	scratch_remove(&dir);
}

static void test_refusals(void)
{
	static const char *const names[] = {
		"",    "9a",  "-a",
		"a/b", "a.b", "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_0123456789"};
	struct scratch dir = scratch_make();
	char path[128];
	struct trace_writer *writer;
	struct trace_instance instance = functions("calls", 0);
	struct error err;

	snprintf(path, sizeof(path), "%s/ctf", dir.path);
	writer = create(path, "ctf");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		instance.name = names[i];
		ok(trace_writer_add_instance(writer, &instance, &err) == -EINVAL,
		   "no instance is called '%s'", names[i]);
	}
	finish(writer);
	snprintf(path, sizeof(path), "%s/kmemtrace", dir.path);
	writer = create(path, "kmemtrace");
	instance.name = "calls";
	ok(trace_writer_add_instance(writer, &instance, &err) == -EINVAL,
	   "the format kmemtrace takes no events but kmem's");
	is_str(err.text, "calls: the format kmemtrace has no events but those of kmem; use ctf",
	       "the error says so");
	finish(writer);
	scratch_remove(&dir);
}

struct held {
	pthread_mutex_t lock;
	bool asked, is_free;
};

/* Called while a batch waits for the disk. */
static unsigned int is_lock_free(void *arg)
{
	struct held *held = arg;

	held->asked = true;
	held->is_free = !pthread_mutex_trylock(&held->lock);
	if (held->is_free)
		pthread_mutex_unlock(&held->lock);
	return 1;
}

/* Others may need what the thread that records holds, with the guest stopped. */
static void test_waits_without_lock(void)
{
	const struct trace_instance about = functions("f", FUNCTION_ALL);
	struct held held = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct event_batch batch = {.lock = &held.lock};
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	int number = add(writer, &about);

	trace_writer_set_patience(writer, is_lock_free, &held);
	output_hold(writer->output);
	pthread_mutex_lock(&held.lock);
	for (unsigned int i = 0; !held.asked; i++) {
		struct function_event event = event_at(i);

		event.parent_ip = UINT64_C(0x9e3779b97f4a7c15) * i; /* fills the queue soon */
		event_batch_put(&batch, trace_writer_sink(writer, (unsigned int)number, 0), 0, i,
				&event);
	}
	ok(held.is_free, "a batch waits for the disk without the lock that its thread holds");
	ok(pthread_mutex_trylock(&held.lock), "and with it goes on");
	event_batch_end(&batch);
	pthread_mutex_unlock(&held.lock);
	output_resume(writer->output);
	finish(writer);
	scratch_remove(&dir);
}

static unsigned int nr_open(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static bool await_open(unsigned int n)
{
	for (unsigned int i = 0; nr_open() != n && i < 5000; i++)
		clock_wait_ms(1);
	return nr_open() == n;
}

/* Instances come and go: those that are closed hold no descriptors, and come again. */
static void test_descriptors(void)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, "ctf");
	const unsigned int before = nr_open();
	struct trace_instance instance = functions("calls", 0);
	int number = add(writer, &instance);
	uint64_t n[3] = {0};
	bool ordered;

	put_functions(writer, number, 0, 100);
	is_u64(nr_open(), before + VCPUS, "an instance has a file per vCPU");
	trace_writer_close_instance(writer, (unsigned int)number);
	ok(await_open(before), "they are closed with it");
	is_u64((uint64_t)add(writer, &instance), (uint64_t)number, "the instance comes again");
	put_functions(writer, number, 100, 200);
	ok(!trace_writer_flush(writer, NULL), "its events go behind the first ones");
	is_u64(nr_open(), before + VCPUS, "in the same files");
	finish(writer);
	count_events(dir.path, n, &ordered);
	ok(n[0] == 200 * VCPUS && ordered, "all of them can be read");
	scratch_remove(&dir);
}

/* A limit for one more descriptor. */
static rlim_t limit_for_one(void)
{
	int first = dup(STDOUT_FILENO), second = dup(STDOUT_FILENO);

	close(first);
	close(second);
	return (rlim_t)second;
}

/* No descriptor is left for the second file. */
static void test_no_descriptors(const char *encoding, const struct trace_instance *instance)
{
	struct scratch dir = scratch_make();
	struct trace_writer *writer = create(dir.path, encoding);
	const unsigned int before = nr_open();
	struct rlimit old, limit;
	int number;

	getrlimit(RLIMIT_NOFILE, &old);
	limit = old;
	limit.rlim_cur = limit_for_one();
	setrlimit(RLIMIT_NOFILE, &limit);
	ok(trace_writer_add_instance(writer, instance, NULL) == -EMFILE,
	   "%s: an instance needs files", encoding);
	is_u64(nr_open(), before, "it leaves none open");
	setrlimit(RLIMIT_NOFILE, &old);
	number = add(writer, instance);
	is_u64((uint64_t)number, 0, "it can be added again");
	finish(writer);
	scratch_remove(&dir);
}

int main(void)
{
	test_all_fields();
	test_longest_names();
	test_side_by_side();
	test_coming_and_going();
	test_long_batch();
	test_waits_without_lock();
	test_threads();
	test_refusals();
	test_descriptors();
	test_no_descriptors("ctf", &kmem_instance);
	test_no_descriptors("kmemtrace", &kmem_instance);
	return tap_done();
}

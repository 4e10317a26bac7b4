/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What instances of the direct lane record of the task, on a fake guest: from a record to the
 * trace, which conditions on it the guest decides, and what the guest's kernel does not have. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, PATIENCE_MS = 20000, PID = 4711, TGID = 4700, VCPU = 2 };
#define CGROUP UINT64_C(0x123456789abc)

static struct fake_session fs;

static void create(bool has_cgroups)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	if (has_cgroups && fake_kernel_describe_cgroups(&fs.fg.base))
		abort();
	fake_session_list_return_sites(&fs);
	fake_session_list_reserved(&fs);
	fake_session_keep_text(&fs);
	trace_session_set_options(fs.session, &options);
}

static int start(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second, NULL};

	return trace_session_start(fs.session, specs, err);
}

static struct direct_lane *lane(void)
{
	return &ring_engine_of(fs.session->ring_engine)->direct;
}

static void put(uint8_t *record, uint16_t at, const void *value, size_t size)
{
	memcpy(record + at, value, size);
}

/* What code writes of the task. */
static void put_task(uint8_t *record, uint32_t fields, const struct direct_layout *layout)
{
	if (fields & DIRECT_PID)
		put(record, layout->pid, &(uint32_t){PID}, sizeof(uint32_t));
	if (fields & DIRECT_TGID)
		put(record, layout->tgid, &(uint32_t){TGID}, sizeof(uint32_t));
	if (fields & DIRECT_COMM)
		put(record, layout->comm, "worker", sizeof("worker"));
	if (fields & DIRECT_CGROUP)
		put(record, layout->cgroup, &(uint64_t){CGROUP}, sizeof(uint64_t));
}

static void put_record(unsigned int id)
{
	const struct direct_slot *slot = &lane()->slots[id];
	const unsigned int ring = slot->group * FAKE_VCPUS + VCPU;
	struct ring_writer writer = ring_writer(lane()->rings[ring].header, lane()->ring_bytes);
	struct direct_record *record =
		(struct direct_record *)fake_session_reserve(&fs, &writer, slot->layout.size);

	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	record->ip = (uint32_t)(fake_gva(FAKE_KFREE) + 5);
	put_task((uint8_t *)record, slot->want.fields, &slot->layout);
	__atomic_store_n(&record->commit, ring_commit(id), __ATOMIC_RELEASE);
}

/* The engine's thread frees slots at any time. */
static bool is_live(unsigned int id)
{
	bool live;

	pthread_mutex_lock(&lane()->lock);
	live = lane()->slots[id].state == DIRECT_LIVE;
	pthread_mutex_unlock(&lane()->lock);
	return live;
}

/* A record of each class of all instances; returns how many. */
static unsigned int put_records(void)
{
	unsigned int n = 0;

	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		if (!is_live(id))
			continue;
		put_record(id);
		n++;
	}
	return n;
}

static void await_records(unsigned int n)
{
	unsigned int seen = 0;

	for (int i = 0; i < PATIENCE_MS && seen < n; i++, clock_wait_ms(1)) {
		const struct trace_status status = fake_session_status(&fs);

		seen = 0;
		for (size_t k = 0; k < TRACE_MAX_INSTANCES; k++)
			seen += (unsigned int)status.instances[k].records;
	}
}

/* "system/name field=value ...", of the task's fields; without them it has none. */
static const char *line_of(const struct event *event)
{
	static const char *const names[] = {"pid", "tgid", "comm", "cgroup"};
	static char line[200];
	size_t n = (size_t)snprintf(line, sizeof(line), "%s/%s", event->class->system,
				    event->class->name);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct event_field *field = event_field_find(event->class, names[i]);
		char text[EVENT_STRING_MAX + 1] = "";

		if (!field)
			continue;
		if (field->type == EVENT_STRING)
			event_field_text(field, event->bytes, text);
		else
			snprintf(text, sizeof(text), "%#llx",
				 (unsigned long long)event_field_value(field, event->bytes));
		n += (size_t)snprintf(line + n, sizeof(line) - n, " %s=%s", names[i], text);
	}
	return line;
}

/* Whether each event of the trace is the next line of `want`, which NULL ends. */
static bool trace_is(const char *const *want)
{
	struct trace_reader *reader = fake_session_open_trace(&fs);
	struct event event;
	bool good = true;

	while (trace_reader_next(reader, &event, NULL) == 1) {
		good &= *want && !strcmp(line_of(&event), *want) && event.vcpu == VCPU;
		if (!good)
			tap_diag("got %s, not %s", line_of(&event), *want ? *want : "nothing");
		want += *want != NULL;
	}
	trace_reader_close(reader);
	return good && !*want;
}

static void test(const char *spec, const char *const *want)
{
	struct error err = {0};
	unsigned int n;

	create(true);
	if (start(spec, NULL, &err))
		tap_diag("%s", err.text);
	n = put_records();
	await_records(n);
	ok(n && trace_is(want), "%s: %u events have these fields of the task", spec, n);
	fake_session_end(&fs);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ALL "pid=0x1267 tgid=0x125c comm=worker cgroup=0x123456789abc"

static void test_fields(void)
{
	test("function:kfree,pid,tgid,comm,cgroup", LINES("function/function " ALL));
	test("function:kfree,cgroup,parent", LINES("function/function cgroup=0x123456789abc"));
	test("function:kfree,tgid", LINES("function/function tgid=0x125c"));
	test("function:kfree", LINES("function/function"));
	test("graph:kmem_cache_alloc,tgid,comm,cgroup,ret",
	     LINES("graph/entry " ALL, "graph/exit"));
	test("graph:kmem_cache_alloc,pid,cgroup",
	     LINES("graph/entry pid=0x1267 cgroup=0x123456789abc", "graph/exit"));
	test("probe:p:my/freed kfree at=%di,tgid,comm,cgroup", LINES("my/freed " ALL));
	test("probe:r:my/got kmem_cache_alloc $retval,cgroup",
	     LINES("my/got pid=0x1267 cgroup=0x123456789abc"));
	test("probe:p:my/load kmem_cache_alloc+5 %cx,tgid,comm,cgroup", LINES("my/load " ALL));
}

static void test_conditions(void)
{
	const struct trace_instance_status *status;
	struct error err = {0};

	create(true);
	ok(!start("a=function:kfree if tgid == 4700 && cgroup != 5",
		  "b=function:kmem_cache_free if tgid == 4700 || comm ~ \"w*\"", &err),
	   "conditions on the task: %s", err.text);
	status = fake_session_instance(&fs, "a");
	is_str(status->guest_conditions, "tgid == 4700 && cgroup != 5",
	       "the guest decides what it knows");
	status = fake_session_instance(&fs, "b");
	is_str(status->host_conditions, "(tgid == 4700 || comm ~ \"w*\")",
	       "the host decides what depends on a text");
	put_records();
	await_records(2);
	ok(trace_is(LINES("function/function", "function/function tgid=0x125c comm=worker")),
	   "and the trace has what the host needs for that");
	fake_session_end(&fs);
	create(true);
	ok(!start("probe:p:my/freed kfree,tgid,cgroup if tgid == 4700 && cgroup == 5", NULL, &err),
	   "a probe with conditions: %s", err.text);
	is_str(fake_session_instance(&fs, "freed")->guest_conditions, "tgid == 4700 && cgroup == 5",
	       "the guest decides them, too");
	ok(trace_session_add_instance(fs.session, "probe:p:my/other kfree if tgid == 1", &err),
	   "a probe's condition needs the field: %s", err.text);
	fake_session_end(&fs);
}

/* What is not recorded costs nothing: neither room nor code. */
static void test_plain(void)
{
	create(true);
	if (start("function:kfree", NULL, NULL))
		abort();
	is_u64(lane()->slots[0].layout.size, sizeof(struct direct_record),
	       "a plain record is as small as it was");
	is_u64(lane()->task_fields, 0, "and of tasks nothing has been looked up");
	fake_session_end(&fs);
}

static void test_refusals(void)
{
	static const char *const specs[] = {"f=function:kfree,cgroup",
					    "graph:kfree,cgroup",
					    "f=function:kfree if cgroup == 5",
					    "probe:p kfree %di,cgroup",
					    "h=function:hist:keys=ip if cgroup == 5",
					    "h=function:hist:keys=cgroup",
					    "k=kmem:kmalloc,hist:keys=cgroup",
					    "k=kmem:kmalloc,hist:keys=call_site if cgroup == 5"};
	struct error err = {0};

	create(false);
	ok(!start("function:kfree,tgid", NULL, &err), "a kernel without the path to cgroups: %s",
	   err.text);
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		ok(trace_session_add_instance(fs.session, specs[i], &err) == -ENOENT &&
			   !strncmp(err.text, "tasks cannot be recorded: BTF", 29) &&
			   !strchr(err.text, '\n'),
		   "%s is refused: %s", specs[i], err.text);
	put_records();
	await_records(1);
	ok(trace_is(LINES("function/function tgid=0x125c")), "what it has is recorded");
	fake_session_end(&fs);
}

static void set_running(bool running)
{
	fake_put32(&fs.fg.base, FAKE_TASK_GPA + 0x100 + FAKE_TASK_ON_CPU, running);
}

/* Until the task runs; 0: it does. Other threads stop the guest, too. */
static atomic_uint stops_between;

static void run_soon(struct fake_guest *fg)
{
	(void)fg;
	if (atomic_load(&stops_between) && atomic_fetch_sub(&stops_between, 1) == 1)
		set_running(true);
}

/* A vCPU is between two tasks. */
static void test_between(void)
{
	struct error err = {0};

	create(true);
	fs.fg.on_stop = run_soon;
	if (start("function:kfree", NULL, NULL))
		abort();
	set_running(false);
	ok(trace_session_add_instance(fs.session, "f=function:kfree,tgid", &err) == -EAGAIN &&
		   !strncmp(err.text, "tasks cannot be recorded: the task of vCPU 1", 44),
	   "a vCPU that runs no task is refused: %s", err.text);
	atomic_store(&stops_between, 3);
	ok(!trace_session_add_instance(fs.session, "f=function:kfree,tgid", &err),
	   "one that runs one soon is not: %s", err.text);
	fake_session_end(&fs);
}

/* Summed up in the guest. */
static void test_hist(void)
{
	const struct trampoline_kernel *facts;
	struct error err = {0};

	create(true);
	ok(!start("function:kfree,hist:keys=tgid,cgroup if tgid > 1 && cgroup != 1", NULL, &err) &&
		   !trace_session_add_instance(
			   fs.session, "kmem:kmalloc,hist:keys=cgroup:vals=bytes_req if tgid > 1",
			   &err),
	   "histograms by process and cgroup: %s", err.text);
	is_u64(lane()->task_fields & EVENT_TASK_ALL, EVENT_TASK_ALL, "the guest knows both");
	facts = &ring_engine_of(fs.session->ring_engine)->facts;
	ok(facts->task_tgid == FAKE_TASK_TGID && facts->cgroup_path[0] == FAKE_TASK_CGROUPS,
	   "its code reads them where they are");
	fake_session_end(&fs);
}

int main(void)
{
	test_fields();
	test_hist();
	test_conditions();
	test_plain();
	test_between();
	test_refusals();
	return tap_done();
}

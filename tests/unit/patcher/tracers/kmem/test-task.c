/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kmem tracer records the task of each call where a spec asks for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

static struct fake_session fs;

static int start(const char *const *specs, struct error *err)
{
	return trace_session_start(fs.session, specs, err);
}

static void begin(const char *const *specs)
{
	struct error err = {0};

	fake_session_create(&fs);
	if (start(specs, &err)) {
		tap_diag("%s", err.text);
		abort();
	}
}

static void free_object(unsigned int vcpu)
{
	fake_session_call(&fs, vcpu, FAKE_KFREE, fake_object());
}

static void alloc_page(unsigned int vcpu)
{
	fs.fg.vcpus[vcpu].regs.rsi = 0;
	fake_session_call(&fs, vcpu, FAKE_ALLOC_PAGES, 0);
}

/* Checks each event of an instance against this; a NULL name, or pid 0: the trace has no such
 * field. Returns how many there are. */
static size_t events_of(const char *instance, uint64_t first_pid, const char *comm)
{
	struct trace_reader *reader = fake_session_open_trace(&fs);
	struct event event;
	bool good = true;
	size_t n = 0;

	while (trace_reader_next(reader, &event, NULL) == 1) {
		const struct event_field *pid = event_field_find(event.class, "pid");
		const struct event_field *name = event_field_find(event.class, "comm");
		char text[EVENT_STRING_MAX + 1] = "";

		if (strcmp(event.instance->name, instance))
			continue;
		n++;
		if (name)
			event_field_text(name, event.bytes, text);
		good &= !name == !comm && (!name || !strcmp(text, comm));
		good &= !pid == !first_pid;
		good &= !pid || event_field_value(pid, event.bytes) == first_pid + event.vcpu;
	}
	trace_reader_close(reader);
	ok(good, "all events of %s have their tasks, or none", instance);
	return n;
}

static void test_fields(void)
{
	begin((const char *const[]){"kmem:pid,comm", "plain=kmem:kmalloc", NULL});
	fake_session_call(&fs, 0, FAKE_KMALLOC, 33);
	free_object(1);
	alloc_page(2);
	is_u64(events_of("kmem", 100, "task"), 3, "an instance records its events with the task");
	is_u64(events_of("plain", 0, NULL), 2, "beside it another one does so without");
	is_u64(fake_session_recorded(&fs), 5, "analyses take both for records");
	fake_session_end(&fs);
}

static const struct probe_ref *find(const char *name)
{
	for (size_t i = 0; i < fs.session->tracers.nr_refs; i++)
		if (!strcmp(fs.session->tracers.refs[i].probe->name, name))
			return &fs.session->tracers.refs[i];
	abort();
}

/* A task may be on another CPU when it returns, and have another name. */
static void test_entry(void)
{
	struct probe_hit hit = {.key = 0x1000, .args = {33}, .pid = 100, .comm = {0x6b736174}};

	begin((const char *const[]){"kmem:kmalloc,pid,comm", NULL});
	fake_session_emit(&fs, find("__kmalloc"), POINT_ENTRY, &hit);
	hit = (struct probe_hit){.key = 0x1000,
				 .result = fake_object(),
				 .slab_cache = fake_cache(),
				 .pid = 5,
				 .comm = {0x72656874}};
	fake_session_emit(&fs, find("__kmalloc"), POINT_RETURN, &hit);
	is_u64(events_of("kmem", 100, "task"), 1, "an allocation has the task of its entry");
	fake_session_end(&fs);
}

static void test_filter(void)
{
	begin((const char *const[]){"a=kmem:pid,comm if comm ~ \"ta*\" && pid == 101",
				    "b=kmem:comm if comm ~ \"kworker*\"", NULL});
	free_object(0);
	free_object(1);
	is_u64(events_of("a", 100, "task"), 1, "a filter chooses by the task");
	is_u64(events_of("b", 0, "task"), 0, "another one by its name");
	fake_session_end(&fs);
}

/* The trace need not have what chooses the events. */
static void test_pids(void)
{
	struct error err = {0};

	begin((const char *const[]){"a=kmem:pid=101", "b=kmem:kmalloc", NULL});
	free_object(0);
	free_object(1);
	is_u64(events_of("a", 0, NULL), 1, "an instance chooses tasks by their pids");
	is_u64(events_of("b", 0, NULL), 2, "beside another one, which does not");
	is_str(fake_session_status(&fs).instances[0].host_conditions, "pid=101",
	       "the host decides that");
	ok(!trace_session_add_instance(fs.session, "c=kmem:pid=100", &err),
	   "another one may come: %s", err.text);
	fake_session_end(&fs);
}

/* How many events of an instance have a chain that begins with this address and is cut behind it;
 * -1: the trace has no such field. */
static int chains_of(const char *instance, uint64_t first)
{
	uint64_t frames[EVENT_STACK_FRAMES];
	struct trace_reader *reader = fake_session_open_trace(&fs);
	struct event event;
	int good = 0;
	bool cut;

	while (trace_reader_next(reader, &event, NULL) == 1) {
		const struct event_field *stack = event_field_find(event.class, "stack");

		if (strcmp(event.instance->name, instance))
			continue;
		if (!stack)
			good = -1;
		else if (event_field_frames(stack, event.bytes, frames, &cut) == 1)
			good += frames[0] == first && cut;
	}
	trace_reader_close(reader);
	return good;
}

/* The fake stack leads nowhere. */
static void test_chains(void)
{
	begin((const char *const[]){"kmem:stack,pid", "plain=kmem:kmalloc", NULL});
	fake_session_call(&fs, 0, FAKE_KMALLOC, 33);
	free_object(1);
	alloc_page(2);
	is_u64(events_of("kmem", 100, NULL), 3, "with chains an instance records all events");
	is_u64((uint64_t)chains_of("kmem", fake_session_call_site()), 3,
	       "each has the chain of its call, to where it can be followed");
	is_u64((uint64_t)chains_of("plain", 0), UINT64_MAX, "beside it another one has none");
	is_u64(fake_session_recorded(&fs), 5, "analyses take both for records");
	fake_session_end(&fs);
}

/* What an allocation's entry has seen of the stack is not what its return sees. */
static void test_chain_of_return(void)
{
	struct direct_stack first = {.sp = 0xffff888000003000, .words = {0xffffffff81111111}};
	struct direct_stack second = {.sp = 0xffff888000003000, .words = {0xffffffff81222222}};
	struct probe_hit hit = {.key = 0x1000, .args = {33}, .chain = {&first.sp, 1}};

	begin((const char *const[]){"kmem:kmalloc,stack", NULL});
	fake_session_emit(&fs, find("__kmalloc"), POINT_ENTRY, &hit);
	hit = (struct probe_hit){.key = 0x1000,
				 .result = fake_object(),
				 .slab_cache = fake_cache(),
				 .chain = {&second.sp, 1}};
	fake_session_emit(&fs, find("__kmalloc"), POINT_RETURN, &hit);
	is_u64((uint64_t)chains_of("kmem", second.words[0]), 1,
	       "an allocation has the chain of its return");
	hit = (struct probe_hit){.key = 0x1000, .args = {fake_object()}};
	fake_session_emit(&fs, find("kfree"), POINT_ENTRY, &hit);
	is_u64(events_of("kmem", 0, NULL), 2, "a free whose stack could not be read is recorded");
	is_u64((uint64_t)chains_of("kmem", second.words[0]), 1, "without the chain before it");
	fake_session_end(&fs);
}

/* Traps capture what the instances of a time want. */
static void test_late(void)
{
	struct probe_hit hit = {.key = 0x1000, .args = {33}};
	struct error err = {0};

	begin((const char *const[]){"kmem", NULL});
	free_object(0);
	fake_session_emit(&fs, find("__kmalloc"), POINT_ENTRY, &hit);
	ok(!trace_session_add_instance(fs.session, "c=kmem:pid,comm", &err),
	   "an instance comes later that wants to know the task: %s", err.text);
	hit = (struct probe_hit){
		.key = 0x1000, .result = fake_object(), .slab_cache = fake_cache()};
	fake_session_emit(&fs, find("__kmalloc"), POINT_RETURN, &hit);
	is_u64(events_of("c", 100, "task"), 0, "of a call that was entered before it knows none");
	free_object(1);
	fake_session_call(&fs, 2, FAKE_KMALLOC, 33);
	is_u64(events_of("c", 100, "task"), 2, "it has all others with the task");
	ok(!trace_session_add_instance(fs.session, "d=kmem:pid=101", &err),
	   "so comes one for a task: %s", err.text);
	free_object(0);
	free_object(1);
	is_u64(events_of("d", 0, NULL), 1, "and has that task's");
	ok(!trace_session_add_instance(fs.session, "s=kmem:stack", &err),
	   "and one that wants chains: %s", err.text);
	free_object(1);
	is_u64((uint64_t)chains_of("s", fake_session_call_site()), 1, "which has them");
	ok(!trace_session_remove_instance(fs.session, "c", NULL) &&
		   !trace_session_remove_instance(fs.session, "d", NULL) &&
		   !trace_session_remove_instance(fs.session, "s", NULL),
	   "they go again");
	ok(!find("kfree")->probe->entry.task, "and nothing is captured of tasks any more");
	free_object(1);
	is_u64(events_of("kmem", 0, NULL), 8, "the first one has had all");
	ok(trace_session_add_instance(fs.session, "c=kmem:cgroup", &err) == -ENOENT,
	   "what cannot be captured is refused: %s", err.text);
	fake_session_end(&fs);
}

static void test_refusals(void)
{
	struct error err = {0};

	fake_session_create(&fs);
	ok(start((const char *const[]){"kmem:pid,cgroup", NULL}, &err) == -ENOENT &&
		   !strncmp(err.text, "tasks cannot be recorded: BTF", 29),
	   "what BTF does not lead to is refused: %s", err.text);
	ok(start((const char *const[]){"kmem if pid == 1", NULL}, &err) == -ENOENT,
	   "a filter needs the field: %s", err.text);
	ok(!start((const char *const[]){"kmem:cache", NULL}, NULL), "without, tracing starts");
	fake_session_end(&fs);
}

int main(void)
{
	test_fields();
	test_entry();
	test_filter();
	test_pids();
	test_late();
	test_chains();
	test_chain_of_return();
	test_refusals();
	return tap_done();
}

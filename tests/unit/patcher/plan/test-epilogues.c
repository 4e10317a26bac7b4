/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A function whose `ret` has no room for a patch: it begins in front of it. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "formats/base/clock.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/fake-tasks.h"
#include "tests/lib/tap.h"

enum {
	SLOT = FAKE_KMALLOC + 15, /* mov, mov, ret */
	SLOT_SIZE = 7,
	TASK_GPA = FAKE_HEAP_GPA + 0x180000,
	RIP_AT = FAKE_TASK_LEFT_OFF + 0x100,
	AFTER_MS = 10,
	BOOTED = 2, /* SYSTEM_FREEING_INITMEM or later */
};

static const char *const specs[] = {"kmem:kmalloc", NULL};
static struct fake_session fs;
static struct error err;
static uint64_t task;

/* A guest with traps; `__kmalloc()` returns an object, and code follows its `ret`. */
static void begin(void)
{
	uint64_t at = FAKE_KMALLOC + SITE_SIZE;

	fake_session_create(&fs);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, BOOTED);
	fake_session_list_reserved(&fs);
	at = fake_load_rax(&fs.fg, at, fake_object());
	fake_code(&fs.fg, at, "\x48\x89\xc0\x48\x89\xc0\xc3\x90", SLOT_SIZE + 1);
	fake_session_keep_text(&fs);
	task = fake_task(&fs.fg.base, TASK_GPA);
	fake_list_add(&fs.fg.base, fake_tasks(), task + FAKE_TASK_TASKS);
	err = (struct error){0};
}

static void interrupt_at(uint64_t offset)
{
	fake_task_interrupt(&fs.fg.base, task, RIP_AT, fake_gva(offset));
}

static int start(void)
{
	return trace_session_start(fs.session, specs, &err);
}

static const struct patch *slot(void)
{
	return patch_set_at(&fs.session->plan.returns, fake_gva(SLOT));
}

static bool is_refused(const char *function)
{
	const struct trace_status status = fake_session_status(&fs);

	for (size_t i = 0; i < status.nr_refused; i++)
		if (!strcmp(status.refused[i].function, function))
			return true;
	return false;
}

static void test_traced(void)
{
	begin();
	ok(!start() && !is_refused("__kmalloc"), "a function whose `ret` has no room is traced");
	ok(slot() && slot()->size == SLOT_SIZE && slot()->between,
	   "its patch covers what is in front of the `ret`");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	ok(!memcmp(fake_text(&fs.fg, SLOT + 2), "\x90\x90\x90\x90\x90", 5),
	   "behind the trap are NOPs");
	is_u64(fake_session_recorded(&fs), 1, "a call of it is recorded");
	is_u64(fs.events[0].record.ptr, fake_object(), "its result is what it returned");
	is_u64(fs.fg.vcpus[0].regs.rsp, fake_stack_top(0), "it has returned as without a tracer");
	fake_session_end(&fs);
}

static void test_task_between(void)
{
	begin();
	interrupt_at(SLOT + 3);
	ok(start() == -ETXTBSY && strstr(err.text, "inside code that a patch is to replace"),
	   "a task that stays between the instructions keeps tracing off: %s", err.text);
	ok(fake_session_text_same(&fs), "the text is as it was");
	interrupt_at(SLOT);
	ok(!start(), "one that is in front of them does not");
	fake_session_end(&fs);

	begin();
	interrupt_at(SLOT + SLOT_SIZE);
	ok(!start(), "nor one behind them");
	fake_session_end(&fs);
}

/* What the guest does after a moment. */
static void *move_on(void *arg)
{
	(void)arg;
	clock_wait_ms(AFTER_MS);
	pthread_mutex_lock(&fs.fg.gate);
	interrupt_at(FAKE_KFREE);
	pthread_mutex_unlock(&fs.fg.gate);
	return NULL;
}

static void test_task_leaves(void)
{
	pthread_t thread;

	begin();
	interrupt_at(SLOT + 6);
	if (pthread_create(&thread, NULL, move_on, NULL))
		return;
	ok(!start(), "tracing begins when a task between them has moved on");
	pthread_join(thread, NULL);
	fake_session_end(&fs);
}

static void test_vcpu_between(void)
{
	begin();
	fs.fg.vcpus[1].regs.rip = fake_gva(SLOT + 3);
	ok(start() < 0, "a vCPU between the instructions keeps tracing off, too");
	fake_session_destroy(&fs);
}

/* Traps that were taken out, and come in again. */
static void test_put_back(void)
{
	const struct trace_options options = {.max_rate = 1};

	begin();
	trace_session_set_options(fs.session, &options);
	ok(!start(), "tracing begins with a bound on the rate of calls");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	ok(!fs.session->plan.returns.applied, "the traps are taken out");
	interrupt_at(SLOT + 3);
	fs.fg.clock += 2000000000;
	ok(!trace_session_tick(fs.session, NULL) && !fs.session->plan.returns.applied,
	   "a task between the instructions keeps them out");
	interrupt_at(FAKE_KFREE);
	ok(!trace_session_tick(fs.session, NULL) && fs.session->plan.returns.applied,
	   "they are back at the next look");
	fake_session_end(&fs);
}

/* The lists of tasks of a guest that boots cannot be read yet; later they are known. */
static void test_put_back_after_boot(void)
{
	const struct trace_options options = {.max_rate = 1};

	begin();
	trace_session_set_options(fs.session, &options);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, 0);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SLAB_STATE, 0);
	ok(!start(), "tracing begins in a guest that boots");
	memset(&fs.session->stacks, 0, sizeof(fs.session->stacks));
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, BOOTED);
	fs.fg.clock += 2000000000;
	ok(!trace_session_tick(fs.session, NULL) && fs.session->plan.returns.applied &&
		   fs.session->stacks.first,
	   "traps that come back later find its tasks");
	fake_session_end(&fs);
}

/* Its lists of tasks cannot be read yet. */
static void test_booting(void)
{
	begin();
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, 0);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SLAB_STATE, 0);
	interrupt_at(SLOT + 3);
	ok(!start() && slot(), "a kernel that boots has no tasks to look for");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 100);
	is_u64(fake_session_recorded(&fs), 1, "its calls are recorded");
	fake_session_end(&fs);
}

int main(void)
{
	test_traced();
	test_task_between();
	test_task_leaves();
	test_vcpu_between();
	test_booting();
	test_put_back();
	test_put_back_after_boot();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When a guest has left code that was mapped beside its kernel, on the fake guest. */
#include "introspect/tasks/quiesce.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "introspect/kernel/scratch-mapping.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/fake-tasks.h"
#include "tests/lib/tap.h"

enum {
	CODE_BYTES = KERNEL_MAP_CHUNK,
	TASK_GPA = FAKE_HEAP_GPA + 0x180000,
	PATIENCE_MS = 20000,
	SOON_MS = 300,
	JUDGE_MS = 100, /* less than SOON_MS */
	AFTER_MS = 40,
	KERNEL_IF = 1 << 9,
};

static struct fake_session fs;
static struct scratch_mapping mapping;
static struct task_stacks tasks;
static struct quiesce_policy policy;
static struct quiesce quiesce;
static struct error why;
static uint64_t task;
static bool held;

/* The guest is stopped, the code mapped, one task elsewhere, and all vCPUs idle. The policy is that
 * of a recovery. */
static void begin(void)
{
	struct scratch_part code = {.size = CODE_BYTES, .executable = true};
	struct guest_region memory;

	fake_session_create(&fs);
	task = fake_task(&fs.fg.base, TASK_GPA);
	fake_list_add(&fs.fg.base, fake_tasks(), task + FAKE_TASK_TASKS);
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	held = true;
	if (fs.fg.guest.scratch->add(&fs.fg.guest, CODE_BYTES, &memory, NULL) ||
	    scratch_mapping_create(&fs.fg.kernel, &memory, &code, 1, &mapping, NULL) ||
	    task_stacks_init(&fs.fg.kernel, &tasks, NULL))
		abort();
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.cr3 = tasks.root;
	policy = (struct quiesce_policy){.tasks = &tasks,
					 .gpa = memory.gpa,
					 .size = CODE_BYTES,
					 .noted = true,
					 .scan_running = true,
					 .report_tasks = true,
					 .judge_stacks_ms = JUDGE_MS};
	why = (struct error){0};
}

static void end(void)
{
	if (held)
		fs.fg.guest.control->resume(&fs.fg.guest, NULL);
	fake_session_destroy(&fs);
}

static int wait_for(unsigned int ms)
{
	if (quiesce_begin(&quiesce, &fs.fg.guest, &policy, NULL))
		abort();
	return quiesce_wait(&quiesce, ms, &held, &why);
}

/* One look, with the policy of a session. */
static int check(void)
{
	policy = (struct quiesce_policy){.tasks = &tasks, .gva = mapping.gva, .size = CODE_BYTES};
	if (quiesce_begin(&quiesce, &fs.fg.guest, &policy, NULL))
		abort();
	return quiesce_check(&quiesce, &why);
}

static bool says(const char *text)
{
	return strstr(why.text, text);
}

static void preempt(void)
{
	fake_task_interrupt(&fs.fg.base, task, 0x3f00, mapping.gva + 4);
}

/* What the guest does after a moment, while it runs. */
static void *continue_task(void *arg)
{
	const struct timespec moment = {.tv_nsec = AFTER_MS * 1000000};

	(void)arg;
	nanosleep(&moment, NULL);
	pthread_mutex_lock(&fs.fg.gate);
	fake_task_interrupt(&fs.fg.base, task, 0x3f00, fake_gva(FAKE_KFREE));
	pthread_mutex_unlock(&fs.fg.gate);
	return NULL;
}

static void test_nobody(void)
{
	begin();
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "a guest with idle vCPUs has left the code");
	ok(held && fs.fg.stops == 1, "idle vCPUs are seen without letting the guest run");
	ok(!quiesce.met_task, "no task inside is reported where none was");
	end();
}

static void test_task(void)
{
	pthread_t thread;

	begin();
	preempt();
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "a task that was preempted inside and stays there keeps the guest inside");
	ok(says("a task was preempted"), "the error names the task: %s", why.text);
	ok(held && fs.fg.stops == 2, "the guest is not stopped in vain while it waits");
	pthread_create(&thread, NULL, continue_task, NULL);
	is_u64((uint64_t)-wait_for(PATIENCE_MS), 0, "when the task continues, the guest is out");
	pthread_join(thread, NULL);
	ok(held && quiesce.met_task, "the guest is stopped then, and the task is reported");
	end();
}

static void test_paused(void)
{
	begin();
	preempt();
	policy.paused = true;
	is_u64((uint64_t)-wait_for(PATIENCE_MS), EBUSY,
	       "in a paused guest a preempted task is not waited for");
	ok(held && fs.fg.stops == 1, "a paused guest is not let run");
	end();
}

/* vCPU 1 is in the kernel at every stop, on the stack of the task. */
static void set_busy(uint64_t rip)
{
	struct fake_vcpu *vcpu = &fs.fg.vcpus[1];

	vcpu->sregs.halted = false;
	vcpu->regs.rip = rip;
	vcpu->regs.rflags = KERNEL_IF;
	vcpu->regs.rsp = fake_task_stack(&fs.fg.base, task, 0x2000);
	fake_write64(&fs.fg.base, task + FAKE_TASK_ON_CPU, 1);
}

static void test_busy_vcpu(void)
{
	begin();
	set_busy(mapping.gva + 0x100);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a vCPU that stays inside is inside");
	ok(says("vCPU 1 may still be"), "the error names the vCPU: %s", why.text);
	end();
	begin();
	set_busy(fake_gva(FAKE_KFREE));
	fs.fg.vcpus[1].regs.rsp = fake_task_stack(&fs.fg.base, task, 0x800);
	fake_task_interrupt(&fs.fg.base, task, 0x1000, mapping.gva);
	fake_list_remove(&fs.fg.base, task + FAKE_TASK_TASKS);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "a vCPU that serves an interrupt from inside is inside, on a stack of no task");
	end();
	begin();
	set_busy(fake_gva(FAKE_KFREE));
	is_u64((uint64_t)-wait_for(SOON_MS), 0,
	       "a vCPU that does kernel work elsewhere is judged by its stack");
	ok(fs.fg.stops > 1, "a vCPU has time to be seen outside before its stack is judged");
	end();
	begin();
	set_busy(fake_gva(FAKE_KFREE));
	policy.judge_stacks_ms = 0;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "by default a vCPU that does kernel work elsewhere is waited for");
	is_u64((uint64_t)-wait_for(2 * QUIESCE_JUDGE_MS), 0,
	       "by default its stack is judged, too, after a while");
	set_busy(mapping.gva + 0x100);
	is_u64((uint64_t)-wait_for(2 * QUIESCE_JUDGE_MS), EBUSY,
	       "by default a vCPU that stays inside is inside");
	end();
}

/* The vCPU was outside, and then continued the task. */
static void go_inside(struct fake_guest *fg)
{
	if (fg->stops == 2)
		set_busy(mapping.gva);
}

static void test_comes_back(void)
{
	begin();
	preempt();
	policy.scan_running = false; /* else the task is seen before the next stop */
	fs.fg.on_stop = go_inside;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "a vCPU that was outside and is inside again is inside");
	ok(says("vCPU 1 may still be"), "the error names the vCPU: %s", why.text);
	end();
}

static void set_long_mode(bool on)
{
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.efer = on ? 1 << 10 : 0;
}

static void come_back(struct fake_guest *fg)
{
	set_long_mode(fg->stops > 1);
}

/* All of the noted kernel may still lie in memory, but the firmware runs, or another kernel. */
static void test_reset(void)
{
	begin();
	preempt();
	set_long_mode(false);
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "a guest in its firmware has left the code");
	ok(held && fs.fg.stops == 2, "the firmware is seen twice before that counts");
	end();
	begin();
	preempt();
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.cr3 = FAKE_HEAP_GPA;
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "a guest that runs another kernel is out");
	end();
	begin();
	preempt();
	set_long_mode(false);
	fs.fg.on_stop = come_back;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a moment in the firmware does not count");
	end();
	begin();
	preempt();
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.cr3 = i ? FAKE_HEAP_GPA : tasks.root;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "one vCPU in the noted kernel is enough for it to run");
	end();
}

/* Another kernel, or none, lies where the noted one was. */
static void test_no_tables(void)
{
	begin();
	preempt();
	tasks.first = 0xffffffffd0000000;
	is_u64((uint64_t)-wait_for(SOON_MS), 0,
	       "a kernel whose tables do not map its first task is gone, and what was in it, too");
	end();
}

static void test_unreadable(void)
{
	begin();
	preempt();
	fs.fg.mute = true;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "without registers it is not known which kernel runs");
	ok(says("cannot be read"), "the error says why: %s", why.text);
	end();
	begin();
	preempt();
	policy.paused = true;
	fs.fg.mute = true;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "without registers of a paused guest it is not known either");
	end();
}

static void test_damage(void)
{
	begin();
	policy.gpa += CODE_BYTES;
	is_u64((uint64_t)-wait_for(SOON_MS), EPROTO, "memory that nothing maps is an error");
	end();
	begin();
	fake_write64(&fs.fg.base, task + FAKE_TASK_SIGNAL, 0);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "a damaged task means that the guest is inside");
	end();
	begin();
	fake_write64(&fs.fg.base, task + FAKE_TASK_TASKS, task + FAKE_TASK_TASKS);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "a damaged list of tasks means that the guest is inside");
	ok(says("tasks cannot be searched"), "the error says why: %s", why.text);
	end();
}

/* A session knows the kernel from its image, and looks at one stop of many. */
static void test_session(void)
{
	begin();
	is_u64((uint64_t)-check(), 0, "one look finds no task inside");
	preempt();
	is_u64((uint64_t)-check(), EBUSY, "one look finds a task that was preempted inside");
	ok(says("a task was preempted"), "the error names the task: %s", why.text);
	fake_task_interrupt(&fs.fg.base, task, 0x3f00, fake_gva(FAKE_KFREE));
	set_busy(fake_gva(FAKE_KFREE));
	is_u64((uint64_t)-check(), EBUSY,
	       "a vCPU in the kernel that was never seen outside counts as inside");
	fs.fg.vcpus[1].sregs.halted = true;
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), 0,
	       "a vCPU counts as outside when it has been idle");
	fs.fg.vcpus[1].sregs.halted = false;
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), 0,
	       "a vCPU that has been idle counts as outside in the kernel, too");
	fs.fg.vcpus[1].regs.rip = mapping.gva;
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), EBUSY,
	       "a vCPU that has been idle counts as inside when its RIP is in the code");
	fs.fg.guest.nr_vcpus = QUIESCE_MAX_VCPUS + 1;
	is_u64((uint64_t)-quiesce_begin(&quiesce, &fs.fg.guest, &policy, NULL), E2BIG,
	       "more vCPUs than there is room for are refused");
	fs.fg.guest.nr_vcpus = FAKE_VCPUS;
	end();
}

/* vCPU 1 is in an NMI, which came somewhere in the kernel. */
static void set_nmi(void)
{
	set_busy(fake_gva(FAKE_KFREE));
	fs.fg.vcpus[1].regs.rsp = 0xfffffe0000003f00;
	fs.fg.vcpus[1].regs.rflags = 0;
}

/* A jump into the code stays until the memory goes: what sleeps comes by there again. */
static void test_may_enter(void)
{
	begin();
	is_u64((uint64_t)-check(), 0, "all vCPUs are outside");
	set_nmi();
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), 0,
	       "if no task can come into the code, an NMI has come elsewhere");
	quiesce.policy.may_enter = true;
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), EBUSY,
	       "if one can, the NMI may have come in the code");
	set_busy(fake_gva(FAKE_KFREE));
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), 0,
	       "a vCPU in the kernel is outside, as its stack shows");
	fs.fg.vcpus[1].regs.rsp = fake_task_stack(&fs.fg.base, task, 0x800);
	fake_task_interrupt(&fs.fg.base, task, 0x1000, mapping.gva);
	fake_list_remove(&fs.fg.base, task + FAKE_TASK_TASKS);
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), EBUSY,
	       "one that serves an interrupt from inside is not");
	fs.fg.vcpus[1].sregs.halted = true;
	fs.fg.vcpus[1].regs.rsp = fake_task_stack(&fs.fg.base, task, 0x2000);
	is_u64((uint64_t)-quiesce_check(&quiesce, NULL), 0, "one that is idle is outside");
	end();
}

int main(void)
{
	test_nobody();
	test_task();
	test_paused();
	test_busy_vcpu();
	test_comes_back();
	test_reset();
	test_no_tables();
	test_unreadable();
	test_damage();
	test_session();
	test_may_enter();
	return tap_done();
}

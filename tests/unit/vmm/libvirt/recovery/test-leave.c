/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When a guest is out of memory that a dead tracer had in it, on the fake guest. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "introspect/kernel/scratch-mapping.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/fake-tasks.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/recovery/leave.h"
#include "vmm/libvirt/backend/shmem.h"

enum {
	TASK_GPA = FAKE_HEAP_GPA + 0x180000,
	PATIENCE_MS = 20000,
	SOON_MS = 300, /* more than what is waited for a vCPU that does not show itself outside */
	AFTER_MS = 40,
	KERNEL_IF = 1 << 9,
};

static struct fake_session fs;
static struct scratch_mapping mapping;
static struct task_stacks tasks;
static struct libvirt_leave leave;
static struct error why;
static uint64_t task;
static bool held;

/* Stopped, mapped, with a task that is elsewhere and CPUs that are idle. */
static void begin(void)
{
	struct scratch_part code = {.size = LIBVIRT_SHMEM_BYTES, .executable = true};
	struct guest_region memory;

	fake_session_create(&fs);
	task = fake_task(&fs.fg.base, TASK_GPA);
	fake_list_add(&fs.fg.base, fake_tasks(), task + FAKE_TASK_TASKS);
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	if (fs.fg.guest.scratch->add(&fs.fg.guest, LIBVIRT_SHMEM_BYTES, &memory, NULL) ||
	    scratch_mapping_create(&fs.fg.kernel, &memory, &code, 1, &mapping, NULL) ||
	    task_stacks_init(&fs.fg.kernel, &tasks, NULL))
		abort();
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.cr3 = tasks.root;
	leave = (struct libvirt_leave){.guest = &fs.fg.guest, .tasks = &tasks, .gpa = memory.gpa};
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
	return libvirt_leave_wait(&leave, ms, &held, &why);
}

static bool says(const char *text)
{
	return strstr(why.text, text);
}

static void preempt(void)
{
	fake_task_interrupt(&fs.fg.base, task, 0x3f00, mapping.gva + 4);
}

/* Of what others do to the guest after a moment. */
static void *go_on(void *arg)
{
	const struct timespec moment = {.tv_nsec = AFTER_MS * 1000000};

	(void)arg;
	nanosleep(&moment, NULL);
	fake_task_interrupt(&fs.fg.base, task, 0x3f00, fake_gva(FAKE_KFREE));
	return NULL;
}

static void test_nobody(void)
{
	begin();
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "nobody is inside");
	ok(held && fs.fg.stops == 1, "which is seen without letting the guest run");
	end();
}

static void test_task(void)
{
	pthread_t thread;

	begin();
	preempt();
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a task that was preempted inside and stays");
	ok(says("a task was preempted"), "is told: %s", why.text);
	ok(held && fs.fg.stops == 2, "and waited for without stopping the guest");
	pthread_create(&thread, NULL, go_on, NULL);
	is_u64((uint64_t)-wait_for(PATIENCE_MS), 0, "until it goes on");
	pthread_join(thread, NULL);
	ok(held, "the guest is stopped then");
	end();
}

static void test_paused(void)
{
	begin();
	preempt();
	leave.paused = true;
	is_u64((uint64_t)-wait_for(PATIENCE_MS), EBUSY, "in a paused domain it is not waited for");
	ok(held && fs.fg.stops == 1, "nor is that let run");
	end();
}

/* In the kernel whenever it is looked at, on the stack of the task. */
static void set_busy(uint64_t rip)
{
	struct fake_vcpu *vcpu = &fs.fg.vcpus[1];

	vcpu->sregs.halted = false;
	vcpu->regs.rip = rip;
	vcpu->regs.rflags = KERNEL_IF;
	vcpu->regs.rsp = fake_task_stack(&fs.fg.base, task, 0x2000);
	fake_write64(&fs.fg.base, task + FAKE_TASK_ON_CPU, 1);
}

static void test_vcpu(void)
{
	begin();
	set_busy(mapping.gva + 0x100);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a vCPU that stays inside");
	ok(says("a vCPU may still be"), "is told: %s", why.text);
	end();
	begin();
	set_busy(fake_gva(FAKE_KFREE));
	fs.fg.vcpus[1].regs.rsp = fake_task_stack(&fs.fg.base, task, 0x800);
	fake_task_interrupt(&fs.fg.base, task, 0x1000, mapping.gva);
	fake_list_remove(&fs.fg.base, task + FAKE_TASK_TASKS);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY,
	       "one that serves an interrupt that came inside, on a stack of no task");
	end();
	begin();
	set_busy(fake_gva(FAKE_KFREE));
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "one that does nothing but kernel work elsewhere");
	ok(fs.fg.stops > 1, "was given some time to show itself outside");
	end();
}

/* It was outside, and then went on with the task. */
static void go_inside(struct fake_guest *fg)
{
	if (fg->stops == 2)
		set_busy(mapping.gva);
}

static void test_comes_back(void)
{
	begin();
	preempt();
	leave.slow = true; /* or it is seen before the next stop that the task still is there */
	fs.fg.on_stop = go_inside;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a vCPU that was outside, and is inside again");
	ok(says("a vCPU may still be"), "is told: %s", why.text);
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

/* All of the old guest may still lie in memory, but the firmware runs, or another kernel. */
static void test_reset(void)
{
	begin();
	preempt();
	set_long_mode(false);
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "after a reset nobody is inside");
	ok(held && fs.fg.stops == 2, "which is looked at twice");
	end();
	begin();
	preempt();
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.cr3 = FAKE_HEAP_GPA;
	is_u64((uint64_t)-wait_for(SOON_MS), 0, "nor when another kernel runs");
	end();
	begin();
	preempt();
	set_long_mode(false);
	fs.fg.on_stop = come_back;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "not so after a moment in the firmware");
	end();
	begin();
	preempt();
	for (unsigned int i = 0; i < FAKE_VCPUS; i++)
		fs.fg.vcpus[i].sregs.cr3 = i ? FAKE_HEAP_GPA : tasks.root;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "one vCPU that is in the kernel will do");
	end();
}

/* Not being told is not having left. */
static void test_mute(void)
{
	begin();
	preempt();
	fs.fg.mute = true;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "which kernel runs is not known");
	ok(says("cannot be read"), "is told: %s", why.text);
	end();
	begin();
	preempt();
	leave.paused = true;
	fs.fg.mute = true;
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "nor while it is paused");
	end();
}

static void test_damage(void)
{
	begin();
	leave.gpa += LIBVIRT_SHMEM_BYTES;
	is_u64((uint64_t)-wait_for(SOON_MS), EPROTO, "memory that is mapped nowhere");
	end();
	begin();
	fake_write64(&fs.fg.base, task + FAKE_TASK_SIGNAL, 0);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a task that is none");
	end();
	begin();
	fake_write64(&fs.fg.base, task + FAKE_TASK_TASKS, task + FAKE_TASK_TASKS);
	is_u64((uint64_t)-wait_for(SOON_MS), EBUSY, "a list of tasks that is damaged");
	ok(says("cannot be looked through"), "is told: %s", why.text);
	end();
}

int main(void)
{
	test_nobody();
	test_task();
	test_paused();
	test_vcpu();
	test_comes_back();
	test_reset();
	test_mute();
	test_damage();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a recovery does to a domain whose vCPUs the dead tracer has left in a state of their own:
 * with page tables that one has borrowed, or inside the trampolines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-int3.h"
#include "tests/lib/tap.h"
#include "tests/unit/vmm/libvirt/recovery/recover-fixture.h"

enum {
	KERNEL_CR3 = 0x10000,
	USER_CR3 = KERNEL_CR3 | 0x1000, /* page table isolation */
	TABLES = 0x12000,
	FIRST_TASK = 0x40000,
	TEXT = 0x50000,
	SLOT = 0x51000, /* stands for the entry of a page table that maps the trampolines */
	KERNEL_CS = 0x10,
	USER_CS = 0x33,
	USED = 4096, /* offset of a byte in the device's memory */
};

static const uint64_t first_task = 0xffffffff81000000, trampolines = 0xffffffff90000000;

static uint8_t *device;

static void test_loan(void)
{
	const struct journal_loan loan = {.vcpu = 1, .cr3 = USER_CR3, .lent = KERNEL_CR3};

	begin();
	fake_qemu_be_kvm(qemu, KERNEL_CR3, USER_CS);
	if (libvirt_journal_lend(&journal, &loan, NULL))
		abort();
	ok(!recover(false) && fake_qemu_runs(qemu), "a domain with a loan is recovered");
	ok(fake_qemu_cr3(qemu, 1) == USER_CR3 && fake_qemu_cr3(qemu, 0) == KERNEL_CR3,
	   "the vCPU that had borrowed page tables has its own back, and no other has them");
	end();
	begin();
	fake_qemu_be_kvm(qemu, KERNEL_CR3, USER_CS);
	ok(!recover(false) && fake_qemu_cr3(qemu, 1) == KERNEL_CR3,
	   "without a loan no vCPU gets other page tables");
	end();
}

/* Trampolines are in the device's memory, which the guest's kernel maps if `mapped`. Returns where
 * its next page table may be. */
static uint64_t begin_with(const struct task_stacks *tasks, bool mapped)
{
	struct fake_memory memory;
	uint64_t next = TABLES;

	begin();
	memory = (struct fake_memory){fake_qemu_ram(qemu), FAKE_QEMU_RAM};
	device = fake_qemu_plug(qemu);
	device[USED] = 1;
	fake_map(&memory, KERNEL_CR3, first_task, FIRST_TASK, &next);
	if (mapped)
		fake_map(&memory, KERNEL_CR3, trampolines, FAKE_DEVICE_GPA, &next);
	fake_qemu_be_kvm(qemu, KERNEL_CR3, KERNEL_CS);
	if (libvirt_journal_tasks(&journal, tasks, NULL))
		abort();
	write_ours(TEXT, "guest", "trace", 5);
	write_ours(SLOT, "\0\0\0\0\0\0\0\0", "pmdentry", 8);
	return next;
}

static void begin_traced(bool mapped)
{
	const struct task_stacks tasks = {.root = KERNEL_CR3,
					  .first = first_task,
					  .levels = 4,
					  .stack_bytes = TASK_STACK_BYTES};

	begin_with(&tasks, mapped);
}

/* A process of one thread, which does not run; the kernel has KASAN. Offsets are in its page. */
enum {
	TASK_PAGE = 0x60000,
	STACK = 0x68000,
	STACK_BYTES = 2 * TASK_STACK_BYTES,
	LEFT_OFF = 0x5000,  /* its saved stack pointer, on its stack */
	PREEMPTED = 0x6000, /* the pt_regs' ip, likewise */
	TASKS = 0x10,       /* links of all processes */
	SIGNAL = 0x20,      /* pointer to the struct signal_struct ... */
	SIGNAL_AT = 0x400,  /* ... which is there */
	THREADS = 0x30,     /* the list in it */
	THREAD = 0x40,      /* links of that */
	STACK_AT = 0x50,
	SP = 0x58,
};

static const uint64_t task = 0xffffffff82000000, stack = 0xffffffff83000000;

static void put(uint64_t gpa, uint64_t value)
{
	memcpy(fake_qemu_ram(qemu) + gpa, &value, sizeof(value));
}

/* Two nodes of a list, each at an offset of a page. */
static void put_ring(uint64_t a_gpa, uint64_t a, uint64_t b_gpa, uint64_t b)
{
	put(a_gpa, b);
	put(a_gpa + 8, b);
	put(b_gpa, a);
	put(b_gpa + 8, a);
}

static void begin_preempted(uint64_t ip)
{
	const struct task_stacks tasks = {.root = KERNEL_CR3,
					  .first = first_task,
					  .levels = 4,
					  .tasks = TASKS,
					  .signal = SIGNAL,
					  .threads = THREADS,
					  .thread = THREAD,
					  .stack = STACK_AT,
					  .sp = SP,
					  .stack_bytes = STACK_BYTES};
	const uint64_t signal = task + SIGNAL_AT;
	uint64_t next = begin_with(&tasks, true);
	struct fake_memory memory = {fake_qemu_ram(qemu), FAKE_QEMU_RAM};

	fake_map(&memory, KERNEL_CR3, task, TASK_PAGE, &next);
	for (uint64_t at = 0; at < STACK_BYTES; at += 4096)
		fake_map(&memory, KERNEL_CR3, stack + at, STACK + at, &next);
	put_ring(FIRST_TASK + TASKS, first_task + TASKS, TASK_PAGE + TASKS, task + TASKS);
	put(TASK_PAGE + SIGNAL, signal);
	put_ring(TASK_PAGE + SIGNAL_AT + THREADS, signal + THREADS, TASK_PAGE + THREAD,
		 task + THREAD);
	put(TASK_PAGE + STACK_AT, stack);
	put(TASK_PAGE + SP, stack + LEFT_OFF);
	put(STACK + PREEMPTED, ip);
	put(STACK + PREEMPTED + 8, KERNEL_CS);
}

static bool keeps_device(void)
{
	return holds(TEXT, "guest") && holds(SLOT, "pmdentry") && device[USED] &&
	       fake_qemu_has_device(qemu);
}

static void test_inside(void)
{
	static const char text[] = "the guest has its own code back and is paused, but the memory "
				   "device has to stay: vCPU 1 ";

	begin_traced(true);
	fake_qemu_reach(qemu, 1, trampolines + USED);
	fake_qemu_suspend(qemu);
	ok(recover(false) == -EBUSY && strstr(why.text, text),
	   "a suspended domain with a vCPU in the trampolines is not recovered: %s", why.text);
	ok(keeps_device() && !fake_qemu_runs(qemu),
	   "it has its own text, keeps the trampolines, and stays suspended");
	end();
}

static void test_large_stack(void)
{
	begin_preempted(trampolines + USED);
	fake_qemu_suspend(qemu);
	ok(recover(false) == -EBUSY && strstr(why.text, "a task was preempted"),
	   "a task whose stack of 32 KiB leads back to the device from its upper half: %s",
	   why.text);
	ok(keeps_device() && !fake_qemu_runs(qemu), "the device's memory stays");
	end();
	begin_preempted(first_task);
	ok(!recover(false) && holds(TEXT, "guest") && !fake_qemu_has_device(qemu),
	   "if it leads elsewhere, the device is taken away: %s", why.text);
	end();
}

static void test_misfit(void)
{
	begin_traced(false);
	ok(recover(false) == -EPROTO && strstr(why.text, "the journal does not fit the guest: "),
	   "a journal of trampolines that the guest does not map is refused: %s", why.text);
	ok(keeps_device() && fake_qemu_runs(qemu), "the guest runs, and keeps what may be used");
	end();
}

/* Where the device's memory is decides whether a vCPU may be in it. It is asked for when the memory
 * is opened, too. */
static void test_unknown_place(void)
{
	static const char text[] = "the guest has its own code back, but its memory device was not "
				   "found: query-pci: ";

	for (unsigned int answers = 0; answers < 2; answers++) {
		begin_traced(true);
		fake_qemu_refuse(qemu, "query-pci", answers);
		ok(recover(false) == -EREMOTEIO && strstr(why.text, text),
		   "QEMU says where the device is %u times, and then refuses: %s", answers,
		   why.text);
		ok(keeps_device() && fake_qemu_runs(qemu),
		   "the guest has its own text and runs, but keeps the device, mapped");
		end();
	}
}

/* How RAM is read without the gdbstub, and how many vCPUs may come. */
static void test_no_answers(void)
{
	static const char *const commands[] = {"gpa2hva", "query-hotpluggable-cpus"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		begin();
		write_ours(TEXT, "guest", "trace", 5);
		fake_qemu_refuse(qemu, commands[i], 0);
		ok(!recover(false) && holds(TEXT, "guest") && fake_qemu_runs(qemu),
		   "a domain whose QEMU refuses %s is recovered: %s", commands[i], why.text);
		end();
	}
}

static void test_unmapped(void)
{
	begin_traced(true);
	fake_qemu_unmap(qemu);
	ok(!recover(false) && holds(TEXT, "guest") && !holds(SLOT, "pmdentry") &&
		   !fake_qemu_has_device(qemu) && fake_qemu_runs(qemu),
	   "a device that the guest itself has taken out of its memory is plugged out: %s",
	   why.text);
	end();
}

int main(int argc, char **argv)
{
	set_up_tests(argc, argv);
	test_loan();
	test_inside();
	test_large_stack();
	test_misfit();
	test_unknown_place();
	test_no_answers();
	test_unmapped();
	return end_tests();
}

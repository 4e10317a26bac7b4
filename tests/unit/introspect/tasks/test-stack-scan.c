/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tasks that were preempted somewhere, in lists that may be damaged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/tasks/stack-scan.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/fake-tasks.h"
#include "tests/lib/tap.h"

#define OURS 0xffffffff95200000ull
enum { SIZE = 2 << 20, TASKS = FAKE_HEAP_GPA + 0x180000, NR_TASKS = 3 };

static const struct code_span ours = {.gva = OURS, .size = SIZE};
static struct fake_session fs;
static struct fake_kernel *k;
static struct task_stacks stacks;
static uint64_t tasks[NR_TASKS]; /* processes, in the list */

static void begin(void)
{
	fake_session_create(&fs);
	k = &fs.fg.base;
	if (task_stacks_init(&fs.fg.kernel, &stacks, NULL))
		abort();
	for (uint64_t i = 0; i < NR_TASKS; i++) {
		tasks[i] = fake_task(k, TASKS + i * FAKE_TASK_BYTES);
		fake_list_add(k, fake_tasks(), tasks[i] + FAKE_TASK_TASKS);
	}
}

static void end(void)
{
	fake_session_destroy(&fs);
}

/* -errno, or whether there is one. */
static int look(void)
{
	bool found = false;
	int ret = task_stacks_find(&fs.fg.guest, &stacks, &ours, &found, NULL);

	return ret ? ret : found;
}

static void test_stacks(void)
{
	begin();
	ok(task_stacks_valid(&stacks) && stacks.cpus == FAKE_VCPUS,
	   "all facts about the kernel are found");
	ok(look() == 0, "no task was interrupted in the range");
	fake_task_interrupt(k, tasks[2], 0x3f00, OURS + SIZE - 1);
	ok(look() == 1, "a task that was interrupted at the last byte is found");
	fake_task_interrupt(k, tasks[2], 0x3f00, OURS + SIZE);
	ok(look() == 0, "a task that was interrupted behind the range is not found");
	fake_task_interrupt(k, tasks[2], 0x3f00, OURS - 1);
	ok(look() == 0, "a task that was interrupted before the range is not found");
	fake_task_interrupt(k, tasks[0], FAKE_TASK_LEFT_OFF - 16, OURS);
	ok(look() == 0, "words below the stack pointer of a task that does not run are old");
	fake_write64(k, tasks[0] + FAKE_TASK_ON_CPU, 1);
	ok(look() == 1, "all words on the stack of a running task count");
	stacks.on_cpu = 0;
	ok(look() == 0, "words below the stack pointer are old if the kernel is for one CPU");
	ok(task_stacks_valid(&stacks), "a kernel for one CPU has valid facts");
	end();
}

static void test_large_stacks(void)
{
	begin();
	is_u64(stacks.stack_bytes, TASK_STACK_BYTES,
	       "stacks have 16 KiB unless the image shows it");
	fake_write64(k, tasks[1] + FAKE_TASK_SP, fake_task_stack(k, tasks[1], 0x4800));
	fake_task_interrupt(k, tasks[1], 0x5000, OURS);
	ok(look() == 0, "words beyond 16 KiB belong to something else");
	stacks.stack_bytes = 2 * TASK_STACK_BYTES;
	ok(look() == 1, "and to the stack if that is larger");
	stacks.stack_bytes = 12345;
	ok(!task_stacks_valid(&stacks), "no stack has another size than a power of two");
	end();
}

static void is_size(const char *map, uint32_t bytes, const char *label)
{
	struct kernel_image image = {0};

	if (symbols_from_system_map(map, strlen(map), &image.symbols, NULL))
		abort();
	is_u64(task_stack_bytes(&image), bytes, label);
	symbols_destroy(image.symbols);
}

static void test_sizes(void)
{
	is_size("ffffffff82c00000 D __start_init_stack\nffffffff82c08000 D __end_init_stack\n",
		32768, "the first task's stack shows the size of all");
	is_size("ffffffff82c00000 D __start_init_task\nffffffff82c04000 D __end_init_task\n", 16384,
		"it has another name up to 6.9");
	is_size("ffffffff82c00000 D __start_init_stack\nffffffff82c07000 D __end_init_stack\n",
		16384, "a size that cannot be is not believed");
	is_size("ffffffff82c00000 D __start_init_stack\n", 16384, "nor is half of it");
}

static void is_regs(const char *map, uint32_t at, const char *label)
{
	struct kernel_image image = {0};

	if (symbols_from_system_map(map, strlen(map), &image.symbols, NULL))
		abort();
	is_u64(task_user_regs(&image), at, label);
	symbols_destroy(image.symbols);
}

static void test_user_regs(void)
{
	is_regs("ffffffff82c00000 D __start_init_stack\nffffffff82c04000 D __end_init_stack\n"
		"ffffffff82c03f48 D __top_init_kernel_stack\n",
		16384 - 168 - 16, "what user mode leaves is where the first task's would be");
	is_regs("ffffffff82c00000 D __start_init_task\nffffffff82c08000 D __end_init_task\n",
		32768 - 168, "at the end, in kernels that do not say where");
	is_regs("ffffffff82c00000 D __start_init_stack\nffffffff82c04000 D __end_init_stack\n"
		"ffffffff82c02000 D __top_init_kernel_stack\n",
		16384 - 168, "a place that cannot be is not believed");
}

/* A pt_regs begins on one page of a stack and goes on on the next one. */
static void test_pages(void)
{
	begin();
	fake_write64(k, tasks[1] + FAKE_TASK_SP, fake_task_stack(k, tasks[1], 0x2ffd));
	fake_task_interrupt(k, tasks[1], 0x2ff8, OURS);
	ok(look() == 1, "a pt_regs across two pages is found from a misaligned stack pointer");
	ok(task_stacks_scan(&fs.fg.guest, &stacks, fake_task_stack(k, tasks[1], 0x2ff8), &ours),
	   "a pt_regs is found on a single stack");
	ok(!task_stacks_scan(&fs.fg.guest, &stacks, fake_task_stack(k, tasks[1], 0x3000), &ours),
	   "a pt_regs below the stack pointer of a single stack is not found");
	ok(!task_stacks_scan(&fs.fg.guest, &stacks, 0x1000, &ours),
	   "nothing is found on a stack in user space");
	end();
}

/* A vCPU serves an interrupt that came while its idle task ran, which is in no list. */
static void test_interrupt_stack(void)
{
	uint64_t interrupts, idle, sp, top;

	begin();
	interrupts = fake_task(k, TASKS + NR_TASKS * FAKE_TASK_BYTES);
	idle = fake_task(k, TASKS + (NR_TASKS + 2) * FAKE_TASK_BYTES);
	sp = fake_task_stack(k, interrupts, 0x3800);
	top = fake_task_stack(k, interrupts, FAKE_TASK_STACK_BYTES - 8);
	fake_task_interrupt(k, idle, 0x3000, OURS);
	ok(!task_stacks_scan(&fs.fg.guest, &stacks, sp, &ours),
	   "a stack that no other leads to is not scanned");
	fake_write64(k, top, fake_task_stack(k, idle, 0x2f00));
	ok(task_stacks_scan(&fs.fg.guest, &stacks, sp, &ours),
	   "the stack that an interrupt came on is scanned");
	fake_write64(k, top, fake_task_stack(k, idle, 0x3010));
	ok(!task_stacks_scan(&fs.fg.guest, &stacks, sp, &ours),
	   "that stack is scanned from where the interrupt came");
	fake_write64(k, top, fake_task_stack(k, idle, 0));
	fake_write64(k, fake_task_stack(k, idle, FAKE_TASK_STACK_BYTES - 8), sp);
	fake_task_interrupt(k, idle, 0x3000, 0);
	ok(!task_stacks_scan(&fs.fg.guest, &stacks, sp, &ours),
	   "stacks that lead to each other come to an end");
	end();
}

/* A kernel for one CPU: nothing leads to its runqueue. */
static void test_no_runqueues(void)
{
	const struct kernel *kernel = &fs.fg.kernel;
	struct symbol_table **symbols = &k->image.symbols;
	const char *preempt = "T preempt_schedule";
	char map[256];

	begin();
	for (int i = 0; i < 2; i++, preempt = "T preempt_schedule_irq") {
		int n = snprintf(map, sizeof(map),
				 "%016llx T _text\n%016llx %s\n%016llx D init_task\n",
				 FAKE_LINK_TEXT, FAKE_LINK_TEXT + 0x1000, preempt,
				 FAKE_LINK_TEXT + FAKE_BANNER);
		int want = i ? 0 : -ENOTSUP;

		symbols_destroy(*symbols);
		if (symbols_from_system_map(map, (size_t)n, symbols, NULL))
			abort();
		ok(task_stacks_init(kernel, &stacks, NULL) == want,
		   i ? "a kernel without preemption needs no runqueues"
		     : "a kernel with preemption, whose runqueues are not known, is refused");
	}
	end();
}

static void test_threads(void)
{
	uint64_t signal, thread;

	begin();
	signal = fake_read64(k, tasks[0] + FAKE_TASK_SIGNAL);
	thread = fake_task(k, TASKS + NR_TASKS * FAKE_TASK_BYTES);
	fake_task_interrupt(k, thread, 0x3800, OURS);
	ok(look() == 0, "a task in no list is not found");
	fake_list_add(k, signal + FAKE_THREAD_HEAD, thread + FAKE_TASK_THREAD_NODE);
	ok(look() == 1, "a second thread of a process is found");
	end();
}

/* Out of the list, on its last steps, and preempted there. */
static void test_exiting(uint64_t queue, uint64_t node, const char *what)
{
	begin();
	fake_list_remove(k, tasks[1] + FAKE_TASK_TASKS);
	fake_task_interrupt(k, tasks[1], 0x3f00, OURS);
	ok(look() == 0, "%s: a task that has left all lists is not found", what);
	fake_list_add(k, fake_runqueue(FAKE_VCPUS - 1) + queue, tasks[1] + node);
	ok(look() == 1, "%s: a task on a runqueue is found", what);
	fake_list_remove(k, tasks[1] + node);
	ok(look() == 0, "%s: a task that has left its runqueue is not found", what);
	end();
}

/* A kernel without sched_ext: what lies where others have its list is none. */
static void test_no_ext(void)
{
	begin();
	ok(stacks.ext_tasks == FAKE_RQ_EXT && stacks.ext_task == FAKE_TASK_EXT,
	   "the list of sched_ext's tasks is found");
	for (unsigned int cpu = 0; cpu < FAKE_VCPUS; cpu++)
		fake_write64(k, fake_runqueue(cpu) + FAKE_RQ_EXT, 0);
	ok(look() == -EFAULT || look() == -EINVAL,
	   "a list of theirs that leads nowhere is an error");
	stacks.ext_tasks = stacks.ext_task = 0;
	ok(look() == 0 && task_stacks_valid(&stacks), "where there is none, it is not looked at");
	end();
}

/* A word of the guest's may lie on two pages. */
static void test_links_on_two_pages(void)
{
	const uint64_t links = TASKS + NR_TASKS * FAKE_TASK_BYTES + 0xffc;
	uint64_t task;

	begin();
	task = fake_task(k, links - FAKE_TASK_FAIR);
	/* so that its words are aligned: the stack is not */
	fake_task_interrupt(k, task, 0x3804, OURS);
	fake_list_add(k, fake_runqueue(0) + FAKE_RQ_FAIR, fake_direct(links));
	is_u64((uint64_t)look(), 1, "a task whose links lie on two pages is found");
	end();
}

/* The stack of one that has ended, and still is in the list, is gone. */
static void test_zombie(void)
{
	begin();
	fake_write64(k, tasks[1] + FAKE_TASK_STACK, 0);
	ok(look() == 0, "a zombie without a stack is passed over");
	fake_write64(k, tasks[1] + FAKE_TASK_STACK, 0xffffc90000000000);
	ok(look() == -EFAULT, "a stack that is not mapped is an error");
	end();
}

static void test_damage(void)
{
	uint64_t link;

	begin();
	link = tasks[1] + FAKE_TASK_TASKS;
	fake_write64(k, link, link);
	ok(look() == -EPROTO, "a list whose links do not match is an error");
	fake_write64(k, link, 0xdead000000000100);
	ok(look() == -EINVAL, "a list that leads nowhere is an error");
	end();
	begin();
	fake_write64(k, tasks[0] + FAKE_TASK_SIGNAL, 0);
	ok(look() == -EFAULT, "a task without a struct signal_struct is an error");
	end();
	begin();
	fake_write64(k, fake_runqueue(0) + FAKE_RQ_FAIR, fake_runqueue(1) + FAKE_RQ_FAIR);
	ok(look() == -EPROTO, "a runqueue that leads into another one is an error");
	end();
}

/* More tasks than have room in its memory. */
static void test_long(void)
{
	enum { NODES = 5000, STEP = 64 };
	uint64_t node = fake_direct(TASKS) + NR_TASKS * FAKE_TASK_BYTES;

	begin();
	for (unsigned int i = 0; i < NODES; i++)
		fake_list_add(k, fake_runqueue(0) + FAKE_RQ_FAIR, node + i * STEP);
	ok(look() == -E2BIG, "an endless runqueue is an error");
	end();
}

static void test_valid(void)
{
	struct task_stacks s;

	begin();
	s = stacks;
	s.levels = 3;
	ok(!task_stacks_valid(&s), "facts with page tables of three levels are invalid");
	s = stacks;
	s.root++;
	ok(!task_stacks_valid(&s), "facts with a misaligned root table are invalid");
	s = stacks;
	s.first = 0x1000;
	ok(!task_stacks_valid(&s), "facts with a first task in user space are invalid");
	s = stacks;
	s.rt_task = 1 << 20;
	ok(!task_stacks_valid(&s), "facts with an offset of a MiB are invalid");
	s = stacks;
	s.cpus = 1 << 20;
	ok(!task_stacks_valid(&s), "facts with a million CPUs are invalid");
	s = stacks;
	s.cpu_bases = 0x1000;
	ok(!task_stacks_valid(&s), "facts with the CPUs' bases in user space are invalid");
	s.cpus = 0;
	ok(task_stacks_valid(&s), "bases of no CPUs do not count");
	end();
}

int main(void)
{
	test_stacks();
	test_pages();
	test_interrupt_stack();
	test_large_stacks();
	test_sizes();
	test_user_regs();
	test_no_runqueues();
	test_threads();
	test_exiting(FAKE_RQ_FAIR, FAKE_TASK_FAIR, "fair");
	test_exiting(FAKE_RQ_RT + 99 * 16, FAKE_TASK_RT, "real-time");
	test_exiting(FAKE_RQ_EXT, FAKE_TASK_EXT, "sched_ext");
	test_no_ext();
	test_links_on_two_pages();
	test_zombie();
	test_damage();
	test_long();
	test_valid();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASKS_STACK_SCAN_H
#define SONDE_INTROSPECT_TASKS_STACK_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * What is needed to find the stacks of a kernel's tasks: plain numbers, so that a journal can hold
 * them for a process without the kernel's image. Offsets are in struct task_struct unless another
 * struct is named.
 */
struct task_stacks {
	uint64_t root;        /* gpa of the kernel's own page table */
	uint64_t first;       /* gva of init_task */
	uint64_t cpu_bases;   /* gva of the array __per_cpu_offset */
	uint64_t runqueues;   /* per-CPU variable: add a CPU's base */
	uint32_t levels;      /* of the page tables: 4 or 5 */
	uint32_t cpus;        /* whose runqueues are scanned; 0: not known */
	uint32_t tasks;       /* list of all processes */
	uint32_t signal;      /* pointer to a process's struct signal_struct ... */
	uint32_t threads;     /* ... which has the list of its threads ... */
	uint32_t thread;      /* ... and the links of that list */
	uint32_t stack, sp;   /* its lowest address; the saved stack pointer */
	uint32_t on_cpu;      /* 4 bytes; 0: not known */
	uint32_t fair_tasks;  /* in struct rq: list of all tasks of the fair class ... */
	uint32_t fair_task;   /* ... and the links of that list */
	uint32_t rt_queues;   /* in struct rq: the lists of the real-time class, by priority ... */
	uint32_t rt_task;     /* ... and the links of these; 0: not known */
	uint32_t stack_bytes; /* of each task's stack, a power of two */
	uint32_t ext_tasks;   /* in struct rq: list of the tasks of sched_ext that can run ... */
	uint32_t ext_task;    /* ... and the links of that list; 0: there is none */
};

/*
 * Bytes of each task's stack (THREAD_SIZE), to which it is aligned: what the image reserves for the
 * first task's. 16 KiB, and 32 KiB with KASAN (arch/x86/include/asm/page_64_types.h). 16 KiB if the
 * image does not show it.
 */
enum { TASK_STACK_BYTES = 16384 };
uint32_t task_stack_bytes(const struct kernel_image *image);

/*
 * Where on a task's stack the struct pt_regs is that its user mode has entered the kernel with, in
 * bytes from the lowest address: at the end, but for 16 bytes that kernels with FRED leave free
 * (TOP_OF_KERNEL_STACK_PADDING in arch/x86/include/asm/thread_info.h).
 */
uint32_t task_user_regs(const struct kernel_image *image);

/* -ENOENT: symbols or BTF lack something other than the runqueues. -ENOTSUP: they lack these, and
 * the kernel preempts its tasks. */
int task_stacks_init(const struct kernel *kernel, struct task_stacks *out, struct error *err);
/* Whether numbers that come from a file can be those of a kernel. */
bool task_stacks_valid(const struct task_stacks *stacks);

/* Code in which tasks are looked for: [gva, gva + size), or what is_part() says of it. */
struct code_span {
	uint64_t gva, size;
	bool (*is_part)(const void *arg, uint64_t gva); /* NULL: all of it */
	const void *arg;
};

static inline bool code_span_has(const struct code_span *code, uint64_t gva)
{
	return gva - code->gva < code->size && (!code->is_part || code->is_part(code->arg, gva));
}

/*
 * Whether any task of the guest was interrupted at an instruction of the code: then
 * its kernel stack holds a struct pt_regs with such an `ip`. A task that was preempted there will
 * continue there.
 *
 * Scans the stacks of all tasks in the task list and on the runqueues; exiting tasks are only on
 * the latter. Does not scan stacks of interrupts. *found may be true for old words on the stack of
 * a running task.
 *
 * The answer is reliable only if the guest is stopped by the caller. -EPROTO: a list is damaged.
 * -E2BIG: a list is endless. -EFAULT: a stack is not mapped.
 */
int task_stacks_find(struct guest *guest, const struct task_stacks *stacks,
		     const struct code_span *code, bool *found, struct error *err);

/*
 * The same for a vCPU whose stack pointer is `sp`: its stack from there up to the end, and those
 * that it was on before. The kernel writes to the top of an interrupt's stack where it came from
 * (arch/x86/kernel/unwind_orc.c relies on it). That may be the stack of an idle task, which is in
 * no list.
 */
bool task_stacks_scan(struct guest *guest, const struct task_stacks *stacks, uint64_t sp,
		      const struct code_span *code);

#endif

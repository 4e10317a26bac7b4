/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASKS_STACK_SCAN_H
#define SONDE_INTROSPECT_TASKS_STACK_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * What has to be known of a kernel to find the stacks of its tasks; plain numbers, so that they can
 * be noted for somebody who has no image of it. Offsets are those of members of struct task_struct,
 * if nothing else is said.
 */
struct task_stacks {
	uint64_t root;       /* gpa of the kernel's own page table */
	uint64_t first;      /* gva of init_task */
	uint64_t cpu_bases;  /* gva of the array __per_cpu_offset */
	uint64_t runqueues;  /* per-CPU variable: add a CPU's base */
	uint32_t levels;     /* of the page tables: 4 or 5 */
	uint32_t cpus;       /* whose runqueues are looked at; 0: they cannot be found */
	uint32_t tasks;      /* list of all processes */
	uint32_t signal;     /* pointer to a process's struct signal_struct ... */
	uint32_t threads;    /* ... in which the list of its threads begins ... */
	uint32_t thread;     /* ... and where it goes on in each of them */
	uint32_t stack, sp;  /* its lowest address; where a task left off */
	uint32_t on_cpu;     /* 4 bytes */
	uint32_t fair_tasks; /* in struct rq: list of all tasks of the fair class, and ... */
	uint32_t fair_task;  /* ... where it goes on in each of them */
	uint32_t rt_queues; /* in struct rq: the lists of the real-time class, one a priority ... */
	uint32_t rt_task;   /* ... and where they go on; 0: they cannot be looked at */
};

/* -ENOENT if symbols or BTF lack what is needed; without runqueues it can do. */
int task_stacks_init(const struct kernel *kernel, struct task_stacks *out, struct error *err);
/* Of facts that come from elsewhere: whether they can be those of a kernel at all. */
bool task_stacks_valid(const struct task_stacks *stacks);

/*
 * Whether any task of the guest was interrupted at an instruction in [start, start + size): its
 * kernel stack then holds a struct pt_regs with such an `ip`. A task that was preempted there, in a
 * kernel that preempts itself, goes on there some time.
 *
 * Looks at the stacks of all tasks in the task list and on the runqueues, where those are that have
 * left the list on their way out; the stacks of interrupts are not among them. *found may be true
 * for what is a leftover on the stack of a task that runs.
 *
 * For an answer to rely on the guest is stopped by the caller. -EPROTO for lists that are not
 * linked as they should be, -E2BIG for one without end, -EFAULT for a stack that is not mapped.
 */
int task_stacks_find(struct guest *guest, const struct task_stacks *stacks, uint64_t start,
		     uint64_t size, bool *found, struct error *err);

/* The same of one stack of whatever kind, from `sp` up to its end. */
bool task_stacks_scan(struct guest *guest, const struct task_stacks *stacks, uint64_t sp,
		      uint64_t start, uint64_t size);

#endif

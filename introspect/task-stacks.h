/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASK_STACKS_H
#define SONDE_INTROSPECT_TASK_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/error.h"
#include "introspect/kernel.h"

/*
 * Whether any task of the guest was interrupted at an instruction in [start, start + size): its
 * kernel stack then holds a struct pt_regs with such an `ip`. A task that was preempted there, in a
 * kernel that preempts itself, goes on there some time.
 *
 * The guest is stopped by the caller. Looks at the stacks of all tasks in the task list; those of
 * interrupts are not among them. *found may be true for what is a leftover on the stack of a task
 * that runs. -ENOENT if BTF lacks what is needed, -E2BIG for a list without end.
 */
int task_stacks_find(const struct kernel *kernel, uint64_t start, uint64_t size, bool *found,
		     struct error *err);

#endif

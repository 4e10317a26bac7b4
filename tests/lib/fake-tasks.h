/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_TASKS_H
#define SONDE_TESTS_LIB_FAKE_TASKS_H

#include <stdint.h>
#include "tests/lib/fake-kernel.h"

/*
 * Lists of a fake kernel (struct list_head), and tasks in them as its BTF describes them. Nodes and
 * heads are kernel addresses, of the image or the direct map.
 */
void fake_list_init(struct fake_kernel *fake, uint64_t head);
/* At the list's end. */
void fake_list_add(struct fake_kernel *fake, uint64_t head, uint64_t node);
void fake_list_remove(struct fake_kernel *fake, uint64_t node);

/* Bytes of a task with its struct signal_struct and its stack. */
enum { FAKE_TASK_BYTES = 0x8000, FAKE_TASK_STACK_BYTES = 0x4000 };

/*
 * A process of one thread at `gpa`, which does not run and is in no list. Returns its struct
 * task_struct. Its saved stack pointer is FAKE_TASK_LEFT_OFF bytes above its stack's lowest byte.
 */
enum { FAKE_TASK_LEFT_OFF = 0x3000 };
uint64_t fake_task(struct fake_kernel *fake, uint64_t gpa);
/* gva of a word of its stack, and a pt_regs there: `ip` and a code segment. */
uint64_t fake_task_stack(struct fake_kernel *fake, uint64_t task, uint64_t offset);
void fake_task_interrupt(struct fake_kernel *fake, uint64_t task, uint64_t offset, uint64_t ip);

/* The u64 at an address as above. */
void fake_write64(struct fake_kernel *fake, uint64_t gva, uint64_t value);
uint64_t fake_read64(struct fake_kernel *fake, uint64_t gva);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASKS_PERCPU_H
#define SONDE_INTROSPECT_TASKS_PERCPU_H

#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * Where a processor in kernel mode finds variables of its own: displacements for an operand like
 * %gs:disp32 (arch/x86/include/asm/percpu.h). Per-CPU symbols are linked at 0 or like other data;
 * then GS holds the distance. Which of both, and in which variable a kernel keeps what, is seen
 * from its image, and checked in the memory of the running guest on every vCPU that runs the
 * kernel.
 *
 * The guest is stopped by the caller. Errors: -ENOENT (named: no such symbol or BTF field; a kernel
 * without SMP has none), -EAGAIN (boot has not come so far), -EPROTO (memory does not hold what it
 * should there), -ENOTSUP (vCPUs are not numbered as the guest numbers its CPUs; no vCPU state).
 */

/* Of a variable, or of a member of the struct that it is (else NULL); nothing is checked. */
int percpu_displacement(const struct kernel *kernel, const char *symbol, const char *member,
			int32_t *displacement, struct error *err);

/* The 32-bit number of the CPU, which is that of the vCPU: `mov %gs:displacement, %eax`. */
int percpu_cpu_number(const struct kernel *kernel, int32_t *displacement, struct error *err);

/* The running task: `mov %gs:displacement, %rax` gives its struct task_struct. */
struct percpu_task {
	int32_t displacement;
	uint32_t pid;       /* offset in struct task_struct of the thread's id, 4 bytes */
	uint32_t comm;      /* offset of its name ... */
	uint32_t comm_size; /* ... and bytes of it, terminated with NUL */
};
int percpu_current_task(const struct kernel *kernel, struct percpu_task *out, struct error *err);

#endif

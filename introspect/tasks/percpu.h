/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASKS_PERCPU_H
#define SONDE_INTROSPECT_TASKS_PERCPU_H

#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * Where a CPU in kernel mode finds its own variables: displacements for an operand like %gs:disp32
 * (arch/x86/include/asm/percpu.h). Per-CPU symbols are linked at 0, or like other data; in the
 * latter case GS holds the distance. In a kernel without SMP they are plain variables, and GS is
 * constant. The image shows which, and which variable a kernel has; all is checked in guest memory
 * on every vCPU that runs the kernel.
 *
 * The guest is stopped by the caller. -ENOENT: no such symbol or BTF field, which *err names.
 * -EAGAIN: early in boot. -EPROTO: guest memory does not hold what it should. -ENOTSUP: the guest
 * numbers its CPUs unlike its vCPUs, or has no vCPU state, or the image has no BTF.
 */

/* Of a variable (member NULL), or of a member of its struct. Checks nothing in guest memory. */
int percpu_displacement(const struct kernel *kernel, const char *symbol, const char *member,
			int32_t *displacement, struct error *err);

/*
 * The CPU's 32-bit number, which is the vCPU's: `mov %gs:displacement, %eax`. A vCPU that is
 * stopped in a guest of its own shows that guest's registers. It has to be seen in this kernel
 * once, at any call: -EAGAIN until then.
 */
int percpu_cpu_number(const struct kernel *kernel, int32_t *displacement, struct error *err);
/* vCPUs may be other CPUs from now on: each has to be seen again. */
void percpu_forget_vcpus(const struct kernel *kernel);

/* The running task: `mov %gs:displacement, %rax` gives its struct task_struct. */
struct percpu_task {
	int32_t displacement;
	uint32_t pid;       /* offset in struct task_struct of the thread's id, 4 bytes */
	uint32_t comm;      /* offset of its name ... */
	uint32_t comm_size; /* ... and bytes of it, terminated with NUL */
};
int percpu_current_task(const struct kernel *kernel, struct percpu_task *out, struct error *err);
/* The same by the image alone: checks nothing in guest memory, and needs no guest that is stopped.
 */
int percpu_find_task(const struct kernel *kernel, struct percpu_task *out, struct error *err);

/* What GS holds on the guest's CPU of this number in kernel mode. -EFAULT; -ENOTSUP: no such CPU.
 */
int percpu_base(const struct kernel *kernel, unsigned int cpu, uint64_t *base, struct error *err);

/* --- NUMA nodes (memory-nodes.c) -------------------------------------------------------------- */

/* The first 64 CPUs of a guest are told apart. */
enum { MEMORY_NODES_MAX = 64, MEMORY_NODE_CPUS = 64 };

/* A NUMA node of the guest (struct pglist_data, include/linux/mmzone.h). */
struct memory_node {
	uint32_t number;
	uint64_t start, bytes; /* the gvas of its memory in the direct map; holes included */
	uint64_t cpus;         /* by bit: those that it is the nearest memory of */
};

/*
 * The nodes that have memory, by number. A kernel without NUMA has none. Only reads, so that the
 * guest may run. -ENOENT: the image has no symbol or BTF for them. -EFAULT: they cannot be read, as
 * early in boot. -EPROTO: they are damaged.
 */
int memory_nodes_read(const struct kernel *kernel, struct memory_node out[MEMORY_NODES_MAX],
		      size_t *n, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_SYSCALLS_CALLS_H
#define SONDE_FORMATS_SYSCALLS_CALLS_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "formats/event/graph.h"

/*
 * System calls out of the events of instances of the syscalls tracer, in the order of time. Entry
 * and return are paired by the frame, whatever the vCPU: a task has one system call at a time, on a
 * stack of its own.
 */
enum syscall_end {
	SYSCALL_RETURNED,
	SYSCALL_UNSEEN,     /* no return: it never returns (exit), its return was lost, or it was
			     * still running at the end of the trace */
	SYSCALL_UNRECORDED, /* returns of this system call are not recorded */
};

struct syscall_call {
	uint64_t ip;
	uint64_t args[SYSCALL_ARGS];
	uint32_t pid;
	uint32_t tgid;     /* of the process; 0: not recorded */
	uint64_t cgroup;   /* its id; likewise */
	char comm[16];     /* not terminated; empty if it is not recorded */
	unsigned int vcpu; /* where it began */
	int64_t begin_ns, end_ns;
	int64_t result;
	enum syscall_end end; /* SYSCALL_RETURNED: end_ns and result are known; else 0 */
};

/* MAX_ERRNO of Linux, include/linux/err.h */
enum { SYSCALL_ERRNO_MAX = 4095 };

/* Whether it returned an error number. */
static inline bool syscall_call_failed(const struct syscall_call *call)
{
	return call->end == SYSCALL_RETURNED && call->result < 0 &&
	       call->result >= -SYSCALL_ERRNO_MAX;
}

struct syscall_calls;

/* Called with each call when it ends, or when the trace shows that it must have. 0 or -errno. */
typedef int syscall_visit_fn(void *arg, const struct syscall_call *call);

/* -ENOMEM. Destroying is NULL-safe, and ends no calls. */
int syscall_calls_create(syscall_visit_fn *visit, void *arg, struct syscall_calls **out,
			 struct error *err);
void syscall_calls_destroy(struct syscall_calls *calls);

/* The next event; one of another tracer is ignored. -ENOMEM, or what `visit` returns. */
int syscall_calls_add(struct syscall_calls *calls, const struct event *event);
/* The trace ends: so do the calls that are open, in the order in which they began. */
int syscall_calls_end(struct syscall_calls *calls);

#endif

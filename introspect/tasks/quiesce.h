/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASKS_QUIESCE_H
#define SONDE_INTROSPECT_TASKS_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/tasks/stack-scan.h"

/*
 * When a guest is no longer inside some code, and will not return there. "The code" is what a
 * tracer has mapped beside the kernel (trampolines), after the guest's text has its own bytes back:
 * nothing jumps to it any more.
 *
 * The code runs with interrupts off, but for its first instructions and behind its last. So the
 * guest has left it when three things hold at one stop:
 *  - each vCPU has been in user mode or idle since the text was put back, which ends every
 *    interrupt that may have come in the code; or, as some vCPUs never are, the stacks that it is
 * on show no interrupt that came there;
 *  - no vCPU's RIP lies in the code: a vCPU may since have continued a task that was preempted
 *    there;
 *  - no task was preempted in the code: no task's kernel stack holds a pt_regs with an address of
 *    it (stack-scan.h).
 */
enum { QUIESCE_MAX_VCPUS = 128, QUIESCE_JUDGE_MS = 1000 };

/* What is known of the guest and of the code, and how to go about it. */
struct quiesce_policy {
	const struct task_stacks *tasks; /* without runqueues, exiting tasks are not seen */
	uint64_t gva, size;              /* the code; gva 0: search the guest's page tables ... */
	uint64_t gpa;                    /* ... for this gpa (quiesce_wait only) */
	/* As in struct code_span: which part of it; NULL: all. */
	bool (*is_part)(const void *arg, uint64_t gva);
	const void *arg;
	const char *what; /* the code, in reasons; NULL: the trampolines */
	/* `tasks` was noted by another process: the domain may have been reset since, and run
	 * another kernel, or none. */
	bool noted;
	/* The administrator has paused the guest: waiting does not help. */
	bool paused;
	/* Search tasks also while the guest runs, to spare it stops that find one inside. */
	bool scan_running;
	/* Search tasks also while a vCPU may be inside, so that met_task can be reported. */
	bool report_tasks;
	/* A vCPU that was not seen outside for this long is judged by its stack instead, since it
	 * may do nothing but kernel work, or its idle task may never halt (idle=poll, cpu-pm=on).
	 * At once in a paused guest; 0: after QUIESCE_JUDGE_MS. */
	unsigned int judge_stacks_ms;
	/* A task may come into the code again until the last stop, where interrupts are on. So that
	 * a vCPU was outside before says nothing: its stack is judged at that stop, too. */
	bool may_enter;
};

struct quiesce {
	struct guest *guest;
	struct quiesce_policy policy;
	uint64_t began_ms;
	bool outside[QUIESCE_MAX_VCPUS]; /* was seen outside since quiesce_begin() */
	bool met_task;                   /* a task was seen inside */
};

/* The text has its own bytes back, and the guest has been stopped since. -E2BIG: too many vCPUs. */
int quiesce_begin(struct quiesce *q, struct guest *guest, const struct quiesce_policy *policy,
		  struct error *err);

/* While the guest runs: false if a stop now would certainly find a task or a vCPU inside. */
bool quiesce_is_promising(struct quiesce *q);

/* With the guest stopped: 0 if it has left the code, else -EBUSY with the reason. */
int quiesce_check(struct quiesce *q, struct error *err);

/*
 * Wait up to patience_ms until the guest has left the code. The caller has stopped the guest, once.
 * This lets it run in between. *held: the guest is stopped on return, as it always is after 0.
 *
 * Also 0 if the guest does not run the noted kernel any more. -EBUSY: the guest may still be
 * inside. -EPROTO: nothing maps `gpa`, so that the notes do not fit the guest. Changes nothing in
 * the guest.
 */
int quiesce_wait(struct quiesce *q, unsigned int patience_ms, bool *held, struct error *err);

#endif

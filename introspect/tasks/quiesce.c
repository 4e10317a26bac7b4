/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/tasks/quiesce.h"

#include <errno.h>
#include "formats/base/clock.h"
#include "introspect/guest/page-walk.h"
#include "introspect/kernel/scratch-mapping.h"

enum { FIRST_WAIT_MS = 2, LAST_WAIT_MS = 50 };
/* Documentation/arch/x86/x86_64/mm.rst: the area of each CPU's exception stacks. */
#define CPU_ENTRY_AREA 0xfffffe0000000000ull
#define CPU_ENTRY_SIZE (1ull << 39)
/* Intel SDM vol. 1, 3.4.3 */
#define RFLAGS_IF (1ull << 9)

int quiesce_begin(struct quiesce *q, struct guest *guest, const struct quiesce_policy *policy,
		  struct error *err)
{
	*q = (struct quiesce){.guest = guest, .policy = *policy, .began_ms = clock_monotonic_ms()};
	if (guest->nr_vcpus > QUIESCE_MAX_VCPUS)
		return error_set(err, E2BIG, "%u vCPUs are more than %d", guest->nr_vcpus,
				 QUIESCE_MAX_VCPUS);
	return 0;
}

/* --- vCPUs ----------------------------------------------------------------------------------- */

static struct code_span code_of(const struct quiesce *q)
{
	const struct quiesce_policy *p = &q->policy;

	return (struct code_span){p->gva, p->size, p->is_part, p->arg};
}

static const char *what_of(const struct quiesce *q)
{
	return q->policy.what ? q->policy.what : "the trampolines";
}

static bool is_in_code(const struct quiesce *q, uint64_t rip)
{
	const struct code_span code = code_of(q);

	return code_span_has(&code, rip);
}

static bool judges_stacks(const struct quiesce *q)
{
	const struct quiesce_policy *p = &q->policy;

	const unsigned int after = p->judge_stacks_ms ? p->judge_stacks_ms : QUIESCE_JUDGE_MS;

	return p->paused || clock_monotonic_ms() - q->began_ms > after;
}

/*
 * Whether a vCPU in the kernel is neither in the code nor in an interrupt or NMI that came there.
 * The stacks that its present one leads to are searched; on an exception stack with interrupts off
 * it may have left any of them.
 */
static bool is_elsewhere(const struct quiesce *q, const struct guest_regs *regs)
{
	const bool on_exception_stack = regs->rsp - CPU_ENTRY_AREA < CPU_ENTRY_SIZE;
	const struct code_span code = code_of(q);

	return !is_in_code(q, regs->rip) && ((regs->rflags & RFLAGS_IF) || !on_exception_stack) &&
	       !task_stacks_scan(q->guest, q->policy.tasks, regs->rsp, &code);
}

static bool is_vcpu_out(struct quiesce *q, unsigned int vcpu, bool judge)
{
	const struct guest_control_ops *control = q->guest->control;
	struct guest_regs regs;
	struct guest_sregs sregs;

	if (control->get_regs(q->guest, vcpu, &regs, NULL) ||
	    control->get_sregs(q->guest, vcpu, &sregs, NULL))
		return false;
	q->outside[vcpu] |= vcpu_is_outside(&sregs) || (judge && is_elsewhere(q, &regs));
	if (!q->outside[vcpu] || is_in_code(q, regs.rip))
		return false;
	return !q->policy.may_enter || vcpu_is_outside(&sregs) || is_elsewhere(q, &regs);
}

static bool all_outside(const struct quiesce *q)
{
	bool all = true;

	for (unsigned int i = 0; i < q->guest->nr_vcpus; i++)
		all &= q->outside[i];
	return all;
}

/* The first vCPU that may be inside; nr_vcpus: none. All are looked at, to note who is outside. */
static unsigned int vcpu_inside(struct quiesce *q)
{
	const bool judge = judges_stacks(q);
	unsigned int n = q->guest->nr_vcpus, inside = n;

	for (unsigned int i = n; i-- > 0;)
		if (!is_vcpu_out(q, i, judge))
			inside = i;
	return inside;
}

/* --- one look -------------------------------------------------------------------------------- */

static int find_task(const struct quiesce *q, bool *found, struct error *err)
{
	const struct code_span code = code_of(q);

	return task_stacks_find(q->guest, q->policy.tasks, &code, found, err);
}

int quiesce_check(struct quiesce *q, struct error *err)
{
	unsigned int inside = vcpu_inside(q);
	bool found = false;
	int ret = 0;

	if (inside == q->guest->nr_vcpus || q->policy.report_tasks)
		ret = find_task(q, &found, err);
	q->met_task |= found;
	if (inside < q->guest->nr_vcpus)
		return error_set(err, EBUSY, "vCPU %u may still be inside %s", inside, what_of(q));
	if (ret) {
		error_prefix(err, "the guest's tasks cannot be searched: ");
		return -EBUSY;
	}
	if (found)
		return error_set(err, EBUSY, "a task was preempted inside %s", what_of(q));
	return 0;
}

bool quiesce_is_promising(struct quiesce *q)
{
	bool found = true;

	if (q->guest->control->sample_idle) {
		q->guest->control->sample_idle(q->guest, q->outside);
		if (!judges_stacks(q) && !all_outside(q))
			return false;
	}
	/* the lists change while they are read: an error says nothing */
	return !q->policy.scan_running || find_task(q, &found, NULL) || !found;
}

/* --- whether the noted kernel runs ----------------------------------------------------------- */

static bool maps_first_task(const struct quiesce *q, uint64_t root, uint64_t gpa)
{
	const struct task_stacks *tasks = q->policy.tasks;
	struct page_walk walk;

	return !page_walk(q->guest, root, tasks->levels, tasks->first, &walk, NULL) &&
	       walk.gpa == gpa;
}

static bool is_in_kernel(const struct quiesce *q, const struct guest_sregs *sregs, uint64_t gpa)
{
	return vcpu_in_long_mode(sregs) && vcpu_paging_levels(sregs) == q->policy.tasks->levels &&
	       (maps_first_task(q, sregs->cr3, gpa) ||
		maps_first_task(q, vcpu_kernel_cr3(sregs->cr3), gpa));
}

/* Whether the error comes from what the tables hold, not from a failure to read them. */
static bool is_answer(int walked)
{
	return walked == -EFAULT || walked == -EINVAL || walked == -ERANGE;
}

/* Whether any vCPU is in the noted kernel. After a reset none is, though the kernel's tables may
 * still lie in memory. */
static int kernel_runs(const struct quiesce *q, bool *out, struct error *err)
{
	const struct task_stacks *tasks = q->policy.tasks;
	struct guest_sregs sregs;
	struct page_walk own;
	int ret = page_walk(q->guest, tasks->root, tasks->levels, tasks->first, &own, err);

	*out = false;
	if (ret)
		return is_answer(ret) ? 0 : ret;
	for (unsigned int i = 0; !*out && i < q->guest->nr_vcpus; i++)
		if (q->guest->control->get_sregs(q->guest, i, &sregs, err))
			ret = -EBUSY;
		else
			*out = is_in_kernel(q, &sregs, own.gpa);
	return *out ? 0 : ret;
}

/* --- waiting --------------------------------------------------------------------------------- */

static int let_run(struct quiesce *q, bool *held, struct error *err)
{
	*held = false;
	return q->guest->control->resume(q->guest, err);
}

static int hold(struct quiesce *q, bool *held, struct error *err)
{
	int ret = q->guest->control->stop(q->guest, err);

	*held = !ret;
	return ret;
}

/* Looks twice, since a vCPU may be in its firmware for a moment (SMM). */
static int check_gone(struct quiesce *q, bool *gone, bool *held, struct error *err)
{
	bool runs;
	int ret = kernel_runs(q, &runs, err);

	*gone = !ret && !runs;
	if (!*gone || q->policy.paused)
		return ret;
	ret = let_run(q, held, err);
	if (ret)
		return ret;
	clock_wait_ms(LAST_WAIT_MS);
	ret = hold(q, held, err);
	if (!ret)
		ret = kernel_runs(q, &runs, err);
	*gone = !ret && !runs;
	return ret;
}

static int find_code(struct quiesce *q, struct error *err)
{
	struct quiesce_policy *p = &q->policy;

	return p->gva ? 0
		      : scratch_mapping_find(q->guest, p->tasks->root, p->tasks->levels, p->gpa,
					     &p->gva, err);
}

/* A stop is announced to others, so let the guest run until a stop is worth it. */
static int run_until_promising(struct quiesce *q, uint64_t end_ms, unsigned int *step, bool *held,
			       struct error *err)
{
	int ret = let_run(q, held, err);

	if (ret)
		return ret;
	do {
		clock_wait_ms(*step);
		*step = *step * 2 < LAST_WAIT_MS ? *step * 2 : LAST_WAIT_MS;
	} while (!quiesce_is_promising(q) && clock_monotonic_ms() < end_ms);
	return hold(q, held, err);
}

int quiesce_wait(struct quiesce *q, unsigned int patience_ms, bool *held, struct error *err)
{
	unsigned int step = FIRST_WAIT_MS;
	bool gone = false;
	uint64_t end_ms;
	int ret = 0;

	*held = true;
	if (q->policy.noted)
		ret = check_gone(q, &gone, held, err);
	if (ret || gone)
		return ret;
	ret = find_code(q, err);
	if (ret)
		return ret;
	q->began_ms = clock_monotonic_ms();
	end_ms = q->began_ms + patience_ms;
	for (;;) {
		ret = quiesce_check(q, err);
		if (!ret || q->policy.paused || clock_monotonic_ms() >= end_ms)
			return ret;
		ret = run_until_promising(q, end_ms, &step, held, err);
		if (ret)
			return ret;
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/leave.h"

#include <errno.h>
#include "formats/base/clock.h"
#include "introspect/guest/page-walk.h"
#include "introspect/guest/control.h"
#include "vmm/libvirt/backend/shmem.h"

enum {
	FIRST_WAIT_MS = 2,
	LAST_WAIT_MS = 50,
	HURRY_MS = 100, /* a vCPU is given so long to show itself outside */
	SLOTS = 512,    /* of 2 MiB, in the kernel's image area */
};
/* Documentation/arch/x86/x86_64/mm.rst: __START_KERNEL_map, and the area of each CPU's exception
 * stacks. */
#define IMAGE_AREA 0xffffffff80000000ull
#define CPU_ENTRY_AREA 0xfffffe0000000000ull
#define CPU_ENTRY_SIZE (1ull << 39)
/* Intel SDM vol. 1, 3.4.3 */
#define RFLAGS_IF (1ull << 9)

/* --- which guest ----------------------------------------------------------------------------- */

static bool maps_first_task(struct libvirt_leave *l, uint64_t root, uint64_t gpa)
{
	struct page_walk walk;

	return !page_walk(l->guest, root, l->tasks->levels, l->tasks->first, &walk, NULL) &&
	       walk.gpa == gpa;
}

static bool is_in_kernel(struct libvirt_leave *l, const struct guest_sregs *sregs, uint64_t gpa)
{
	return vcpu_in_long_mode(sregs) && vcpu_paging_levels(sregs) == l->tasks->levels &&
	       (maps_first_task(l, sregs->cr3, gpa) ||
		maps_first_task(l, vcpu_kernel_cr3(sregs->cr3), gpa));
}

/* What tables are like is an answer; that they could not be read is none. */
static bool is_answer(int walked)
{
	return walked == -EFAULT || walked == -EINVAL || walked == -ERANGE;
}

/* Whether any vCPU is in the kernel that was noted: not so after a reset, though its tables may
 * still lie in memory. */
static int kernel_runs(struct libvirt_leave *l, bool *out, struct error *err)
{
	struct guest_sregs sregs;
	struct page_walk own;
	int ret = page_walk(l->guest, l->tasks->root, l->tasks->levels, l->tasks->first, &own, err);

	*out = false;
	if (ret)
		return is_answer(ret) ? 0 : ret;
	for (unsigned int i = 0; !*out && i < l->guest->nr_vcpus; i++)
		if (l->guest->control->get_sregs(l->guest, i, &sregs, err))
			ret = -EBUSY;
		else
			*out = is_in_kernel(l, &sregs, own.gpa);
	return *out ? 0 : ret;
}

/* That it is mapped is known from the journal: not finding it means that something is wrong. */
static int find_mapping(struct libvirt_leave *l, struct error *err)
{
	struct page_walk walk;

	for (uint64_t i = 0; i < SLOTS; i++) {
		l->gva = IMAGE_AREA + i * LIBVIRT_SHMEM_BYTES;
		if (!page_walk(l->guest, l->tasks->root, l->tasks->levels, l->gva, &walk, NULL) &&
		    walk.gpa == l->gpa)
			return 0;
	}
	return error_set(err, EPROTO,
			 "the memory device is not where it was mapped: the journal does not fit "
			 "the guest");
}

/* --- vCPUs ----------------------------------------------------------------------------------- */

/* Of a vCPU that does nothing but kernel work: neither in there, nor in an interrupt or NMI that
 * came there. The stacks below that of an interrupt are those of tasks. */
static bool is_elsewhere(struct libvirt_leave *l, const struct guest_regs *regs)
{
	bool on_exception_stack = regs->rsp - CPU_ENTRY_AREA < CPU_ENTRY_SIZE;

	return regs->rip - l->gva >= LIBVIRT_SHMEM_BYTES &&
	       ((regs->rflags & RFLAGS_IF) || !on_exception_stack) &&
	       !task_stacks_scan(l->guest, l->tasks, regs->rsp, l->gva, LIBVIRT_SHMEM_BYTES);
}

/* Whoever was outside may since have gone on with a task that was preempted inside. */
static bool is_out(struct libvirt_leave *l, unsigned int vcpu, bool hurry)
{
	struct guest_regs regs;
	struct guest_sregs sregs;

	if (l->guest->control->get_regs(l->guest, vcpu, &regs, NULL) ||
	    l->guest->control->get_sregs(l->guest, vcpu, &sregs, NULL))
		return false;
	l->outside[vcpu] |= vcpu_is_outside(&sregs) || (hurry && is_elsewhere(l, &regs));
	return l->outside[vcpu] && regs.rip - l->gva >= LIBVIRT_SHMEM_BYTES;
}

static bool all_outside(const struct libvirt_leave *l)
{
	bool all = true;

	for (unsigned int i = 0; i < l->guest->nr_vcpus; i++)
		all &= l->outside[i];
	return all;
}

/* --- looking --------------------------------------------------------------------------------- */

/* With the guest stopped. */
static int look(struct libvirt_leave *l, bool hurry, struct error *err)
{
	bool found, out = true;
	int ret = task_stacks_find(l->guest, l->tasks, l->gva, LIBVIRT_SHMEM_BYTES, &found, err);

	l->met_task |= found;
	for (unsigned int i = 0; i < l->guest->nr_vcpus; i++)
		out &= is_out(l, i, hurry);
	if (!out)
		return error_set(err, EBUSY, "a vCPU may still be in our code");
	if (ret) {
		error_prefix(err, "the guest's tasks cannot be looked through: ");
		return -EBUSY;
	}
	return found ? error_set(err, EBUSY, "a task was preempted in our code, and still is") : 0;
}

/* While the guest runs: whether it is worth a stop, which others are told of. */
static bool is_promising(struct libvirt_leave *l, bool hurry)
{
	bool found = true;

	if (l->guest->control->sample_idle)
		l->guest->control->sample_idle(l->guest, l->outside);
	if (l->guest->control->sample_idle && !hurry && !all_outside(l))
		return false;
	/* lists change while they are read */
	return l->slow ||
	       task_stacks_find(l->guest, l->tasks, l->gva, LIBVIRT_SHMEM_BYTES, &found, NULL) ||
	       !found;
}

static void spin_deadline_promising(struct libvirt_leave *l, uint64_t began, uint64_t end,
				    unsigned int *step)
{
	do {
		clock_wait_ms(*step);
		*step = *step * 2 < LAST_WAIT_MS ? *step * 2 : LAST_WAIT_MS;
	} while (!is_promising(l, clock_monotonic_ms() - began > HURRY_MS) &&
		 clock_monotonic_ms() < end);
}

static int let_run(struct libvirt_leave *l, bool *held, struct error *err)
{
	*held = false;
	return l->guest->control->resume(l->guest, err);
}

static int hold(struct libvirt_leave *l, bool *held, struct error *err)
{
	int ret = l->guest->control->stop(l->guest, err);

	*held = !ret;
	return ret;
}

/* Asked twice, as a vCPU may be in its firmware for a moment (SMM). */
static int see_whether_gone(struct libvirt_leave *l, bool *gone, bool *held, struct error *err)
{
	bool runs;
	int ret = kernel_runs(l, &runs, err);

	*gone = !ret && !runs;
	if (!*gone || l->paused)
		return ret;
	ret = let_run(l, held, err);
	if (!ret) {
		clock_wait_ms(LAST_WAIT_MS);
		ret = hold(l, held, err);
	}
	if (!ret)
		ret = kernel_runs(l, &runs, err);
	*gone = !ret && !runs;
	return ret;
}

static int spin_deadline_out(struct libvirt_leave *l, unsigned int patience_ms, bool *held,
			     struct error *err)
{
	const uint64_t began = clock_monotonic_ms(), end = began + patience_ms;
	unsigned int step = FIRST_WAIT_MS;

	for (;;) {
		/* what is paused does not show itself */
		int ret = look(l, l->paused || clock_monotonic_ms() - began > HURRY_MS, err);

		if (!ret || l->paused || clock_monotonic_ms() >= end)
			return ret;
		ret = let_run(l, held, err);
		if (!ret) {
			spin_deadline_promising(l, began, end, &step);
			ret = hold(l, held, err);
		}
		if (ret)
			return ret;
	}
}

int libvirt_leave_wait(struct libvirt_leave *l, unsigned int patience_ms, bool *held,
		       struct error *err)
{
	bool gone;
	int ret;

	*held = true;
	ret = see_whether_gone(l, &gone, held, err);
	if (ret || gone)
		return ret;
	ret = find_mapping(l, err);
	return ret ? ret : spin_deadline_out(l, patience_ms, held, err);
}

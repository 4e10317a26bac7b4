// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/libvirt-leave.h"

#include <errno.h>
#include <time.h>
#include "introspect/page-walk.h"
#include "introspect/vcpu-mode.h"
#include "vmm/libvirt-shmem.h"

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

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void wait_ms(unsigned int ms)
{
	const struct timespec moment = {.tv_nsec = (long)ms * 1000000};

	nanosleep(&moment, NULL);
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

	if (l->guest->ops->get_regs(l->guest, vcpu, &regs, NULL) ||
	    l->guest->ops->get_sregs(l->guest, vcpu, &sregs, NULL))
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
	int rc;

	for (unsigned int i = 0; i < l->guest->nr_vcpus; i++)
		out &= is_out(l, i, hurry);
	if (!out)
		return error_set(err, EBUSY, "a vCPU may still be in our code");
	rc = task_stacks_find(l->guest, l->tasks, l->gva, LIBVIRT_SHMEM_BYTES, &found, err);
	if (rc) {
		error_prefix(err, "the guest's tasks cannot be looked through: ");
		return -EBUSY;
	}
	l->met_task |= found;
	return found ? error_set(err, EBUSY, "a task was preempted in our code, and still is") : 0;
}

/* While the guest runs: whether it is worth a stop, which others are told of. */
static bool is_promising(struct libvirt_leave *l, bool hurry)
{
	bool found = true;

	if (l->guest->ops->seen_outside)
		l->guest->ops->seen_outside(l->guest, l->outside);
	if (l->guest->ops->seen_outside && !hurry && !all_outside(l))
		return false;
	/* lists change while they are read */
	return l->slow ||
	       task_stacks_find(l->guest, l->tasks, l->gva, LIBVIRT_SHMEM_BYTES, &found, NULL) ||
	       !found;
}

static void let_run(struct libvirt_leave *l, uint64_t began, uint64_t end, unsigned int *step)
{
	do {
		wait_ms(*step);
		*step = *step * 2 < LAST_WAIT_MS ? *step * 2 : LAST_WAIT_MS;
	} while (!is_promising(l, now_ms() - began > HURRY_MS) && now_ms() < end);
}

int libvirt_leave_wait(struct libvirt_leave *l, unsigned int patience_ms, bool *held,
		       struct error *err)
{
	const uint64_t began = now_ms(), end = began + patience_ms;
	unsigned int step = FIRST_WAIT_MS;
	int rc = find_mapping(l, err);

	*held = true;
	if (rc)
		return rc;
	for (;;) {
		/* what is paused does not show itself */
		rc = look(l, l->paused || now_ms() - began > HURRY_MS, err);
		if (!rc || l->paused || now_ms() >= end)
			return rc;
		*held = false;
		rc = l->guest->ops->resume(l->guest, err);
		if (rc)
			return rc;
		let_run(l, began, end, &step);
		rc = l->guest->ops->stop(l->guest, err);
		if (rc)
			return rc;
		*held = true;
	}
}

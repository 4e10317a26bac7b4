// SPDX-License-Identifier: GPL-2.0-or-later
#include "introspect/kernel.h"

#include <errno.h>
#include <time.h>
#include "introspect/vcpu-mode.h"

#define POLL_NS 1000000l

static bool maps_at(const struct kernel *kernel, const struct guest_sregs *sregs, uint64_t link)
{
	unsigned int levels = vcpu_paging_levels(sregs);
	struct page_walk walk;

	return !page_walk(kernel->guest, sregs->cr3, levels, kernel_gva(kernel, link), &walk,
			  NULL) &&
	       walk.gpa == kernel->phys_text + (link - kernel->image->text);
}

int kernel_cr3_maps_kernel(const struct kernel *kernel, unsigned int vcpu, bool *out,
			   struct error *err)
{
	struct guest *guest = kernel->guest;
	/* The tables for user mode may map text (pti_clone_kernel_text()), but never data. */
	uint64_t data = symbols_address(kernel->image->symbols, "phys_base");
	struct guest_sregs sregs;
	int rc;

	if (!guest->ops->get_sregs)
		return error_set(err, ENOTSUP, "%s guests have no vCPU state", guest->ops->name);
	rc = guest->ops->get_sregs(guest, vcpu, &sregs, err);
	if (rc)
		return rc;
	*out = vcpu_in_long_mode(&sregs) && maps_at(kernel, &sregs, kernel->image->text) &&
	       (!data || maps_at(kernel, &sregs, data));
	return 0;
}

static int look_once(const struct kernel *kernel, unsigned int vcpu, bool *maps, struct error *err)
{
	struct guest *guest = kernel->guest;
	int rc, resumed;

	if (!guest->ops->stop)
		return error_set(err, ENOTSUP, "%s guests cannot be stopped", guest->ops->name);
	rc = guest->ops->stop(guest, err);
	if (rc)
		return rc;
	rc = kernel_cr3_maps_kernel(kernel, vcpu, maps, err);
	resumed = guest->ops->resume(guest, rc ? NULL : err);
	return rc ? rc : resumed;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int kernel_wait_cr3(const struct kernel *kernel, unsigned int vcpu, unsigned int timeout_ms,
		    struct error *err)
{
	const struct timespec poll = {.tv_nsec = POLL_NS};
	uint64_t end = now_ms() + timeout_ms;
	bool maps;

	for (;;) {
		int rc = look_once(kernel, vcpu, &maps, err);

		if (rc || maps)
			return rc;
		if (now_ms() >= end)
			return error_set(err, ETIMEDOUT,
					 "vCPU %u did not enter the kernel within %u ms", vcpu,
					 timeout_ms);
		nanosleep(&poll, NULL);
	}
}

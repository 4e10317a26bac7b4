// SPDX-License-Identifier: GPL-2.0-or-later
#include "introspect/kernel/kernel.h"

#include <errno.h>
#include "introspect/guest/control.h"

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

	if (!guest->control->get_sregs)
		return error_set(err, ENOTSUP, "%s guests have no vCPU state", guest->name);
	rc = guest->control->get_sregs(guest, vcpu, &sregs, err);
	if (rc)
		return rc;
	*out = vcpu_in_long_mode(&sregs) && maps_at(kernel, &sregs, kernel->image->text) &&
	       (!data || maps_at(kernel, &sregs, data));
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/attach-kernel.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include "introspect/kernel-identify.h"
#include "vmm/libvirt-registers.h"

/* A vCPU runs on while its tables are read: a process may end, and its tables with it. */
enum { TRIES = 5, TRY_MS = 20 };

/* What is in memory may become a kernel; what a kernel is built without, it will not get. */
static const char *advice(int rc)
{
	switch (rc) {
	case -EAGAIN:
		return "try again when it has booted";
	case -ENOTSUP:
		return "such a kernel cannot be traced";
	default:
		return "if Linux has booted there, give its image with -k";
	}
}

static bool may_change(int rc)
{
	return rc == -ENOENT || rc == -EAGAIN;
}

static int identify(struct libvirt_domain *domain, struct guest *guest, struct kernel_identity *out,
		    struct error *err)
{
	const struct timespec moment = {.tv_nsec = TRY_MS * 1000000};
	struct guest_sregs vcpus[LIBVIRT_MAX_VCPUS];
	struct error why = {0};
	int rc = -EAGAIN;

	for (int i = 0; i < TRIES && may_change(rc); i++) {
		if (i)
			nanosleep(&moment, NULL);
		rc = libvirt_read_registers(domain, vcpus, guest->nr_vcpus, err);
		if (rc)
			return rc;
		rc = kernel_identify(guest, vcpus, guest->nr_vcpus, out, &why);
	}
	return rc ? error_set(err, -rc, "no kernel found in domain %s: %s; %s", domain->name,
			      why.text, advice(rc))
		  : 0;
}

int attach_kernel_identify(struct libvirt_domain *domain, struct libvirt_guest *guest,
			   struct kernel_image **image, struct attach_kernel *out,
			   struct error *err)
{
	struct kernel_identity found;
	int rc = identify(domain, libvirt_guest(guest), &found, err);

	if (rc)
		return rc;
	*image = found.image;
	out->kernel = found.kernel;
	snprintf(out->how, sizeof(out->how),
		 "read from guest memory, through the page tables of vCPU %u%s", found.vcpu,
		 found.slide_assumed ? "; the slide is a guess (no vmcoreinfo)" : "");
	return 0;
}

int attach_kernel_check(struct libvirt_domain *domain, struct libvirt_guest *guest,
			const struct kernel_image *image, const char *path,
			struct attach_kernel *out, struct error *err)
{
	int rc = kernel_locate(libvirt_guest(guest), image, &out->kernel, err);

	if (rc == -EAGAIN)
		return error_set(err, ENOENT,
				 "the kernel of %s does not run in domain %s: another system, or "
				 "still in its firmware or early boot",
				 path, domain->name);
	snprintf(out->how, sizeof(out->how), "as in %.120s", path);
	return rc;
}

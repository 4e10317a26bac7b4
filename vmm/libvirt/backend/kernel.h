/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_KERNEL_H
#define SONDE_VMM_LIBVIRT_BACKEND_KERNEL_H

#include "guest-symbols/image/kernel-image.h"
#include "introspect/kernel/kernel.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/backend/guest.h"

/* Which kernel runs in a domain, and how that was found out; for people. */
struct attach_kernel {
	struct kernel kernel;
	char how[160];
};

/*
 * With nothing but the domain: *image, the caller's, is read from its memory, while it runs on.
 * Errors are one line for the user that says what to do.
 */
int attach_kernel_identify(struct libvirt_domain *domain, struct libvirt_guest *guest,
			   struct kernel_image **image, struct attach_kernel *out,
			   struct error *err);

/* `image` comes from the file `path`: does it run there? Likewise. */
int attach_kernel_check(struct libvirt_domain *domain, struct libvirt_guest *guest,
			const struct kernel_image *image, const char *path,
			struct attach_kernel *out, struct error *err);

#endif

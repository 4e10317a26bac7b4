/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_KERNEL_H
#define SONDE_VMM_LIBVIRT_BACKEND_KERNEL_H

#include "guest-symbols/image/kernel-image.h"
#include "introspect/kernel/kernel.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/backend/guest.h"

/* The kernel that runs in a domain. */
struct attach_kernel {
	struct kernel kernel;
	char how[160]; /* for users: how it was found */
};

/*
 * Find the kernel in the domain's memory, while it runs; `given` is what it lacks. The caller owns
 * *image. Errors are one line for the user that says what to do.
 */
int attach_kernel_identify(struct libvirt_domain *domain, struct libvirt_guest *guest,
			   const struct kernel_given *given, struct kernel_image **image,
			   struct attach_kernel *out, struct error *err);

/* Why that failed, for the user: its code, with the domain and what to do. */
int attach_kernel_refuse(const char *domain, const struct error *why, struct error *err);

/* Check that `image`, from the file `path`, is the kernel that runs there. Errors as above. */
int attach_kernel_check(struct libvirt_domain *domain, struct libvirt_guest *guest,
			const struct kernel_image *image, const char *path,
			struct attach_kernel *out, struct error *err);

#endif

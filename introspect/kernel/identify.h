/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_IDENTIFY_H
#define SONDE_INTROSPECT_KERNEL_IDENTIFY_H

#include <stdbool.h>
#include "introspect/kernel/image-range.h"
#include "introspect/kernel/kernel.h"

/* A running kernel of which nothing was known, and how it was found. */
struct kernel_identity {
	struct kernel_image *image; /* read from guest memory; as if loaded from its file */
	struct kernel kernel;
	struct image_range mapping;
	unsigned int vcpu; /* whose page tables map it */
	/* The kernel has no vmcoreinfo to tell how far it was moved: the usual link address is
	 * assumed. Only link addresses, which nothing here depends on, can be wrong then. */
	bool slide_assumed;
};

/*
 * Find the kernel that runs in a guest, and read from its memory all that is otherwise read from
 * its file: symbols, BTF, build id, mcount sites. `vcpus` are the states of nr_vcpus of its vCPUs,
 * which may run on meanwhile. Reads only. -ENOENT: no vCPU has a Linux kernel mapped, or it carries
 * no kallsyms; -ENOTSUP: it has no mcount sites, or no BTF; -EAGAIN: it is still booting; else
 * errors of the parts. out->image is the caller's.
 */
int kernel_identify(struct guest *guest, const struct guest_sregs *vcpus, unsigned int nr_vcpus,
		    struct kernel_identity *out, struct error *err);

/*
 * Whether the kernel that runs there is the one of this image, and where. -ESTALE with the banner
 * of another one; -EAGAIN: it is still booting; -ENOENT: no vCPU has a Linux kernel mapped.
 */
int kernel_check(struct guest *guest, const struct kernel_image *image,
		 const struct guest_sregs *vcpus, unsigned int nr_vcpus, struct kernel *out,
		 struct error *err);

#endif

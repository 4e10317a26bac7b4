/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_IDENTIFY_H
#define SONDE_INTROSPECT_KERNEL_IDENTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "introspect/kernel/kernel.h"

/* Where a guest's page tables map a kernel: in steps of 2 MiB, from its _text on. */
struct image_range {
	uint64_t gva, gpa;
	uint64_t size; /* up to the last part of it that is mapped; what is freed lies in between */
};

/*
 * The mcount sites of a running kernel as its own ftrace keeps them, when the list in the image has
 * been freed: the chain of struct ftrace_page from ftrace_pages_start (kernel/trace/ftrace.c).
 * Those of init functions are gone; those of modules are left out. *out: sorted link addresses, to
 * be free()d. -ENOTSUP if the kernel
 * has none or BTF does not describe them; -EAGAIN in early boot; -EBADMSG if the chain
 * is damaged.
 */
int ftrace_sites_read(const struct kernel *kernel, uint64_t **out, size_t *n, struct error *err);

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

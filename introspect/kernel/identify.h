/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_IDENTIFY_H
#define SONDE_INTROSPECT_KERNEL_IDENTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "introspect/kernel/address-list.h"
#include "introspect/kernel/kernel.h"

/* Where a vCPU's page tables map a kernel, in steps of 2 MiB, from _text on. */
struct image_range {
	uint64_t gva, gpa;
	uint64_t size; /* up to the last mapped part, with freed parts in between */
};

/*
 * The mcount sites of a running kernel, from the chain of struct ftrace_page at ftrace_pages_start
 * (kernel/trace/ftrace.c): the kernel frees the list in its image after boot. Sites of init
 * functions are gone by then; sites of modules are left out. *out: sorted link addresses, to be
 * free()d. -ENOTSUP: the kernel has no sites, or BTF does not describe them. -EAGAIN: early boot.
 * -EBADMSG: the chain is damaged.
 */
int ftrace_sites_read(const struct kernel *kernel, uint64_t **out, size_t *n, struct error *err);

/* The same with the sites of modules, but for those that are still being loaded: *out are sorted
 * gvas, for address_list_deinit(). They are what the guest says: any address may be among them.
 * Their memory is of the guest's budget: -ENOMEM. */
int ftrace_sites_read_all(const struct kernel *kernel, struct address_list *out, struct error *err);

/*
 * The part of ftrace_sites_read_all() that changes: modules come and go, and init text is freed. It
 * is cheap to take.
 */
struct ftrace_census {
	size_t in_image;             /* how many sites the image has left */
	struct address_list modules; /* gvas of the sites outside of it, sorted */
};
int ftrace_census_take(struct ftrace_census *census, const struct kernel *kernel,
		       struct error *err);
/* Also of one that is zeroed. */
void ftrace_census_deinit(struct ftrace_census *census);
bool ftrace_census_is_same(const struct ftrace_census *a, const struct ftrace_census *b);

/* --- kprobes (kprobes.c) ------------------------------------------------------------------------
 */

/*
 * The kprobes that the guest has registered, from its own table (kprobe_table in kernel/kprobes.c),
 * without those that ftrace calls, and those whose text is freed: they write no text.
 */
struct guest_kprobe {
	uint64_t gva;     /* of its struct kprobe */
	uint64_t address; /* of the instruction */
	uint32_t flags;
};

/*
 * Call `fn` for each until it returns an error, and return that. None in kernels without kprobes,
 * or whose BTF does not describe them. How many are read is limited: the lists may be damaged.
 */
typedef int guest_kprobe_fn(void *arg, const struct guest_kprobe *kprobe);
int guest_kprobes_for_each(const struct kernel *kernel, guest_kprobe_fn *fn, void *arg);

/* Whether one of these addresses of kprobes, which are sorted, or the jump that it may become,
 * reaches into [gva, gva + size). */
bool guest_kprobes_reach(const struct address_list *kprobes, uint64_t gva, size_t size);

/*
 * Make bytes that were read from the text at `gva` what they were without kprobes. An armed one has
 * an INT3 in the place of its instruction's first byte, an optimised one a jump over five bytes.
 */
void guest_kprobes_restore(const struct kernel *kernel, uint64_t gva, uint8_t *bytes, size_t size);

/* --- identifying (identify.c) -------------------------------------------------------------------
 */

/* A running kernel that was found without its image file. */
struct kernel_identity {
	struct kernel_image *image; /* read from guest memory, as if loaded from its file */
	struct kernel kernel;
	struct image_range mapping;
	unsigned int vcpu; /* whose page tables map it */
	/* The kernel has no vmcoreinfo with its slide: the usual link address is assumed. Only link
	 * addresses can be wrong then, and nothing here depends on them. */
	bool slide_assumed;
};

/*
 * Find the kernel that runs in a guest, and read from memory what otherwise comes from its file:
 * symbols, BTF, build id, mcount sites. `vcpus` are the states of nr_vcpus vCPUs, which may run on
 * meanwhile. `given` may be NULL. Reads only. out->image is the caller's. -ENOENT: no vCPU has a
 * Linux kernel mapped, or the kernel has no kallsyms. -ENOTSUP: no mcount sites, or no BTF.
 * -EAGAIN: the kernel still boots. -ESTALE: the types that are given are those of another kernel.
 * Else errors of the parts.
 */
int kernel_identify(struct guest *guest, const struct guest_sregs *vcpus, unsigned int nr_vcpus,
		    const struct kernel_given *given, struct kernel_identity *out,
		    struct error *err);

/*
 * Check that the guest runs the kernel of this image, and find where. -ESTALE: another kernel,
 * whose banner is in *err. -EAGAIN: the kernel still boots. -ENOENT: no vCPU has a Linux kernel
 * mapped.
 */
int kernel_check(struct guest *guest, const struct kernel_image *image,
		 const struct guest_sregs *vcpus, unsigned int nr_vcpus, struct kernel *out,
		 struct error *err);

#endif

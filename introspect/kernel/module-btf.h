/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_MODULE_BTF_H
#define SONDE_INTROSPECT_KERNEL_MODULE_BTF_H

#include <stdbool.h>
#include <stddef.h>
#include "formats/base/budget.h"
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * The types of a loaded module. The kernel keeps them in its list `btf_modules`
 * (kernel/bpf/btf.c), and has checked them: types that were made for another base are made to fit
 * the kernel's own there.
 */
struct module_btf {
	struct btf_types *types; /* borrows the image's */
	struct budget *budget;
	size_t taken; /* bytes of the budget */
};

/* Whether a kernel keeps them: -ENOTSUP, and *err says why not. */
int module_btf_check(const struct kernel_image *image, struct error *err);

/*
 * Read them, for module_btf_deinit(); their memory is of the guest's budget. -ENOTSUP as above.
 * -ENOENT: no such module is loaded. -ENODATA: it has no types, or the kernel has not taken them in
 * yet, which it has done when it calls do_init_module(). -EBADMSG, -EFAULT, -E2BIG: what the guest
 * has of them is none. -ENOMEM. Nothing is to be freed then.
 */
int module_btf_read(const struct kernel *kernel, const char *module, struct module_btf *out,
		    struct error *err);
/* Also of one that is zeroed. */
void module_btf_deinit(struct module_btf *btf);

#endif

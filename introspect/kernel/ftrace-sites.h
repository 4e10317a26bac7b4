/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_FTRACE_SITES_H
#define SONDE_INTROSPECT_KERNEL_FTRACE_SITES_H

#include <stddef.h>
#include "introspect/kernel/kernel.h"

/*
 * The mcount sites of a running kernel as its own ftrace keeps them, when the list in the image has
 * been freed: the chain of struct ftrace_page from ftrace_pages_start (kernel/trace/ftrace.c).
 * Those of init functions are gone; those of modules are left out. *out: sorted link addresses, to
 * be free()d. -ENOTSUP if the kernel
 * has none or BTF does not describe them; -EAGAIN in early boot; -EBADMSG if the chain
 * is damaged.
 */
int ftrace_sites_read(const struct kernel *kernel, uint64_t **out, size_t *n, struct error *err);

#endif

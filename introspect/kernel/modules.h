/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_MODULES_H
#define SONDE_INTROSPECT_KERNEL_MODULES_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * Symbols of a running kernel by gva: the image's, and those of the modules that are loaded, read
 * from the guest's module list and each module's own kallsyms. Names are "fn" or "fn [module]".
 */
struct kernel_names;

/* Snapshot of the module list; a list that is being changed or is corrupt gives what was readable.
 */
int kernel_names_create(const struct kernel *kernel, struct kernel_names **out, struct error *err);
void kernel_names_destroy(struct kernel_names *names);

/* 0, or -ENOENT if no function covers gva. Same shape as trace_symbolize_fn of formats/. */
int kernel_names_lookup(void *names, uint64_t gva, char *name, size_t name_size, uint64_t *start,
			uint64_t *size);

#endif

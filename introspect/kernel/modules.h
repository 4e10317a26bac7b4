/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_MODULES_H
#define SONDE_INTROSPECT_KERNEL_MODULES_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/trace/sidecar.h"
#include "introspect/kernel/kernel.h"

/*
 * Symbols of a running kernel by gva: those of the image, and those of loaded modules, from the
 * guest's list of modules and each module's own kallsyms. Names are "fn" or "fn [module]".
 */
struct kernel_names;

/* A snapshot of the list. If that is corrupt, or changes meanwhile, what was readable is used.
 */
int kernel_names_create(const struct kernel *kernel, struct kernel_names **out, struct error *err);
void kernel_names_destroy(struct kernel_names *names);

/*
 * Add what `older`, an earlier snapshot or NULL, knows of places where no function is any more:
 * functions of modules that are gone, and init functions. As many as there is memory for. Destroys
 * `older`.
 */
void kernel_names_keep(struct kernel_names *names, struct kernel_names *older);

/* Results as of a trace_symbolize_fn. -ENOENT: no function covers gva. */
int kernel_names_lookup(void *names, uint64_t gva, char *name, size_t name_size, uint64_t *start,
			uint64_t *size);

/* The build id of the module that a function is in; size 0: it is in none, or the module has none,
 * or BTF does not tell where modules keep theirs. */
struct sidecar_build_id kernel_names_build_id(const struct kernel_names *names, uint64_t gva);

/* How many functions of modules there are; and one of them, which is "fn [module]": they are in the
 * order of their gvas, and none begins before the one in front of it ends, unless both begin at the
 * same place. */
size_t kernel_names_count(const struct kernel_names *names);
const char *kernel_names_at(const struct kernel_names *names, size_t i, uint64_t *start,
			    uint64_t *end);

/* kernel_names_lookup() in the image alone, without a look at the guest. -ENOENT also outside of
 * it. */
int kernel_image_lookup(const struct kernel *kernel, uint64_t gva, char *name, size_t name_size,
			uint64_t *start, uint64_t *size);

#endif

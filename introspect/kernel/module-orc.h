/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_MODULE_ORC_H
#define SONDE_INTROSPECT_KERNEL_MODULE_ORC_H

#include <stdbool.h>
#include "formats/base/budget.h"
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * The ORC tables of a guest's modules, copied, so that stacks can be unwound while the modules, or
 * their init text, go. What the guest says of them may be anything: sizes are bounded, and a table
 * whose addresses do not ascend is left out. Thread-safe.
 */
struct module_orcs;

/* Memory is taken from the budget (or NULL), which outlives the result. -ENOMEM. */
int module_orcs_create(struct budget *budget, struct module_orcs **out, struct error *err);
/* NULL-safe. */
void module_orcs_destroy(struct module_orcs *orcs);

/* Stacks will be unwound. Until then no tables are due. */
void module_orcs_want(struct module_orcs *orcs);
bool module_orcs_are_wanted(const struct module_orcs *orcs);
/* Wanted, and not read yet; or module_orcs_find() has missed one since. */
bool module_orcs_are_due(const struct module_orcs *orcs);

/*
 * Read the tables of modules that are loaded now, but for those that were read before. Tables of
 * modules that are gone stay, until another module is in their place. As many as there is memory
 * for. To be called where the guest may be read.
 */
void module_orcs_update(struct module_orcs *orcs, const struct kernel *kernel);

/* An orc_find_fn. */
bool module_orcs_find(void *orcs, uint64_t gva, struct orc_entry *out);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_KPROBE_TABLE_H
#define SONDE_PATCHER_COEXIST_KPROBE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/address-list.h"
#include "introspect/kernel/kernel.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/plan/shared-slots.h"
#include "patcher/plan/site-table.h"

/*
 * The places of the kprobes that the guest has registered (introspect/kernel/identify.h).
 *
 * One that is registered and disabled, as by a line in kprobe_events, shows in no text. It has
 * copied its instruction already: when it is enabled, the guest writes an INT3 without looking at
 * what stands there, and when it is disabled again the first byte of its copy. If a patch stood
 * there, the result would be neither instruction.
 */
struct kprobe_table {
	/* Sorted gvas, what the guest says; 256 KiB at most. They take nothing of its budget: else
	 * a guest that has used that up could not be left. */
	struct address_list list;
};

/* Empty in kernels without kprobes, or whose BTF does not describe them. -ENOMEM. */
int kprobe_table_read(const struct kernel *kernel, struct kprobe_table *out, struct error *err);
/* Also of one that is zeroed. */
void kprobe_table_deinit(struct kprobe_table *table);

/* Whether a kprobe, or the jump that it may become, reaches into [gva, gva + size). */
bool kprobe_table_reaches(const struct kprobe_table *table, uint64_t gva, size_t size);
#define KPROBE_IS_REGISTERED "a kprobe of the guest is registered there"

/* Sites that one reaches are refused, slots that one reaches are not usable. Kprobes at sites are
 * ftrace's, and not here, but in kernels built without KPROBES_ON_FTRACE. */
void kprobe_table_keep_sites(const struct kprobe_table *table, struct shared_sites *sites);
void kprobe_table_keep_slots(const struct kprobe_table *table, struct shared_slots *slots);
/* Whether the guest has the same ones now. -ENOMEM. */
int kprobe_table_is_current(const struct kprobe_table *table, const struct kernel *kernel,
			    bool *current, struct error *err);

/*
 * Those that reach a jump of the plan which stands in the text now. Where the guest's kprobes
 * cannot be noticed when they are made, one may have copied the jump: as long as it is registered,
 * the guest may execute the copy. Call it with the guest stopped, before jumps are taken out.
 * -ENOMEM.
 */
int kprobe_table_find_copies(const struct patch_plan *plan, const struct kernel *kernel,
			     struct kprobe_table *out, struct error *err);
/* Whether one of a table is registered still, the first of them: its gva; 0: none. Without memory
 * for the answer each counts as registered. */
uint64_t kprobe_table_remaining(const struct kprobe_table *table, const struct kernel *kernel);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/kprobe-table.h"

#include <errno.h>
#include <stdlib.h>
#include "introspect/kernel/identify.h"

enum { JUMP_REACH = 4 }; /* bytes of an optimised kprobe behind its first */

static int add(void *arg, const struct guest_kprobe *kprobe)
{
	struct kprobe_table *table = arg;

	return address_list_add(&table->list, kprobe->address);
}

static int by_address(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int kprobe_table_read(const struct kernel *kernel, struct kprobe_table *out, struct error *err)
{
	int ret;

	*out = (struct kprobe_table){0};
	ret = guest_kprobes_for_each(kernel, add, out);
	if (ret) {
		kprobe_table_deinit(out);
		return error_set(err, -ret, "no memory for the guest's kprobes");
	}
	address_list_sort(&out->list);
	return 0;
}

void kprobe_table_deinit(struct kprobe_table *table)
{
	address_list_deinit(&table->list);
}

bool kprobe_table_reaches(const struct kprobe_table *table, uint64_t gva, size_t size)
{
	return guest_kprobes_reach(&table->list, gva, size);
}

void kprobe_table_keep_sites(const struct kprobe_table *table, struct shared_sites *sites)
{
	for (size_t i = 0; table->list.n && i < sites->n; i++) {
		struct shared_site *site = &sites->v[i];

		if (!site->refusal &&
		    kprobe_table_reaches(table, site->patch.gva, site->patch.size))
			site->refusal = KPROBE_IS_REGISTERED;
	}
}

void kprobe_table_keep_slots(const struct kprobe_table *table, struct shared_slots *slots)
{
	for (size_t i = 0; table->list.n && i < slots->n; i++) {
		const struct patch *patch = &slots->v[i].patch;

		if (kprobe_table_reaches(table, patch->gva, patch->size))
			slots->v[i].usable = false;
	}
}

int kprobe_table_is_current(const struct kprobe_table *table, const struct kernel *kernel,
			    bool *current, struct error *err)
{
	struct kprobe_table now;
	int ret = kprobe_table_read(kernel, &now, err);

	if (ret)
		return ret;
	*current = address_list_is_same(&now.list, &table->list);
	kprobe_table_deinit(&now);
	return 0;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Whether a kprobe at this address reaches a jump that stands in the text. What is applied is
 * sorted. */
static bool is_copied_from(const struct patch_set *set, uint64_t address)
{
	bool any = false;

	if (!set->applied)
		return false;
	for (size_t i = patch_set_find(set, address);
	     !any && i < set->n && set->v[i].gva <= address + JUMP_REACH; i++)
		any = !set->v[i].trap && !set->v[i].yielded && !set->v[i].off;
	return any;
}

int kprobe_table_find_copies(const struct patch_plan *plan, const struct kernel *kernel,
			     struct kprobe_table *out, struct error *err)
{
	const struct patch_set *const sets[] = {&plan->entries, &plan->returns, &plan->shared,
						&plan->slots, &plan->inside};
	int ret = kprobe_table_read(kernel, out, err);
	size_t n = 0;

	for (size_t i = 0; !ret && i < out->list.n; i++) {
		bool copied = false;

		for (size_t k = 0; !copied && k < sizeof(sets) / sizeof(*sets); k++)
			copied = is_copied_from(sets[k], out->list.v[i]);
		if (copied)
			out->list.v[n++] = out->list.v[i];
	}
	out->list.n = n;
	return ret;
}

uint64_t kprobe_table_remaining(const struct kprobe_table *table, const struct kernel *kernel)
{
	struct kprobe_table now;
	uint64_t gva = 0;

	if (!table->list.n)
		return 0;
	if (kprobe_table_read(kernel, &now, NULL))
		return table->list.v[0];
	for (size_t i = 0; !gva && i < table->list.n; i++)
		if (now.list.n && bsearch(&table->list.v[i], now.list.v, now.list.n,
					  sizeof(*now.list.v), by_address))
			gva = table->list.v[i];
	kprobe_table_deinit(&now);
	return gva;
}

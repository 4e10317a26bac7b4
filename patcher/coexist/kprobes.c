/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/kprobes.h"

#include <errno.h>
#include <stdlib.h>
#include "patcher/coexist/features.h"
#include "patcher/coexist/kprobe-table.h"
#include "patcher/text/site.h"

enum { JUMP_REACH = 4 }; /* bytes of an optimised kprobe behind its first */

static void on_prepare(void *arg, struct guest_trap *hit);

static int arm(struct kprobe_handoff *h, struct error *err)
{
	uint64_t gva = oneshot_place(h->kernel, "arch_prepare_kprobe");

	return gva ? oneshot_arm(h->oneshots, gva, on_prepare, h, err) : 0;
}

static void on_prepare_return(void *arg, struct guest_trap *hit)
{
	struct kprobe_handoff *h = arg;
	struct error err;

	(void)hit;
	if (arm(h, &err))
		first_error_set(h->failure, &err);
}

/* --- what a kprobe, or its jump, may overwrite ------------------------------------------------ */

/* The first patch that a kprobe at this address reaches; set->n if there is none. */
static size_t first_reached(const struct patch_set *set, uint64_t address)
{
	size_t i = patch_set_find(set, address);

	return i < set->n && set->v[i].gva <= address + JUMP_REACH ? i : set->n;
}

/* Returns whether the guest had it already. */
static bool give_one(struct kprobe_handoff *h, struct patch_set *set, size_t i)
{
	struct patch *patch = &set->v[i];

	if (set == &h->plan->returns)
		return atomic_exchange(&h->given[i], true);
	return atomic_exchange(&patch->holder, (uint8_t)SITE_INT3) == SITE_INT3 || patch->off;
}

/* The first error; what can be yielded is. */
static int yield_reached(struct kprobe_handoff *h, struct patch_set *set, uint64_t address,
			 struct error *err)
{
	int ret = 0;

	for (size_t i = first_reached(set, address);
	     i < set->n && set->v[i].gva <= address + JUMP_REACH; i++) {
		int one = patch_set_yield(set, i, h->kernel, ret ? NULL : err);

		if (!one && !give_one(h, set, i))
			atomic_fetch_add(&h->total, 1);
		atomic_fetch_add(&h->yields, 1);
		ret = ret ? ret : one;
	}
	return ret;
}

int kprobe_handoff_give(struct kprobe_handoff *h, uint64_t address, struct error *err)
{
	struct patch_set *const sets[] = {&h->plan->returns, &h->plan->entries, &h->plan->shared,
					  &h->plan->slots, &h->plan->inside};
	int ret = 0;

	for (size_t i = 0; h->given && i < sizeof(sets) / sizeof(sets[0]); i++) {
		int one = yield_reached(h, sets[i], address, ret ? NULL : err);

		ret = ret ? ret : one;
	}
	return ret;
}

/* One that it has not been given before. */
static bool reaches_return(const struct kprobe_handoff *h, uint64_t address)
{
	const struct patch_set *set = &h->plan->returns;
	bool any = false;

	for (size_t i = first_reached(set, address);
	     i < set->n && set->v[i].gva <= address + JUMP_REACH; i++)
		any |= !h->given || !atomic_load(&h->given[i]);
	return any;
}

bool kprobe_handoff_reaches(const struct kprobe_handoff *h, uint64_t address)
{
	const struct patch_plan *plan = h->plan;

	return !kernel_symbol(h->kernel, "arch_prepare_kprobe_ftrace") ||
	       reaches_return(h, address) || atomic_load(&plan->has_others) ||
	       first_reached(&plan->entries, address) < plan->entries.n;
}

/* --- by traps --------------------------------------------------------------------------------- */

static void on_prepare(void *arg, struct guest_trap *hit)
{
	struct kprobe_handoff *h = arg;
	uint64_t address = 0, caller;
	struct error err;

	if (kernel_read(h->kernel, hit->regs.rdi + h->addr_offset, &address, sizeof(address),
			&err) ||
	    kernel_read(h->kernel, hit->regs.rsp, &caller, sizeof(caller), &err) ||
	    oneshot_arm(h->oneshots, caller, on_prepare_return, h, &err))
		first_error_set(h->failure, &err);
	if (kprobe_handoff_give(h, address, &err))
		first_error_set(h->failure, &err);
}

/* --- for a session ---------------------------------------------------------------------------- */

static bool find_address(const struct kernel *kernel, struct btf_field *field)
{
	return kernel->image->btf && !btf_field(kernel->image->btf, "kprobe", "addr", field, NULL);
}

bool kprobe_handoff_sees_all(const struct kernel *kernel)
{
	struct btf_field field;

	if (!kernel_feature_symbol(kernel, FEATURE_KPROBES))
		return true;
	return kernel_symbol(kernel, "arch_prepare_kprobe") && find_address(kernel, &field);
}

/* Those that are registered already have made their copies. */
static int give_registered(struct kprobe_handoff *h, struct error *err)
{
	struct kprobe_table table;
	int ret = kprobe_table_read(h->kernel, &table, err);

	for (size_t i = 0; !ret && i < table.list.n; i++)
		ret = kprobe_handoff_give(h, table.list.v[i], err);
	kprobe_table_deinit(&table);
	return ret;
}

int kprobe_handoff_begin(struct kprobe_handoff *h, struct error *err)
{
	struct btf_field field;
	int ret;

	kprobe_handoff_forget(h);
	if (!find_address(h->kernel, &field))
		return 0;
	h->addr_offset = field.offset;
	h->given = calloc(h->plan->returns.n + 1, sizeof(*h->given));
	if (!h->given)
		return error_set(err, ENOMEM, "out of memory");
	h->nr_given = h->plan->returns.n;
	ret = give_registered(h, err);
	if (ret)
		return ret;
	return guest_has_traps(h->kernel->guest) ? arm(h, err) : 0;
}

void kprobe_handoff_forget(struct kprobe_handoff *h)
{
	free(h->given);
	h->given = NULL;
	h->nr_given = 0;
}

size_t kprobe_handoff_refusals(const struct kprobe_handoff *h, struct site_refusal *out)
{
	size_t n = 0;

	for (size_t i = 0; i < h->nr_given; i++) {
		const struct patch *p = &h->plan->returns.v[i];

		if (p->off || !atomic_load(&h->given[i]))
			continue;
		out[n] = site_refuse(p->function, p->gva,
				     "a kprobe of the guest is at this exit: no results by it");
		out[n++].ref = patch_plan_ref_at(h->plan, p->gva);
	}
	return n;
}

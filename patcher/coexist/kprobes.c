/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/kprobes.h"

#include <errno.h>
#include <stdlib.h>

enum { JUMP_REACH = 4 }; /* bytes of an optimised kprobe behind its first */

static void on_prepare(void *arg, const struct guest_trap *hit);

static int arm(struct kprobe_handoff *h, struct error *err)
{
	uint64_t gva = oneshot_place(h->kernel, "arch_prepare_kprobe");

	return gva ? oneshot_arm(h->oneshots, gva, on_prepare, h, err) : 0;
}

static void on_prepare_return(void *arg, const struct guest_trap *hit)
{
	struct kprobe_handoff *h = arg;
	struct error err;

	(void)hit;
	if (arm(h, &err))
		first_error_set(h->failure, &err);
}

static void give(struct kprobe_handoff *h, size_t i)
{
	struct error err;

	if (patch_set_yield(&h->plan->returns, i, h->kernel, &err)) {
		first_error_set(h->failure, &err);
		return;
	}
	if (!atomic_exchange(&h->given[i], true))
		atomic_fetch_add(&h->total, 1);
}

/* The exits that a kprobe at this address, or its jump, may overwrite. */
static void give_reached(struct kprobe_handoff *h, uint64_t address)
{
	const struct patch_set *set = &h->plan->returns;

	for (size_t i = patch_set_find(set, address); i < h->nr_given; i++) {
		if (set->v[i].gva > address + JUMP_REACH)
			break;
		give(h, i);
	}
}

static void on_prepare(void *arg, const struct guest_trap *hit)
{
	struct kprobe_handoff *h = arg;
	uint64_t address = 0, caller;
	struct error err;

	if (kernel_read(h->kernel, hit->regs.rdi + h->addr_offset, &address, sizeof(address),
			&err) ||
	    kernel_read(h->kernel, hit->regs.rsp, &caller, sizeof(caller), &err) ||
	    oneshot_arm(h->oneshots, caller, on_prepare_return, h, &err))
		first_error_set(h->failure, &err);
	give_reached(h, address);
}

int kprobe_handoff_begin(struct kprobe_handoff *h, struct error *err)
{
	struct btf_field field;

	kprobe_handoff_forget(h);
	if (!h->kernel->image->btf ||
	    btf_field(h->kernel->image->btf, "kprobe", "addr", &field, NULL))
		return 0;
	h->addr_offset = field.offset;
	h->given = calloc(h->plan->returns.n + 1, sizeof(*h->given));
	if (!h->given)
		return error_set(err, ENOMEM, "out of memory");
	h->nr_given = h->plan->returns.n;
	return arm(h, err);
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

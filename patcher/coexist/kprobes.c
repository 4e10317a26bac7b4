/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/kprobes.h"

#include <errno.h>
#include <stdlib.h>

enum { JUMP_REACH = 4 }; /* of an optimised kprobe, behind its first byte */

static void on_prepare(void *arg, const struct guest_trap *hit);

static int arm(struct kprobe_handoff *y, struct error *err)
{
	uint64_t gva = oneshot_place(y->kernel, "arch_prepare_kprobe");

	return gva ? oneshot_arm(y->oneshots, gva, on_prepare, y, err) : 0;
}

static void on_prepare_return(void *arg, const struct guest_trap *hit)
{
	struct kprobe_handoff *y = arg;
	struct error err;

	(void)hit;
	if (arm(y, &err))
		first_error_set(y->failure, &err);
}

static void give(struct kprobe_handoff *y, size_t i)
{
	struct error err;

	if (patch_set_yield(&y->plan->returns, i, y->kernel, &err)) {
		first_error_set(y->failure, &err);
		return;
	}
	if (!atomic_exchange(&y->given[i], true))
		atomic_fetch_add(&y->total, 1);
}

/* The exits that a kprobe at this address, or its jump, may overwrite. */
static void give_reached(struct kprobe_handoff *y, uint64_t address)
{
	const struct patch_set *set = &y->plan->returns;

	for (size_t i = patch_set_find(set, address); i < y->nr_given; i++) {
		if (set->v[i].gva > address + JUMP_REACH)
			break;
		give(y, i);
	}
}

static void on_prepare(void *arg, const struct guest_trap *hit)
{
	struct kprobe_handoff *y = arg;
	uint64_t address = 0, caller;
	struct error err;

	if (kernel_read(y->kernel, hit->regs.rdi + y->addr_offset, &address, sizeof(address),
			&err) ||
	    kernel_read(y->kernel, hit->regs.rsp, &caller, sizeof(caller), &err) ||
	    oneshot_arm(y->oneshots, caller, on_prepare_return, y, &err))
		first_error_set(y->failure, &err);
	give_reached(y, address);
}

int kprobe_handoff_begin(struct kprobe_handoff *y, struct error *err)
{
	struct btf_field field;

	kprobe_handoff_forget(y);
	if (!y->kernel->image->btf ||
	    btf_field(y->kernel->image->btf, "kprobe", "addr", &field, NULL))
		return 0;
	y->addr_offset = field.offset;
	y->given = calloc(y->plan->returns.n + 1, sizeof(*y->given));
	if (!y->given)
		return error_set(err, ENOMEM, "out of memory");
	y->nr_given = y->plan->returns.n;
	return arm(y, err);
}

void kprobe_handoff_forget(struct kprobe_handoff *y)
{
	free(y->given);
	y->given = NULL;
	y->nr_given = 0;
}

size_t kprobe_handoff_refusals(const struct kprobe_handoff *y, struct site_refusal *out)
{
	size_t n = 0;

	for (size_t i = 0; i < y->nr_given; i++) {
		const struct patch *p = &y->plan->returns.v[i];

		if (atomic_load(&y->given[i]))
			out[n++] = site_refuse(
				p->function, p->gva,
				"a kprobe of the guest is at this exit: no results by it");
	}
	return n;
}

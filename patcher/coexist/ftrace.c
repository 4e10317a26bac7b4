/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/ftrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/site.h"

static void on_prepare(void *arg, struct guest_trap *hit);
static void on_post_process(void *arg, struct guest_trap *hit);

static int arm(struct ftrace_handoff *h, const char *name, oneshot_fn *fn, struct error *err)
{
	uint64_t gva = oneshot_place(h->kernel, name);

	return gva ? oneshot_arm(h->oneshots, gva, fn, h, err) : 0;
}

static void arm_or_report(struct ftrace_handoff *h, const char *name, oneshot_fn *fn)
{
	struct error err;

	if (arm(h, name, fn, &err))
		first_error_set(h->failure, &err);
}

static uint64_t now_ns(const struct ftrace_handoff *h)
{
	return h->kernel->guest->clock->now_ns(h->kernel->guest);
}

/* --- the guest changes sites ------------------------------------------------------------------ */

bool ftrace_site_is_held(const struct patch *p)
{
	uint8_t holder = atomic_load(&p->holder);

	return holder != SITE_NOP && holder != SITE_CALL_FENTRY;
}

struct site_refusal ftrace_site_refusal(const struct patch *p)
{
	return site_refuse(p->function, p->gva, "site %s",
			   site_state_text(atomic_load(&p->holder)));
}

/* A site that is a NOP is patched again, all others are yielded. */
static int take_or_yield(void *arg, struct patch *p, const uint8_t *now, struct error *err)
{
	struct ftrace_handoff *h = arg;
	enum site_state state = SITE_UNKNOWN;

	(void)err;
	if (now)
		state = site_classify(now, p->gva, h->fentry);
	p->yielded = state != SITE_NOP;
	if (!p->yielded)
		memcpy(p->old_bytes, now, SITE_SIZE);
	else if (!ftrace_site_is_held(p) && !p->off)
		atomic_fetch_add(&h->functions, 1);
	atomic_store(&p->holder, (uint8_t)state);
	return 0;
}

static void stop_counting(struct ftrace_handoff *h)
{
	if (!atomic_exchange(&h->out, false))
		return;
	atomic_fetch_add(&h->out_ns, now_ns(h) - h->since_ns);
}

/* First what give() could not revert: such a set is still applied. */
static int take_set(struct ftrace_handoff *h, struct patch_set *set, struct error *err)
{
	int ret = patch_set_revert(set, h->kernel, NULL, err);

	if (ret)
		return ret;
	patch_set_read(set, h->kernel, take_or_yield, h, NULL);
	return patch_set_apply(set, h->kernel, err);
}

int ftrace_handoff_take(struct ftrace_handoff *h, struct error *err)
{
	int ret = take_set(h, &h->plan->entries, err), shared = 0;

	if (h->shared_out)
		shared = take_set(h, &h->plan->shared, ret ? NULL : err);
	stop_counting(h);
	return ret ? ret : shared;
}

/* A second try belongs to the same gap. */
static void note_gap(struct ftrace_handoff *h)
{
	if (atomic_exchange(&h->out, true))
		return;
	h->shared_out = h->plan->shared.applied;
	h->since_ns = now_ns(h);
	atomic_fetch_add(&h->times, 1);
}

int ftrace_handoff_give(struct ftrace_handoff *h, struct error *err)
{
	int ret, entries;

	h->partly = true;
	note_gap(h);
	ret = patch_set_revert(&h->plan->shared, h->kernel, NULL, err);
	entries = patch_set_revert(&h->plan->entries, h->kernel, NULL, ret ? NULL : err);
	ret = ret ? ret : entries;
	h->partly = h->plan->shared.applied || h->plan->entries.applied;
	return ret;
}

bool ftrace_handoff_is_given(const struct ftrace_handoff *h)
{
	return atomic_load(&h->out) && !atomic_load(&h->partly);
}

static void on_post_process_return(void *arg, struct guest_trap *hit)
{
	struct ftrace_handoff *h = arg;
	struct error err;

	(void)hit;
	if (ftrace_handoff_take(h, &err))
		first_error_set(h->failure, &err);
}

static void on_post_process(void *arg, struct guest_trap *hit)
{
	struct ftrace_handoff *h = arg;
	uint64_t caller;
	struct error err;

	arm_or_report(h, "ftrace_arch_code_modify_prepare", on_prepare);
	if (kernel_read(h->kernel, hit->regs.rsp, &caller, sizeof(caller), &err) ||
	    oneshot_arm(h->oneshots, caller, on_post_process_return, h, &err))
		first_error_set(h->failure, &err);
}

static void on_prepare(void *arg, struct guest_trap *hit)
{
	struct ftrace_handoff *h = arg;
	struct error err;

	(void)hit;
	if (ftrace_handoff_give(h, &err))
		first_error_set(h->failure, &err);
	arm_or_report(h, "ftrace_arch_code_modify_post_process", on_post_process);
}

/* --- for a session --------------------------------------------------------------------------- */

int ftrace_handoff_begin(struct ftrace_handoff *h, struct error *err)
{
	h->fentry = kernel_symbol(h->kernel, "__fentry__");
	if (!guest_has_traps(h->kernel->guest))
		return 0;
	return arm(h, "ftrace_arch_code_modify_prepare", on_prepare, err);
}

void ftrace_handoff_end(struct ftrace_handoff *h)
{
	stop_counting(h);
}

size_t ftrace_handoff_refusals(const struct ftrace_handoff *h, struct site_refusal *out)
{
	const struct patch_set *entries = &h->plan->entries;
	size_t n = 0;

	for (size_t i = 0; i < entries->n; i++) {
		const struct patch *p = &entries->v[i];

		if (p->off || !ftrace_site_is_held(p))
			continue;
		out[n] = ftrace_site_refusal(p);
		out[n++].ref = patch_plan_ref_at(h->plan, p->gva);
	}
	return n;
}

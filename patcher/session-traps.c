/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/session.h"
#include "patcher/site.h"

static struct probe_hit hit_of(const struct guest_trap *trap, uint64_t call_site)
{
	return (struct probe_hit){.vcpu = trap->vcpu,
				  .time_ns = trap->time_ns,
				  .regs = &trap->regs,
				  .call_site = call_site};
}

static uint64_t return_address(const struct trace_session *s, const struct guest_trap *trap)
{
	uint64_t address = 0;

	if (kernel_read(&s->kernel, trap->regs.rsp, &address, sizeof(address), NULL))
		return 0;
	return address;
}

static void await_return(struct trace_session *s, const struct trap *t, const struct probe_hit *hit)
{
	struct stash_push_result pushed;
	struct stash_entry call = {.key = hit->regs->rsp,
				   .tracer = t->tracer,
				   .probe = t->probe,
				   .call_site = hit->call_site};

	for (unsigned int i = 0; i < STASH_WORDS; i++)
		call.words[i] = guest_regs_argument(hit->regs, i);
	t->tracer->ops->entry(t->tracer, t->probe, hit, &call);
	if (stash_push(s->stash, &call, &pushed))
		count_event(&s->counters.lost, 1);
	count_event(&s->counters.nested, pushed.superseded);
	count_event(&s->counters.lost, pushed.lost);
	boot_window_note_entry(&s->boot, hit->call_site);
}

static void on_entry(struct trace_session *s, const struct trap *t, const struct guest_trap *trap)
{
	struct probe_hit hit = hit_of(trap, return_address(s, trap));

	if (t->probe->wants_return)
		await_return(s, t, &hit);
	else
		t->tracer->ops->entry(t->tracer, t->probe, &hit, NULL);
}

static void on_return(struct trace_session *s, const struct guest_trap *trap)
{
	uint64_t key = trap->regs.rsp;
	struct probe_hit hit;
	struct stash_entry call;
	struct tracer *tracer;

	if (!stash_pop(s->stash, key, &call)) {
		count_event(&s->counters.unpaired_returns, 1);
		return;
	}
	if (call.ignored)
		return;
	hit = hit_of(trap, call.call_site);
	tracer = call.tracer;
	if (tracer->ops->ret(tracer, call.probe, &hit, &call))
		stash_note_inner(s->stash, key, trap->regs.rax);
}

/* Do what the trapped `ret` (or jump to the return thunk) would have done. */
static void leave_function(const struct trace_session *s, const struct trap *t,
			   struct guest_trap *trap)
{
	if (t->thunk) {
		trap->regs.rip = t->thunk;
		return;
	}
	trap->regs.rip = return_address(s, trap);
	trap->regs.rsp += sizeof(uint64_t);
}

bool session_on_trap(void *arg, struct guest_trap *trap)
{
	struct trace_session *s = arg;
	const struct trap *t = trap_table_find(&s->traps, trap->regs.rip);

	if (!t)
		return false;
	count_event(&s->traps_taken[trap->vcpu % TRACE_MAX_VCPUS], 1);
	switch (t->kind) {
	case TRAP_ENTRY:
		on_entry(s, t, trap);
		trap->regs.rip += SITE_SIZE;
		break;
	case TRAP_RETURN:
		on_return(s, trap);
		leave_function(s, t, trap);
		break;
	case TRAP_HOOK:
		hooks_fire(&s->hooks, t, trap);
		break;
	}
	return true;
}

void session_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap)
{
	struct trace_session *s = arg;
	const struct trap *t = trap_table_find(&s->traps, site);

	if (t)
		on_entry(s, t, trap);
}

void session_boot_return(void *arg, const struct guest_trap *trap)
{
	on_return(arg, trap);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/patch-plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/function.h"

/* out %al,$port, then a 3-byte NOP that nobody executes: the handler goes on behind the site. */
static const uint8_t entry_trap[SITE_SIZE] = {0xe6, GUEST_TRAP_PORT, 0x0f, 0x1f, 0x00};
/* out %al,$port, then INT3 that nobody executes: the handler returns for the guest. */
static const uint8_t return_trap[SLOT_MAX_SIZE] = {0xe6, GUEST_TRAP_PORT, 0xcc, 0xcc, 0xcc};

enum { JUMP_SIZE = 5 };

struct planner {
	struct patch_plan *plan;
	const struct patch_request *request;
	const struct kernel *kernel;
	struct decoder *decoder;
	struct trap_table *traps;
};

struct site_refusal site_refuse(const char *function, uint64_t gva, const char *fmt, ...)
{
	struct site_refusal refusal = {.function = function, .gva = gva};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(refusal.reason, sizeof(refusal.reason), fmt, ap);
	va_end(ap);
	return refusal;
}

static int refuse(struct patch_plan *plan, const char *function, const struct error *why,
		  struct error *err)
{
	struct site_refusal *r =
		realloc(plan->refused, (plan->nr_refused + 1) * sizeof(*plan->refused));

	if (!r)
		return error_set(err, ENOMEM, "out of memory");
	plan->refused = r;
	r[plan->nr_refused++] = site_refuse(function, why->address, "%s", why->text);
	return 0;
}

/* The patch of an entry site. A negative errno with *why set means that the probe is refused. */
static int plan_entry(const struct planner *p, const struct probe *probe, struct patch *out,
		      struct error *why)
{
	uint64_t gva = kernel_gva(p->kernel, probe->site);
	enum site_state state;
	int ret;

	*out = (struct patch){.gva = gva, .size = SITE_SIZE, .function = probe->name, .trap = true};
	memcpy(out->new_bytes, entry_trap, SITE_SIZE);
	ret = kernel_read(p->kernel, gva, out->old_bytes, SITE_SIZE, why);
	if (ret)
		return ret;
	state = site_classify(out->old_bytes, gva, kernel_symbol(p->kernel, "__fentry__"));
	out->yielded = state == SITE_CALL_OTHER && p->request->ftrace_handoff;
	if (!out->yielded && state != SITE_NOP && state != SITE_CALL_FENTRY)
		return error_set_at(why, EBUSY, gva, "site %s", site_state_text(state));
	return function_check_site(p->kernel, p->decoder, kernel_gva(p->kernel, probe->function),
				   probe->size, gva, why);
}

/* A tail-called function may be shared by several probes. */
static bool share_return(struct trap *trap, const struct probe *probe)
{
	if (!trap)
		return false;
	capture_merge_return(&trap->capture, &probe->ret);
	return true;
}

static int add_return(const struct planner *p, const struct probe *probe,
		      const struct function_exit *exit, struct error *err)
{
	struct trap trap = {.gva = exit->gva,
			    .kind = TRAP_RETURN,
			    .thunk = exit->slot.target,
			    .capture = probe->ret};
	struct patch patch = {
		.gva = exit->gva, .size = exit->slot.size, .function = probe->name, .trap = true};
	int ret;

	if (share_return(trap_table_find(p->traps, exit->gva), probe))
		return 0;
	memcpy(patch.old_bytes, exit->bytes, patch.size);
	memcpy(patch.new_bytes, return_trap, patch.size);
	ret = patch_set_add(&p->plan->returns, &patch, err);
	return ret ? ret : trap_table_put(p->traps, &trap, err);
}

static int add_probe(const struct planner *p, const struct probe_ref *ref,
		     const struct patch *entry, const struct function *function, struct error *err)
{
	const struct probe *probe = ref->probe;
	struct trap trap = {.gva = entry->gva, .kind = TRAP_ENTRY, .ref = ref};
	const struct trap *other = trap_table_find(p->traps, entry->gva);
	int ret;

	if (other && other->ref->probe != probe)
		return error_set_at(err, EBUSY, entry->gva, "two tracers want to trace %s",
				    probe->name);
	ret = patch_set_add(&p->plan->entries, entry, err);

	if (!ret)
		ret = trap_table_put(p->traps, &trap, err);
	for (unsigned int i = 0; !ret && i < function->nr_exits; i++)
		ret = add_return(p, probe, &function->exits[i], err);
	return ret;
}

/* In a guest without traps a place must have room for a jump, as nobody else puts a record there.
 */
static int check_trampolines(const struct planner *p, const struct probe *probe,
			     const struct function *function, struct error *why)
{
	if (guest_has_traps(p->kernel->guest))
		return 0;
	for (unsigned int i = 0; probe->wants_return && i < function->nr_exits; i++)
		if (function->exits[i].slot.size < JUMP_SIZE)
			return error_set_at(why, ENOTSUP, function->exits[i].gva,
					    "its return has no room for a jump");
	return 0;
}

static int plan_probe(const struct planner *p, const struct probe_ref *ref, struct error *err)
{
	const struct probe *probe = ref->probe;
	struct function *function = calloc(1, sizeof(*function));
	struct error why = {0};
	struct patch entry;
	int ret;

	if (!function)
		return error_set(err, ENOMEM, "out of memory");
	ret = plan_entry(p, probe, &entry, &why);
	if (!ret && probe->wants_return)
		ret = function_find_exits(p->kernel, p->decoder,
					  kernel_gva(p->kernel, probe->function), probe->size,
					  function, &why);
	if (!ret)
		ret = check_trampolines(p, probe, function, &why);
	if (ret)
		ret = refuse(p->plan, probe->name, &why, err);
	else
		ret = add_probe(p, ref, &entry, function, err);
	free(function);
	return ret;
}

int patch_plan_make(struct patch_plan *plan, const struct patch_request *request,
		    const struct kernel *kernel, struct decoder *decoder, struct trap_table *traps,
		    struct error *err)
{
	struct planner planner = {plan, request, kernel, decoder, traps};
	int ret = 0;

	*plan = (struct patch_plan){.refs = request->refs, .nr_refs = request->nr_refs};
	for (size_t i = 0; !ret && i < plan->nr_refs; i++)
		ret = plan_probe(&planner, &plan->refs[i], err);
	if (!ret && !plan->entries.n && plan->nr_refused)
		ret = error_set_at(err, ENOENT, plan->refused[0].gva,
				   "no function can be traced: %s: %s", plan->refused[0].function,
				   plan->refused[0].reason);
	if (ret)
		patch_plan_deinit(plan);
	return ret;
}

int patch_plan_refuse_gaps(struct patch_plan *plan, const struct kernel *kernel,
			   const struct probe_gap *gaps, size_t n, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		uint64_t address = gaps[i].address ? kernel_gva(kernel, gaps[i].address) : 0;
		struct error why;

		error_set_at(&why, ENOENT, address, "%s", gaps[i].reason);
		ret = refuse(plan, gaps[i].function, &why, err);
	}
	return ret;
}

static void use_trap(struct patch *patch, const uint8_t *bytes)
{
	memcpy(patch->new_bytes, bytes, patch->size);
	patch->trap = true;
}

void patch_plan_use_traps(struct patch_plan *plan)
{
	for (size_t i = 0; i < plan->entries.n; i++)
		use_trap(&plan->entries.v[i], entry_trap);
	for (size_t i = 0; i < plan->returns.n; i++)
		use_trap(&plan->returns.v[i], return_trap);
}

void patch_plan_deinit(struct patch_plan *plan)
{
	patch_set_deinit(&plan->entries);
	patch_set_deinit(&plan->returns);
	free(plan->refused);
	*plan = (struct patch_plan){0};
}

int patch_plan_refresh_entries(struct patch_plan *plan, const struct kernel *kernel,
			       struct error *err)
{
	uint64_t fentry = kernel_symbol(kernel, "__fentry__");

	for (size_t i = 0; i < plan->entries.n; i++) {
		struct patch *p = &plan->entries.v[i];
		enum site_state state;
		int ret = kernel_read(kernel, p->gva, p->old_bytes, p->size, err);

		if (ret)
			return ret;
		state = site_classify(p->old_bytes, p->gva, fentry);
		if (state != SITE_NOP && state != SITE_CALL_FENTRY)
			return error_set_at(err, EBUSY, p->gva, "%s: site %s", p->function,
					    site_state_text(state));
	}
	return 0;
}

int patch_plan_refresh_returns(struct patch_plan *plan, const struct kernel *kernel,
			       struct trap_table *traps, struct error *err)
{
	for (size_t i = 0; i < plan->returns.n; i++) {
		struct patch *p = &plan->returns.v[i];
		struct trap *trap = trap_table_find(traps, p->gva);
		struct slot slot;
		int ret = kernel_read(kernel, p->gva, p->old_bytes, p->size, err);

		if (ret)
			return ret;
		slot = slot_classify(p->old_bytes, p->size, p->gva);
		if (slot.size != p->size)
			return error_set_at(err, EBUSY, p->gva, "%s: return slot was rewritten",
					    p->function);
		if (!trap)
			return error_set_at(err, ENOENT, p->gva, "%s: no trap is planned there",
					    p->function);
		trap->thunk = slot.target;
	}
	return 0;
}

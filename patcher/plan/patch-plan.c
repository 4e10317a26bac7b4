/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/patch-plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/function.h"

/* out %al,$port, and a 3-byte NOP that no vCPU executes: the handler moves it behind the site. */
static const uint8_t entry_trap[SITE_SIZE] = {0xe6, GUEST_TRAP_PORT, 0x0f, 0x1f, 0x00};
/* out %al,$port, and INT3 that no vCPU executes: the handler returns for it. */
static const uint8_t return_trap[] = {0xe6, GUEST_TRAP_PORT, 0xcc, 0xcc, 0xcc, 0xcc};
_Static_assert(sizeof(return_trap) == SLOT_MAX_SIZE, "a trap covers any slot");
/* Of several instructions likewise, but NOPs: the guest's kprobes decode functions from their
 * beginning, and older kernels refuse one behind an INT3. */
static const uint8_t epilogue_trap[] = {
	0xe6, GUEST_TRAP_PORT, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
_Static_assert(sizeof(epilogue_trap) == EXIT_MAX_SIZE, "a trap covers any exit");

struct planner {
	struct patch_plan *plan;
	const struct patch_request *request;
	const struct kernel *kernel;
	struct decoder *decoder;
	struct trap_table *traps;
	uint64_t fentry;           /* gva of __fentry__() */
	struct function *function; /* the exits of the one being planned */
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

int site_refusals_add(struct site_refusals *list, const struct site_refusal *refusal)
{
	if (!budget_grow(list->budget, &list->v, sizeof(*list->v), list->n, &list->room))
		return -ENOMEM;
	list->v[list->n++] = *refusal;
	return 0;
}

void site_refusals_deinit(struct site_refusals *list)
{
	budget_free(list->budget, list->v, list->room * sizeof(*list->v));
	*list = (struct site_refusals){0};
}

static int refuse(struct patch_plan *plan, const struct probe_ref *ref, const struct error *why,
		  struct error *err)
{
	size_t capacity = plan->refused_capacity ? 2 * plan->refused_capacity : 16;
	struct site_refusal *r = plan->refused;

	if (plan->nr_refused == plan->refused_capacity) {
		r = realloc(r, capacity * sizeof(*r));
		if (!r)
			return error_set(err, ENOMEM, "out of memory");
		plan->refused = r;
		plan->refused_capacity = capacity;
	}
	r[plan->nr_refused] = site_refuse(ref->probe->name, why->address, "%s", why->text);
	r[plan->nr_refused++].ref = ref->id;
	return 0;
}

static int add_use(struct patch_plan *plan, const struct probe_ref *ref, uint64_t gva,
		   struct error *err)
{
	size_t capacity = plan->uses_capacity ? 2 * plan->uses_capacity : 64;
	struct plan_use *uses = plan->uses;

	if (plan->nr_uses == plan->uses_capacity) {
		uses = realloc(uses, capacity * sizeof(*uses));
		if (!uses)
			return error_set(err, ENOMEM, "out of memory");
		plan->uses = uses;
		plan->uses_capacity = capacity;
	}
	uses[plan->nr_uses++] = (struct plan_use){ref->id, gva};
	return 0;
}

/* The patch of an entry site. A negative errno, with *why set: the probe is refused. */
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
	state = site_classify(out->old_bytes, gva, p->fentry);
	out->yielded = state == SITE_CALL_OTHER && p->request->ftrace_handoff;
	out->holder = (uint8_t)state;
	if (!out->yielded && state != SITE_NOP && state != SITE_CALL_FENTRY)
		return error_set_at(why, EBUSY, gva, "site %s", site_state_text(state));
	return function_check_site(p->kernel, p->decoder, kernel_gva(p->kernel, probe->function),
				   probe->size, gva, why);
}

static void use_trap(struct patch *patch, const uint8_t *bytes)
{
	memcpy(patch->new_bytes, bytes, patch->size);
	patch->trap = true;
}

static void use_return_trap(struct patch *patch)
{
	use_trap(patch, patch->between ? epilogue_trap : return_trap);
}

/* A tail-called function may be shared by several probes. */
static bool share_return(struct trap *trap, const struct probe *probe)
{
	if (!trap)
		return false;
	capture_merge_return(&trap->capture, &probe->ret);
	return true;
}

struct capture patch_plan_return_capture(const struct patch_plan *plan, uint64_t gva,
					 const struct probe *const *probes)
{
	struct capture capture = {.point = POINT_RETURN};

	for (size_t i = 0; i < plan->nr_uses; i++)
		if (plan->uses[i].gva == gva)
			capture_merge_return(&capture, &probes[plan->uses[i].ref]->ret);
	return capture;
}

void patch_plan_set_view(struct patch_plan *plan, const struct trap_table *traps,
			 const struct probe_view *view)
{
	for (size_t i = 0; i < plan->returns.n; i++)
		trap_table_find(traps, plan->returns.v[i].gva)->capture =
			(struct capture){.point = POINT_RETURN};
	for (size_t i = 0; i < plan->nr_uses; i++) {
		struct trap *trap = trap_table_find(traps, plan->uses[i].gva);

		if (trap && trap->kind == TRAP_RETURN)
			capture_merge_return(&trap->capture, &view->probes[plan->uses[i].ref]->ret);
	}
	plan->view = view->number;
}

static int add_return(const struct planner *p, const struct probe_ref *ref,
		      const struct function_exit *exit, struct error *err)
{
	const struct probe *probe = ref->probe;
	struct trap trap = {.gva = exit->gva,
			    .kind = TRAP_RETURN,
			    .thunk = exit->slot.target,
			    .epilogue = {.size = exit->slot.epilogue},
			    .capture = probe->ret};
	struct patch patch = {.gva = exit->gva,
			      .size = exit->slot.size,
			      .function = probe->name,
			      .between = exit->slot.epilogue ? p->request->tasks : NULL};
	int ret = add_use(p->plan, ref, exit->gva, err);

	if (ret || share_return(trap_table_find(p->traps, exit->gva), probe))
		return ret;
	memcpy(patch.old_bytes, exit->bytes, patch.size);
	use_return_trap(&patch);
	memcpy(trap.epilogue.bytes, exit->bytes, trap.epilogue.size);
	ret = patch_set_add(&p->plan->returns, &patch, err);
	return ret ? ret : trap_table_put(p->traps, &trap, err);
}

static int add_probe(const struct planner *p, const struct probe_ref *ref,
		     const struct patch *entry, struct error *err)
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
		ret = add_use(p->plan, ref, entry->gva, err);
	if (!ret)
		ret = trap_table_put(p->traps, &trap, err);
	for (unsigned int i = 0; !ret && i < p->function->nr_exits; i++)
		ret = add_return(p, ref, &p->function->exits[i], err);
	return ret;
}

/* In a guest without traps only a trampoline can write a record: each exit needs room for a jump.
 */
static int check_trampolines(const struct planner *p, struct error *why)
{
	const struct function *f = p->function;

	if (guest_has_traps(p->kernel->guest))
		return 0;
	for (unsigned int i = 0; i < f->nr_exits; i++)
		if (f->exits[i].slot.size < JUMP_SIZE)
			return error_set_at(
				why, ENOTSUP, f->exits[i].gva,
				"its result cannot be recorded: a `ret` has no room for a jump");
	return 0;
}

/* Where the probe's function is to be patched: *entry and p->function. A negative errno with *why
 * set means that the probe is refused. */
static int plan_places(const struct planner *p, const struct probe *probe, struct patch *entry,
		       struct error *why)
{
	int ret = plan_entry(p, probe, entry, why);

	p->function->nr_exits = 0;
	if (ret || !probe->wants_return)
		return ret;
	ret = function_find_exits(p->kernel, p->decoder, kernel_gva(p->kernel, probe->function),
				  probe->size, p->request->tasks, p->function, why);
	return ret ? ret : check_trampolines(p, why);
}

static int plan_probes(const struct planner *p, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < p->plan->nr_refs; i++) {
		const struct probe_ref *ref = &p->plan->refs[i];
		struct error why = {0};
		struct patch entry;

		if (plan_places(p, ref->probe, &entry, &why))
			ret = refuse(p->plan, ref, &why, err);
		else
			ret = add_probe(p, ref, &entry, err);
	}
	return ret;
}

static int sort_sets(struct patch_plan *plan, struct error *err)
{
	int ret = patch_set_sort(&plan->entries, err);

	return ret ? ret : patch_set_sort(&plan->returns, err);
}

/* The first refusal of a probe that is wanted; NULL if there is none. */
static const struct site_refusal *first_refusal(const struct patch_plan *plan)
{
	for (size_t i = 0; i < plan->nr_refused; i++)
		if (!plan->refs[plan->refused[i].ref].off)
			return &plan->refused[i];
	return NULL;
}

/* The probes that are off at first. */
static int start_off(struct patch_plan *plan, struct error *err)
{
	bool *probes = calloc(plan->nr_refs + 1, sizeof(*probes));
	bool *patches = calloc(plan->entries.n + plan->returns.n + 1, sizeof(*patches));
	int ret = probes && patches ? 0 : error_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; !ret && i < plan->nr_refs; i++)
		probes[i] = plan->refs[i].off;
	if (!ret) {
		patch_plan_find_off(plan, probes, patches);
		patch_plan_set_off(plan, patches);
	}
	free(patches);
	free(probes);
	return ret;
}

static int check_any(const struct patch_plan *plan, struct error *err)
{
	const struct site_refusal *first = first_refusal(plan);

	if (!first || patch_set_wanted(&plan->entries))
		return 0;
	return error_set_at(err, ENOENT, first->gva, "no function can be traced: %s: %s",
			    first->function, first->reason);
}

int patch_plan_make(struct patch_plan *plan, const struct patch_request *request,
		    const struct kernel *kernel, struct decoder *decoder, struct trap_table *traps,
		    struct error *err)
{
	struct planner planner = {
		.plan = plan,
		.request = request,
		.kernel = kernel,
		.decoder = decoder,
		.traps = traps,
		.fentry = kernel_symbol(kernel, "__fentry__"),
		.function = malloc(sizeof(*planner.function)),
	};
	int ret;

	*plan = (struct patch_plan){
		.refs = request->refs, .nr_refs = request->nr_refs, .view = request->view};
	if (!planner.function)
		return error_set(err, ENOMEM, "out of memory");
	ret = plan_probes(&planner, err);
	free(planner.function);
	if (!ret)
		ret = sort_sets(plan, err);
	if (!ret)
		ret = start_off(plan, err);
	if (!ret)
		ret = check_any(plan, err);
	if (ret)
		patch_plan_deinit(plan);
	return ret;
}

bool patch_plan_has_room(const struct patch_plan *plan)
{
	bool room = true;

	for (size_t i = 0; i < plan->returns.n; i++)
		room &= plan->returns.v[i].size >= JUMP_SIZE;
	return room;
}

void patch_plan_use_traps(struct patch_plan *plan)
{
	for (size_t i = 0; i < plan->entries.n; i++)
		use_trap(&plan->entries.v[i], entry_trap);
	for (size_t i = 0; i < plan->returns.n; i++)
		use_return_trap(&plan->returns.v[i]);
}

void patch_plan_deinit(struct patch_plan *plan)
{
	patch_set_deinit(&plan->entries);
	patch_set_deinit(&plan->returns);
	patch_set_deinit(&plan->shared);
	patch_set_deinit(&plan->slots);
	patch_set_deinit(&plan->inside);
	free(plan->refused);
	free(plan->uses);
	*plan = (struct patch_plan){0};
}

int patch_plan_apply(struct patch_plan *plan, const struct kernel *kernel, struct error *err)
{
	int ret = patch_set_apply(&plan->returns, kernel, err);

	if (ret)
		return ret;
	ret = patch_set_apply(&plan->entries, kernel, err);
	if (ret)
		patch_set_revert(&plan->returns, kernel, NULL, NULL);
	return ret;
}

int patch_plan_revert(struct patch_plan *plan, const struct kernel *kernel,
		      struct patch_outcome *outcome, struct error *err)
{
	struct patch_set *const sets[] = {&plan->shared, &plan->slots, &plan->inside,
					  &plan->entries, &plan->returns};
	int ret = 0;

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		int one = patch_set_revert(sets[i], kernel, outcome, ret ? NULL : err);

		ret = ret ? ret : one;
	}
	return ret;
}

/* --- what the guest has rewritten ------------------------------------------------------------ */

struct refresh {
	struct trap_table *traps;
	uint64_t fentry;
};

static int refresh_entry(void *arg, struct patch *p, const uint8_t *now, struct error *err)
{
	const struct refresh *r = arg;
	enum site_state state;

	if (!now)
		return -EFAULT;
	state = site_classify(now, p->gva, r->fentry);
	if (state != SITE_NOP && state != SITE_CALL_FENTRY)
		return error_set_at(err, EBUSY, p->gva, "%s: site %s", p->function,
				    site_state_text(state));
	memcpy(p->old_bytes, now, p->size);
	return 0;
}

int patch_plan_refresh_entries(struct patch_plan *plan, const struct kernel *kernel,
			       struct error *err)
{
	struct refresh r = {.fentry = kernel_symbol(kernel, "__fentry__")};

	return patch_set_read(&plan->entries, kernel, refresh_entry, &r, err);
}

static int refresh_return(void *arg, struct patch *p, const uint8_t *now, struct error *err)
{
	const struct refresh *r = arg;
	struct trap *trap = trap_table_find(r->traps, p->gva);
	struct slot slot;

	if (!now)
		return -EFAULT;
	if (p->between && !memcmp(now, p->old_bytes, p->size))
		return 0;
	if (p->between)
		return error_set_at(err, EBUSY, p->gva, "%s: the end was rewritten", p->function);
	slot = slot_classify(now, p->size, p->gva);
	/* the kernel leaves out the prefix */
	if (slot.size != p->size && (p->size <= SITE_SIZE || slot.size != SITE_SIZE))
		return error_set_at(err, EBUSY, p->gva, "%s: return slot was rewritten",
				    p->function);
	if (!trap)
		return error_set_at(err, ENOENT, p->gva, "%s: no trap is planned there",
				    p->function);
	memcpy(p->old_bytes, now, p->size);
	trap->thunk = slot.target;
	return 0;
}

int patch_plan_refresh_returns(struct patch_plan *plan, const struct kernel *kernel,
			       struct trap_table *traps, struct error *err)
{
	struct refresh r = {.traps = traps};

	return patch_set_read(&plan->returns, kernel, refresh_return, &r, err);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trace-session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/modules.h"
#include "patcher/boot-window.h"
#include "patcher/hooks.h"
#include "patcher/site.h"
#include "patcher/stash.h"
#include "patcher/trace-spec.h"
#include "patcher/tracer.h"
#include "patcher/trap-table.h"

struct trace_session {
	struct guest *guest;
	const struct kernel_image *image;
	struct trace_writer *writer;
	struct kernel kernel;
	bool located;
	bool enabled;
	bool from_first_allocation;

	char specs[TRACE_MAX_TRACERS][TRACE_SPEC_MAX];
	struct tracer *tracers[TRACE_MAX_TRACERS];
	size_t nr_tracers;

	struct decoder *decoder;
	struct stash *stash;
	struct trap_table traps;
	struct site_plan plan;
	struct hooks hooks;
	struct boot_window boot;
	struct patch_outcome restored;

	struct trace_counters counters;
	uint64_t in_flight;
	_Atomic uint64_t traps_taken[TRACE_MAX_VCPUS];
	struct kernel_names *names;
};

/* --- what happens on a trap ----------------------------------------------------------------- */

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
	if (!t->tracer->ops->entry(t->tracer, t->probe, hit, &call))
		return;
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

static bool on_trap(void *arg, struct guest_trap *trap)
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

/* Events that the boot window caught elsewhere. */
static void on_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap)
{
	struct trace_session *s = arg;
	const struct trap *t = trap_table_find(&s->traps, site);

	if (t)
		on_entry(s, t, trap);
}

static void on_boot_return(void *arg, const struct guest_trap *trap)
{
	on_return(arg, trap);
}

/* --- life ----------------------------------------------------------------------------------- */

int trace_session_create(struct guest *guest, const struct kernel_image *image,
			 struct trace_writer *writer, struct trace_session **out, struct error *err)
{
	struct trace_session *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->guest = guest;
	s->image = image;
	s->writer = writer;
	trap_table_init(&s->traps);
	snprintf(s->specs[0], TRACE_SPEC_MAX, "kmem");
	ret = decoder_create(&s->decoder, err);
	if (!ret)
		ret = stash_create(&s->stash, err);
	if (ret)
		trace_session_destroy(s);
	else
		*out = s;
	return ret;
}

static void destroy_tracers(struct trace_session *s)
{
	for (size_t i = 0; i < s->nr_tracers; i++)
		s->tracers[i]->ops->destroy(s->tracers[i]);
	s->nr_tracers = 0;
	site_plan_deinit(&s->plan);
	trap_table_deinit(&s->traps);
	trap_table_init(&s->traps);
}

void trace_session_destroy(struct trace_session *s)
{
	if (!s)
		return;
	trace_session_stop(s, NULL);
	destroy_tracers(s);
	trap_table_deinit(&s->traps);
	kernel_names_destroy(s->names);
	stash_destroy(s->stash);
	decoder_destroy(s->decoder);
	free(s);
}

void trace_session_kernel_at(struct trace_session *s, uint64_t virt_slide, uint64_t phys_text)
{
	kernel_at(&s->kernel, s->guest, s->image, virt_slide, phys_text);
	s->located = true;
}

/* --- start ---------------------------------------------------------------------------------- */

static int keep_specs(struct trace_session *s, const char *const *specs, struct error *err)
{
	struct trace_spec parsed;
	size_t n = 0;

	if (!specs || !specs[0])
		return 0;
	for (; specs[n]; n++) {
		int ret = trace_spec_parse(specs[n], &parsed, err);

		if (ret)
			return ret;
		if (n == TRACE_MAX_TRACERS || strlen(specs[n]) >= TRACE_SPEC_MAX)
			return error_set(err, E2BIG, "too many or too long trace specs");
	}
	memset(s->specs, 0, sizeof(s->specs));
	for (size_t i = 0; i < n; i++)
		snprintf(s->specs[i], TRACE_SPEC_MAX, "%s", specs[i]);
	return 0;
}

static int create_tracers(struct trace_session *s, struct error *err)
{
	struct tracer_context context = {.kernel = &s->kernel,
					 .writer = s->writer,
					 .stash = s->stash,
					 .counters = &s->counters};

	destroy_tracers(s);
	for (size_t i = 0; i < TRACE_MAX_TRACERS && s->specs[i][0]; i++) {
		struct trace_spec spec;
		int ret = trace_spec_parse(s->specs[i], &spec, err);

		if (!ret)
			ret = spec.ops->create(&context, spec.filters, &s->tracers[i], err);
		if (ret)
			return ret;
		s->nr_tracers++;
	}
	return 0;
}

static void prepare_boot_window(struct trace_session *s)
{
	s->hooks = (struct hooks){.kernel = &s->kernel, .traps = &s->traps};
	s->boot = (struct boot_window){.kernel = &s->kernel,
				       .plan = &s->plan,
				       .traps = &s->traps,
				       .hooks = &s->hooks,
				       .entry = on_boot_entry,
				       .ret = on_boot_return,
				       .arg = s};
}

/* With the guest stopped: all patches, or none. */
static int put_traps(struct trace_session *s, struct error *err)
{
	bool booting = boot_window_is_open(&s->kernel);
	int ret = booting ? boot_window_arm(&s->boot, err) : 0;

	if (!ret)
		ret = patch_set_apply(&s->plan.returns, &s->kernel, err);
	if (!ret)
		ret = patch_set_apply(&s->plan.entries, &s->kernel, err);
	if (ret) {
		patch_set_revert(&s->plan.returns, &s->kernel, NULL, NULL);
		hooks_disarm_all(&s->hooks);
	}
	return ret;
}

/* SLUB and SLAB count up from DOWN = 0 with their first allocations (mm/slab.h). */
static bool is_before_first_allocation(const struct kernel *kernel)
{
	uint64_t gva = kernel_symbol(kernel, "slab_state");
	uint32_t state;

	return gva && !kernel_read(kernel, gva, &state, sizeof(state), NULL) && state == 0;
}

static int plan_and_patch(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret = guest->ops->stop(guest, err);

	if (ret)
		return ret;
	ret = site_plan_make(&s->plan, &s->kernel, s->decoder, s->tracers, s->nr_tracers, &s->traps,
			     err);
	if (!ret)
		ret = guest->ops->set_trap_handler(guest, on_trap, s, err);
	if (!ret)
		ret = put_traps(s, err);
	s->from_first_allocation = !ret && is_before_first_allocation(&s->kernel);
	guest->ops->resume(guest, NULL);
	return ret;
}

static int locate(struct trace_session *s, struct error *err)
{
	int ret;

	if (s->located)
		return kernel_confirm(&s->kernel)
			       ? 0
			       : error_set_at(err, ESTALE, s->kernel.phys_text,
					      "the kernel is not where it was loaded");
	ret = kernel_locate(s->guest, s->image, &s->kernel, err);
	s->located = !ret;
	return ret;
}

int trace_session_start(struct trace_session *s, const char *const *specs, struct error *err)
{
	int ret;

	if (s->enabled)
		return error_set(err, EALREADY, "tracing is on already");
	if (!(s->guest->caps & GUEST_CAP_PORT_TRAP))
		return error_set(err, ENOTSUP, "this kind of guest cannot be traced by traps");
	ret = keep_specs(s, specs, err);
	if (!ret)
		ret = locate(s, err);
	if (!ret)
		ret = create_tracers(s, err);
	if (ret)
		return ret;
	prepare_boot_window(s);
	ret = plan_and_patch(s, err);
	s->enabled = !ret;
	return ret;
}

/* --- stop ----------------------------------------------------------------------------------- */

static void add_outcome(struct patch_outcome *to, const struct patch_outcome *from)
{
	to->restored += from->restored;
	to->unchanged += from->unchanged;
	if (!to->foreign)
		to->first_foreign = from->first_foreign;
	to->foreign += from->foreign;
}

static int take_traps_back(struct trace_session *s, struct error *err)
{
	struct patch_outcome entries, returns;
	int ret, first;

	hooks_disarm_all(&s->hooks);
	first = patch_set_revert(&s->plan.entries, &s->kernel, &entries, err);
	ret = patch_set_revert(&s->plan.returns, &s->kernel, &returns, first ? NULL : err);
	s->restored = entries;
	add_outcome(&s->restored, &returns);
	return first ? first : ret;
}

int trace_session_stop(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret;

	if (!s->enabled)
		return error_set(err, EALREADY, "tracing is off already");
	ret = guest->ops->stop(guest, err);
	if (ret)
		return ret;
	ret = take_traps_back(s, err);
	s->enabled = false;
	s->in_flight += stash_clear(s->stash);
	guest->ops->resume(guest, NULL);
	guest->ops->set_trap_handler(guest, NULL, NULL, NULL);
	return ret;
}

/* --- telling -------------------------------------------------------------------------------- */

void trace_session_status(const struct trace_session *s, struct trace_status *out)
{
	*out = (struct trace_status){
		.enabled = s->enabled,
		.located = s->located,
		.virt_slide = s->kernel.virt_slide,
		.phys_text = s->kernel.phys_text,
		.entry_sites = s->plan.entries.n,
		.return_sites = s->plan.returns.n,
		.refused = s->plan.refused,
		.nr_refused = s->plan.nr_refused,
		.restored = s->restored,
		.null_allocs = s->counters.null_allocs,
		.null_frees = s->counters.null_frees,
		.nested = s->counters.nested,
		.unpaired_returns = s->counters.unpaired_returns,
		.in_flight = s->in_flight,
		.lost = s->counters.lost,
	};
	memcpy(out->specs, s->specs, sizeof(out->specs));
	while (out->nr_specs < TRACE_MAX_TRACERS && out->specs[out->nr_specs][0])
		out->nr_specs++;
	for (unsigned int i = 0; i < TRACE_MAX_VCPUS; i++)
		out->traps[i] = s->traps_taken[i];
}

static void join_specs(const struct trace_session *s, char *to, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < TRACE_MAX_TRACERS && s->specs[i][0] && used < size; i++)
		used += (size_t)snprintf(to + used, size - used, "%s%s", i ? " " : "", s->specs[i]);
}

void trace_session_info(const struct trace_session *s, struct trace_info *info)
{
	struct trace_status status;

	trace_session_status(s, &status);
	snprintf(info->mode, sizeof(info->mode), "trap");
	join_specs(s, info->tracers, sizeof(info->tracers));
	snprintf(info->banner, sizeof(info->banner), "%s", s->image->banner);
	for (size_t i = 0; i < s->image->build_id_size; i++)
		snprintf(info->build_id + 2 * i, 3, "%02x", s->image->build_id[i]);
	info->virt_slide = (int64_t)s->kernel.virt_slide;
	info->phys_base = s->kernel.phys_text;
	info->page_size = 4096;
	info->from_first_allocation = s->from_first_allocation;
	info->null_allocs = status.null_allocs;
	info->null_frees = status.null_frees;
	info->nested = status.nested;
	info->unpaired_returns = status.unpaired_returns;
	info->in_flight = status.in_flight;
	info->lost = status.lost;
}

int trace_session_symbolize(void *session, uint64_t gva, char *name, size_t name_size,
			    uint64_t *start, uint64_t *size)
{
	struct trace_session *s = session;

	if (!s->located || (!s->names && kernel_names_create(&s->kernel, &s->names, NULL)))
		return -ENOENT;
	return kernel_names_lookup(s->names, gva, name, name_size, start, size);
}

const struct error *trace_session_failure(const struct trace_session *s)
{
	return s->boot.failed.code ? &s->boot.failed : NULL;
}

int trace_session_translate(const struct trace_session *s, uint64_t gva, uint64_t *gpa,
			    struct error *err)
{
	if (!s->located)
		return error_set(err, EAGAIN, "the guest's kernel has not been found yet");
	return kernel_translate(&s->kernel, gva, gpa, err);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trace-session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/gfp-names.h"
#include "patcher/session.h"
#include "patcher/trace-spec.h"

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
	if (!ret)
		ret = stash_create(&s->kept, err);
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
	slab_view_destroy(s->slab);
	s->slab = NULL;
	trap_table_deinit(&s->traps);
	trap_table_init(&s->traps);
}

void trace_session_destroy(struct trace_session *s)
{
	if (!s)
		return;
	trace_session_stop(s, NULL);
	session_end(s);
	destroy_tracers(s);
	trap_table_deinit(&s->traps);
	kernel_names_destroy(s->names);
	stash_destroy(s->kept);
	stash_destroy(s->stash);
	decoder_destroy(s->decoder);
	free(s);
}

void trace_session_set_options(struct trace_session *s, const struct trace_options *options)
{
	s->options = *options;
}

void trace_session_kernel_at(struct trace_session *s, uint64_t virt_slide, uint64_t phys_text)
{
	kernel_at(&s->kernel, s->guest, s->image, virt_slide, phys_text);
	s->located = true;
}

/* --- taking back ---------------------------------------------------------------------------- */

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
	struct patch_outcome entries = {0}, returns = {0};
	int ret, first;

	hooks_disarm_all(&s->hooks);
	first = patch_set_revert(&s->plan.entries, &s->kernel, &entries, err);
	ret = patch_set_revert(&s->plan.returns, &s->kernel, &returns, first ? NULL : err);
	s->restored = entries;
	add_outcome(&s->restored, &returns);
	return first ? first : ret;
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

/* Specs of the same tracer are one tracer that does what either asks for (no filter: all). */
static void merge_spec(struct trace_spec *specs, size_t *n, const struct trace_spec *spec)
{
	for (size_t i = 0; i < *n; i++) {
		if (specs[i].ops != spec->ops)
			continue;
		if (!specs[i].filters || !spec->filters)
			specs[i].filters = 0;
		else
			specs[i].filters |= spec->filters;
		return;
	}
	specs[(*n)++] = *spec;
}

static int create_tracers(struct trace_session *s, struct error *err)
{
	struct tracer_context context = {.kernel = &s->kernel,
					 .writer = s->writer,
					 .stash = s->stash,
					 .counters = &s->counters};
	struct trace_spec specs[TRACE_MAX_TRACERS], spec;
	size_t n = 0;
	int ret;

	destroy_tracers(s);
	ret = slab_view_create(&s->kernel, &s->slab, err);
	context.slab = s->slab;
	for (size_t i = 0; !ret && i < TRACE_MAX_TRACERS && s->specs[i][0]; i++) {
		ret = trace_spec_parse(s->specs[i], &spec, err);
		if (!ret)
			merge_spec(specs, &n, &spec);
	}
	for (size_t i = 0; !ret && i < n; i++) {
		ret = specs[i].ops->create(&context, specs[i].filters, &s->tracers[i], err);
		if (!ret)
			s->nr_tracers++;
	}
	return ret;
}

static void prepare_boot_window(struct trace_session *s)
{
	s->hooks = (struct hooks){.kernel = &s->kernel, .traps = &s->traps};
	s->boot = (struct boot_window){.kernel = &s->kernel,
				       .plan = &s->plan,
				       .traps = &s->traps,
				       .hooks = &s->hooks,
				       .failure = &s->failure,
				       .entry = session_boot_entry,
				       .ret = session_boot_return,
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

/*
 * ftrace_init() comes after the first allocation, the last rewriting of text before the end of
 * SYSTEM_BOOTING. In between one of them may be under way, and nobody can tell.
 */
static int check_moment(const struct kernel *kernel, bool *first, struct error *err)
{
	*first = is_before_first_allocation(kernel);
	if (!*first && boot_window_is_open(kernel))
		return error_set(err, EAGAIN, "the guest is patching its own text in early boot");
	return 0;
}

static int plan_and_patch(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret = site_plan_make(&s->plan, &s->kernel, s->decoder, s->tracers, s->nr_tracers,
				 &s->traps, err);

	if (ret)
		return ret;
	ret = guest->ops->set_trap_handler(guest, session_on_trap, s, err);
	if (!ret)
		ret = put_traps(s, err);
	if (ret)
		guest->ops->set_trap_handler(guest, NULL, NULL, NULL);
	return ret;
}

static void want_exitless(struct trace_session *s)
{
	s->no_exitless = (struct error){0};
	s->was_exitless = false;
	atomic_store(&s->next_look, 0);
	atomic_store(&s->switch_pending, s->options.exitless);
}

/* At once, if the guest has booted; else traps do until it is ready. */
static int switch_if_ready(struct trace_session *s, struct error *err)
{
	want_exitless(s);
	if (!s->switch_pending || boot_window_is_open(&s->kernel))
		return 0;
	return session_switch(s, err);
}

static int start_stopped(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	bool first;
	int ret = check_moment(&s->kernel, &first, err);

	if (!ret)
		ret = plan_and_patch(s, err);
	if (ret)
		return ret;
	ret = switch_if_ready(s, err);
	if (ret) {
		s->enabled = take_traps_back(s, NULL) != 0;
		if (!s->enabled)
			guest->ops->set_trap_handler(guest, NULL, NULL, NULL);
		return ret;
	}
	s->enabled = true;
	if (!s->starts++)
		s->from_first_allocation = first;
	return 0;
}

int trace_session_locate(struct trace_session *s, struct error *err)
{
	int ret;

	if (s->located)
		return kernel_confirm(&s->kernel)
			       ? 0
			       : error_set_at(err, ESTALE, s->kernel.phys_text,
					      "the kernel is not where it was loaded");
	ret = kernel_find(s->guest, s->image, &s->kernel, err);
	s->located = !ret;
	return ret;
}

/* Calls that have not returned will not be paired any more. */
static void forget_calls(struct trace_session *s)
{
	s->in_flight += stash_clear(s->stash);
	stash_clear(s->kept);
	s->guest->ops->set_trap_handler(s->guest, NULL, NULL, NULL);
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
		ret = trace_session_locate(s, err);
	if (ret)
		return ret;
	/* a stop may have left memory in a guest that was paused */
	ret = session_finish_leaving(s, err);
	if (!ret) {
		forget_calls(s);
		ret = s->guest->ops->stop(s->guest, err);
	}
	if (ret)
		return ret;
	ret = create_tracers(s, err);
	if (!ret) {
		prepare_boot_window(s);
		ret = start_stopped(s, err);
	}
	s->guest->ops->resume(s->guest, NULL);
	return ret;
}

/* --- stop ----------------------------------------------------------------------------------- */

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
	/* while a trap may still stand it needs its handler */
	s->enabled = ret != 0;
	if (!ret)
		session_leave(s);
	guest->ops->resume(guest, NULL);
	if (ret)
		return ret;
	/* else the next start does that; a paused guest cannot be waited for */
	ret = session_finish_leaving(s, err);
	if (!ret)
		forget_calls(s);
	return ret && guest->ops->is_stopped(guest) ? 0 : ret;
}

int trace_session_end(struct trace_session *s, struct error *err)
{
	int ret = -EALREADY;

	if (s->enabled) {
		ret = take_traps_back(s, err);
		s->enabled = false;
	}
	session_end(s);
	forget_calls(s);
	return ret == -EALREADY ? 0 : ret;
}

/* --- telling -------------------------------------------------------------------------------- */

static void fill_rings(const struct trace_session *s, struct trace_status *out)
{
	struct exitless_vcpu_counts c;

	out->exitless = s->exitless || (!s->enabled && s->was_exitless);
	out->doorbells = s->past_doorbells + (s->exitless ? exitless_doorbells(s->exitless) : 0);
	if (!s->switch_pending && s->no_exitless.code)
		snprintf(out->no_exitless, sizeof(out->no_exitless), "%.*s",
			 (int)sizeof(out->no_exitless) - 1, s->no_exitless.text);
	for (unsigned int i = 0; i < s->guest->nr_vcpus && i < TRACE_MAX_VCPUS; i++) {
		session_exitless_counts(s, i, &c);
		out->rings[i] = (struct trace_ring_status){.records = c.records,
							   .drops = c.drops,
							   .damaged = c.damaged,
							   .blocked = c.blocked,
							   .blocked_ns = c.blocked_ns};
		out->lost += c.drops + c.damaged;
	}
}

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
	fill_rings(s, out);
}

static void join_specs(const struct trace_session *s, char *to, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < TRACE_MAX_TRACERS && s->specs[i][0] && used < size; i++)
		used += (size_t)snprintf(to + used, size - used, "%s%s", i ? "," : "", s->specs[i]);
}

void trace_session_info(const struct trace_session *s, struct trace_info *info)
{
	struct trace_status status;

	trace_session_status(s, &status);
	snprintf(info->mode, sizeof(info->mode), status.exitless ? "exitless" : "trap");
	join_specs(s, info->tracers, sizeof(info->tracers));
	snprintf(info->banner, sizeof(info->banner), "%s", s->image->banner);
	for (size_t i = 0; i < s->image->build_id_size; i++)
		snprintf(info->build_id + 2 * i, 3, "%02x", s->image->build_id[i]);
	gfp_names_read(s->image, info);
	info->virt_slide = (int64_t)s->kernel.virt_slide;
	info->phys_base = s->kernel.phys_text;
	info->page_size = 4096;
	info->from_first_allocation = s->from_first_allocation;
	info->null_allocs = status.null_allocs;
	info->null_frees = status.null_frees;
	info->nested = status.nested;
	info->unpaired_returns = status.unpaired_returns;
	info->in_flight = status.in_flight;
	info->doorbells = status.doorbells;
	info->traps = info->ring_records = info->ring_waits = info->ring_wait_ns = 0;
	for (unsigned int i = 0; i < TRACE_MAX_VCPUS; i++) {
		info->traps += status.traps[i];
		info->ring_records += status.rings[i].records;
		info->ring_waits += status.rings[i].blocked;
		info->ring_wait_ns += status.rings[i].blocked_ns;
	}
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
	return first_error_get(&s->failure);
}

int trace_session_translate(const struct trace_session *s, uint64_t gva, uint64_t *gpa,
			    struct error *err)
{
	if (!s->located)
		return error_set(err, EAGAIN, "the guest's kernel has not been found yet");
	return kernel_translate(&s->kernel, gva, gpa, err);
}

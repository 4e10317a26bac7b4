/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a session reports of itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "introspect/guest/memory.h"
#include "introspect/tasks/stack-scan.h"
#include "guest-symbols/functions/syscalls.h"
#include "patcher/session/internal.h"

/* Between two readings of the guest's modules. */
static const uint64_t names_ns = 5000000000;

static void fill_engines(const struct trace_session *s, struct trace_status *out)
{
	struct engine *const engines[] = {s->trap_engine, s->ring_engine};

	out->exitless =
		(s->ring_engine && s->engine == s->ring_engine) || (!s->enabled && s->had_rings);
	if (!s->switch_pending && s->no_rings.code)
		snprintf(out->no_exitless, sizeof(out->no_exitless), "%.*s",
			 (int)sizeof(out->no_exitless) - 1, s->no_rings.text);
	for (unsigned int i = 0; i < s->guest->nr_vcpus && i < TRACE_MAX_VCPUS; i++) {
		for (size_t e = 0; e < sizeof(engines) / sizeof(engines[0]); e++)
			if (engines[e])
				engines[e]->ops->counts(engines[e], i, &out->vcpus[i]);
		counters_add(&out->counters, &out->vcpus[i]);
	}
}

/* Users of a status may hold the gaps of the one before: they move only if there are more. */
static struct probe_gap *room_for_gaps(struct trace_session *s, size_t n)
{
	struct probe_gap *gaps;

	if (n <= s->gaps_room)
		return s->gaps;
	gaps = reallocarray(s->gaps, n, sizeof(*gaps));
	if (!gaps)
		return NULL;
	s->gaps = gaps;
	s->gaps_room = n;
	return gaps;
}

/* Functions that cannot be patched as long as tracing is on, and what the tracers do not see. */
static void fill_gaps(const struct trace_session *s, const struct site_refusal *refused, size_t n,
		      struct trace_status *out)
{
	const struct tracer_set *set = &s->tracers;
	struct probe_gap *gaps =
		room_for_gaps((struct trace_session *)(uintptr_t)s, n + set->nr_gaps);

	if (!gaps)
		return;
	for (size_t i = 0; i < n; i++)
		gaps[i] = (struct probe_gap){refused[i].function, 0, refused[i].reason};
	if (set->nr_gaps)
		memcpy(gaps + n, set->gaps, set->nr_gaps * sizeof(*gaps));
	out->gaps = gaps;
	out->nr_gaps = n + set->nr_gaps;
}

static void fill_refused(const struct trace_session *s, struct trace_status *out)
{
	size_t n = 0, sites, exits;
	uint64_t *counters = out->counters.v;

	counters[COUNTER_YIELDS] = s->ftrace.times + s->kprobes.total;
	counters[COUNTER_YIELDED_NS] = s->ftrace.out_ns;
	counters[COUNTER_YIELDED_FUNCTIONS] = s->ftrace.functions + s->kprobes.total;
	out->refused = s->refused ? s->refused : s->plan.refused;
	out->nr_refused = s->plan.nr_refused;
	if (!s->refused)
		return;
	for (size_t i = 0; i < s->plan.nr_refused; i++)
		if (!s->tracers.refs[s->plan.refused[i].ref].off)
			s->refused[n++] = s->plan.refused[i];
	fill_gaps(s, s->refused, n, out);
	sites = ftrace_handoff_refusals(&s->ftrace, s->refused + n);
	exits = kprobe_handoff_refusals(&s->kprobes, s->refused + n + sites);
	out->nr_refused = n + sites + exits;
	out->entry_sites -= sites;
	out->return_sites -= exits;
}

/* Why an instance of the direct lane does not trace. */
static const char *waiting_for(const struct trace_session *s,
			       const struct session_instance *instance)
{
	if (!s->options.exitless)
		return "records functions in exitless mode only";
	if (!s->switch_pending && s->no_rings.code)
		return s->no_rings.text;
	if (instance->failure.code)
		return instance->failure.text;
	if (s->direct_failure.code)
		return s->direct_failure.text;
	return "starts when the guest is ready for exitless mode";
}

static bool wants(const struct trace_session *s, const struct session_instance *instance,
		  uint32_t ref)
{
	return ref < s->plan.nr_refs &&
	       instance->ops->wants(s->plan.refs[ref].tracer, &instance->spec,
				    s->plan.refs[ref].probe);
}

/* What an instance of the ordered lane has of the plan. */
static void find_share(const struct trace_session *s, struct session_instance *instance,
		       const struct trace_status *out)
{
	struct site_refusals *refused = &instance->refused;

	refused->budget = s->guest->budget;
	refused->n = 0;
	for (size_t i = 0; i < out->nr_refused; i++)
		if (wants(s, instance, out->refused[i].ref))
			site_refusals_add(refused, &out->refused[i]);
	instance->sites = 0;
	for (uint32_t i = 0; i < s->plan.nr_refs; i++)
		instance->sites += !s->plan.refs[i].off && wants(s, instance, i) &&
				   patch_plan_site_of(&s->plan, i);
	for (size_t i = 0; i < refused->n; i++)
		instance->sites -=
			refused->v[i].gva &&
			refused->v[i].gva == patch_plan_site_of(&s->plan, refused->v[i].ref);
}

/* On the ordered lane pids are the gate's, if there is one that decides. NULL without memory, or
 * before the tracer is there. */
static char *conditions_of(const struct session_instance *instance, bool gate,
			   enum tracer_decider decider)
{
	const bool ordered = instance->ops->lane == LANE_ORDERED;
	struct trace_spec spec = instance->spec;
	char text[EVENT_FILTER_MAX];

	if (!ordered && (!instance->tracer || instance_is_open(instance)))
		return NULL;
	if (ordered && gate && decider == DECIDED_BY_GUEST) {
		trace_spec_print_pids(&spec, text, sizeof(text));
		return strdup(text);
	}
	if (ordered && gate)
		spec.nr_pids = 0;
	instance->ops->conditions(instance->tracer, &spec, decider, text, sizeof(text));
	return strdup(text);
}

static const char *find_conditions(const struct trace_session *s, struct session_instance *instance,
				   enum tracer_decider decider)
{
	const bool gate = pids_are_decided(s);
	char **text = &instance->conditions[gate][decider];

	if (!*text)
		*text = conditions_of(instance, gate, decider);
	return *text ? *text : "";
}

static void fill_instances(const struct trace_session *s, struct trace_status *out)
{
	for (size_t i = 0; i < s->instances.n; i++) {
		struct session_instance *instance = s->instances.v[i];
		const bool direct = instance->ops->lane == LANE_DIRECT;

		if (direct)
			direct_count_sites(s, instance);
		else
			find_share(s, instance, out);
		out->specs[i] = instance->spec.text;
		out->instances[i] = (struct trace_instance_status){
			.name = instance->spec.name,
			.spec = instance->spec.text,
			.tracer = instance->ops->name,
			.direct = direct,
			.active = s->enabled && (!direct || instance->active),
			.begun = direct ? instance->begun : s->starts != 0,
			.asked = instance->asked,
			.failed = instance->failure.code != 0,
			.notes = (const char *const *)instance->notes.v,
			.nr_notes = instance->notes.n,
			.sites = instance->sites,
			.refused = instance->refused.v,
			.guest_conditions = find_conditions(s, instance, DECIDED_BY_GUEST),
			.host_conditions = find_conditions(s, instance, DECIDED_BY_HOST),
			.id = instance->id,
			.nr_refused = instance->refused.n,
		};
		if (instance->stream)
			out->instances[i].records = atomic_load(&instance->stream->records);
		out->instances[i].lost =
			instances_lost((struct trace_session *)(uintptr_t)s, instance);
		if (s->enabled && direct && !instance->active)
			out->instances[i].waiting = waiting_for(s, instance);
	}
	out->nr_specs = (unsigned int)s->instances.n;
}

/* -ENOENT: the kernel does no such thing. Suspending is refused, if the guest can be made to ask.
 */
static void fill_yields(const struct trace_session *s, struct trace_status *out)
{
	_Static_assert((int)ASK_SUSPEND + 1 == (int)TRACE_MAX_YIELDS, "each kind has a row");
	for (enum session_ask kind = 0; kind <= ASK_SUSPEND; kind++) {
		struct trace_yield *yield = &out->yields[out->nr_yields];
		const struct error *why = &s->asks.missing[kind];

		if (why->code == ENOENT || (kind == ASK_SUSPEND && !why->code))
			continue;
		yield->to = session_ask_name(kind);
		if (why->code)
			snprintf(yield->refusal, sizeof(yield->refusal), "%.*s",
				 (int)sizeof(yield->refusal) - 1, why->text);
		out->nr_yields++;
	}
}

void trace_session_status(const struct trace_session *s, struct trace_status *out)
{
	uint64_t *counters = out->counters.v;

	*out = (struct trace_status){
		.enabled = s->enabled,
		.located = s->located,
		.virt_slide = s->kernel.virt_slide,
		.phys_text = s->kernel.phys_text,
		.entry_sites = patch_set_wanted(&s->plan.entries),
		.return_sites = patch_set_wanted(&s->plan.returns),
		.restored = s->restored,
		.gaps = s->tracers.gaps,
		.nr_gaps = s->tracers.nr_gaps,
		.tsc_doubtful = s->tsc_was_unstable && s->guest->clock->tsc_seen,
	};
	fill_yields(s, out);
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		counters[id] = s->counters.v[id];
	sampler_counts(&s->sampler, s->guest->clock->now_ns(s->guest), &out->counters);
	fill_refused(s, out);
	fill_instances(s, out);
	fill_engines(s, out);
	counters[COUNTER_LOST] += counters[COUNTER_RING_DROPS] + counters[COUNTER_RING_DAMAGED] +
				  counters[COUNTER_UNREADABLE];
}

static void join_specs(const struct trace_session *s, char *to, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < s->instances.n && used < size; i++)
		used += (size_t)snprintf(to + used, size - used, "%s%s", i ? "," : "",
					 s->instances.v[i]->spec.text);
}

static void describe_gaps(const struct trace_status *status, struct trace_info *info)
{
	info->nr_gaps = 0;
	for (size_t i = 0; i < status->nr_gaps && i < TRACE_GAPS_MAX; i++) {
		struct trace_gap *gap = &info->gaps[info->nr_gaps++];

		snprintf(gap->function, sizeof(gap->function), "%s", status->gaps[i].function);
		snprintf(gap->reason, sizeof(gap->reason), "%s", status->gaps[i].reason);
	}
}

void trace_session_info(struct trace_session *s, struct trace_info *info)
{
	struct trace_status status;

	trace_session_status(s, &status);
	snprintf(info->mode, sizeof(info->mode), "%s",
		 (status.exitless ? s->ring_engine : s->trap_engine)->ops->name);
	join_specs(s, info->tracers, sizeof(info->tracers));
	snprintf(info->banner, sizeof(info->banner), "%s", s->image->banner);
	hex_encode(info->build_id, s->image->build_id, s->image->build_id_size);
	if (s->image->symbol_source)
		snprintf(info->symbol_source, sizeof(info->symbol_source), "%s",
			 s->image->symbol_source);
	snprintf(info->btf_source, sizeof(info->btf_source), "%s",
		 kernel_image_btf_source(s->image));
	for (size_t i = 0; i < s->tracers.n; i++)
		if (s->tracers.v[i]->ops->describe)
			s->tracers.v[i]->ops->describe(s->tracers.v[i], info);
	info->virt_slide = (int64_t)s->kernel.virt_slide;
	info->text_gpa = s->kernel.phys_text;
	info->page_size = 4096;
	info->stack_bytes = task_stack_bytes(s->image);
	info->from_first_allocation = s->from_first_allocation;
	info->max_rate = s->options.max_rate;
	session_describe_nodes(s, info);
	describe_gaps(&status, info);
	counters_add(&info->counters, &status.counters);
}

static int read_names(struct trace_session *s)
{
	struct kernel_names *names = NULL;
	int ret = guest_hold_to_read(s->guest, NULL);

	s->names_due = false;
	if (ret)
		return ret;
	ret = kernel_names_create(&s->kernel, &names, NULL);
	guest_release(s->guest, 0, NULL);
	if (!ret)
		session_keep_names(s, names);
	return ret;
}

/*
 * Reading all modules' symbols takes some milliseconds. Where each read stops the guest it takes
 * tens of thousands of stops, for which the caller may have to wait while another thread appends
 * records. -EAGAIN: not now.
 */
static int refresh_names(struct trace_session *s)
{
	if (s->guest->caps & GUEST_STOPS_TO_READ ||
	    (s->names && clock_monotonic_ns() - s->names_ns < names_ns))
		return -EAGAIN;
	return read_names(s);
}

void session_keep_names(struct trace_session *s, struct kernel_names *names)
{
	kernel_names_keep(names, s->names);
	s->names = names;
	s->names_ns = clock_monotonic_ns();
	s->names_due = false;
}

void trace_session_modules_changed(struct trace_session *s)
{
	s->names_due = true;
}

static int name_in_image(const struct trace_session *s, uint64_t gva, struct site_function *out)
{
	int ret = kernel_image_lookup(&s->kernel, gva, out->name, sizeof(out->name), &out->start,
				      &out->size);

	if (!ret)
		out->returned.bytes = kernel_image_returned(s->image, out->name, out->returned.name,
							    sizeof(out->returned.name));
	return ret;
}

static int name_in_modules(const struct trace_session *s, uint64_t gva, struct site_function *out)
{
	out->build_id = kernel_names_build_id(s->names, gva);
	return kernel_names_lookup(s->names, gva, out->name, sizeof(out->name), &out->start,
				   &out->size);
}

int trace_session_symbolize_image(void *session, uint64_t gva, struct site_function *out)
{
	const struct trace_session *s = session;

	if (!s->located || !kernel_in_image(&s->kernel, gva))
		return -EAGAIN;
	return name_in_image(s, gva, out);
}

int trace_session_symbolize(void *session, uint64_t gva, struct site_function *out)
{
	struct trace_session *s = session;
	int ret = -ENOENT;

	if (!s->located)
		return ret;
	if (kernel_in_image(&s->kernel, gva))
		return name_in_image(s, gva, out);
	if (s->names_due)
		read_names(s);
	if (s->names)
		ret = name_in_modules(s, gva, out);
	if (ret != -ENOENT)
		return ret;
	ret = refresh_names(s);
	return ret ? ret : name_in_modules(s, gva, out);
}

const char *trace_session_syscall(const struct trace_session *s, uint64_t number)
{
	const struct image_syscalls *calls;

	if (image_syscalls_of(s->image, SYSCALL_64, &calls, NULL))
		return NULL;
	return image_syscall_name(s->image, calls, number);
}

const char *trace_session_must_end(const struct trace_session *s)
{
	const char *leaving = atomic_load(&s->leaving_kernel);
	const struct error *cpus = first_error_get(&s->cpus_differ);

	if (s->crashed)
		return "the guest has crashed, and starts its crash kernel (kdump)";
	return leaving ? leaving : cpus ? cpus->text : NULL;
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

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The recorder's side of the monitor: the operations of its trace verbs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include "formats/hist/hists.h"
#include "formats/profile/profiles.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "vmm/monitor/metrics.h"
#include "vmm/recorder/internal.h"

enum { REFUSALS_MAX = 64 /* of an instance, that are named in a reply */ };

static int monitor_start(void *arg, const char *const *specs, size_t n, struct error *err)
{
	struct recorder *r = arg;
	const char *list[TRACE_MAX_INSTANCES + 1] = {0};
	int ret;

	if (n > TRACE_MAX_INSTANCES)
		return error_set(err, E2BIG, "at most %d trace specs", TRACE_MAX_INSTANCES);
	for (size_t i = 0; i < n; i++)
		list[i] = specs[i];
	pthread_mutex_lock(&r->lock);
	ret = recorder_start_locked(r, n ? list : NULL, err);
	pthread_mutex_unlock(&r->lock);
	if (ret == -EAGAIN)
		error_prefix(err, "not yet, try again: ");
	return ret;
}

static int monitor_stop(void *arg, struct error *err)
{
	struct recorder *r = arg;
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = trace_session_stop(r->session, err);
	pthread_mutex_unlock(&r->lock);
	trace_writer_flush_briefly(r->writer);
	return ret;
}

static int monitor_translate(void *arg, uint64_t gva, uint64_t *gpa, struct error *err)
{
	struct recorder *r = arg;
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = trace_session_translate(r->session, gva, gpa, err);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

/* Without memory these are NULL: an answer with a part missing would tell a client what is not so. */
static json_t *refusals_json(const struct site_refusal *refused, size_t n)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		const struct site_refusal *refusal = &refused[i];
		char address[24];

		snprintf(address, sizeof(address), "0x%" PRIx64, refusal->gva);
		failed |= json_array_append_new(
			list, json_pack("{s:s, s:s, s:s}", "function",
					refusal->function ? refusal->function : "?", "address",
					address, "reason", refusal->reason));
	}
	return json_if_whole(list, failed);
}

static json_t *query_gaps(const struct trace_status *status)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < status->nr_gaps; i++)
		failed |= json_array_append_new(list, json_pack("{s:s, s:s}", "function",
								status->gaps[i].function, "reason",
								status->gaps[i].reason));
	return json_if_whole(list, failed);
}

static int set_count(json_t *object, const char *key, uint64_t value)
{
	return json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *query_vcpus(const struct recorder *r, const struct trace_status *status)
{
	json_t *list = json_array();
	int failed = 0;

	for (unsigned int i = 0; i < r->config.nr_vcpus; i++) {
		struct trace_counters counters = status->vcpus[i];
		struct trace_writer_counts c;
		json_t *vcpu;

		trace_writer_counts(r->writer, i, &c);
		vcpu = json_pack("{s:i}", "index", (int)i);
		failed |= set_count(vcpu, "events", c.events);
		failed |= set_count(vcpu, "allocs", c.allocs);
		failed |= set_count(vcpu, "frees", c.frees);
		counters.v[COUNTER_OVERRUNS] = c.overruns;
		counters.v[COUNTER_DISK_DROPS] = c.disk_drops;
		failed |= counters_put_vcpu(vcpu, &counters);
		failed |= json_array_append_new(list, vcpu);
	}
	return json_if_whole(list, failed);
}

static json_t *query_tracers(const struct trace_status *status)
{
	json_t *list = json_array();
	int failed = 0;

	for (unsigned int i = 0; i < status->nr_specs; i++)
		failed |= json_array_append_new(list, json_string(status->specs[i]));
	return json_if_whole(list, failed);
}

/* Functions whose sites share code, once for each tracer that records them. */
static size_t shared_sites(const struct trace_status *status)
{
	size_t n = 0;

	for (unsigned int i = 0; i < status->nr_specs; i++)
		if (status->instances[i].direct && status->instances[i].active)
			n += status->instances[i].sites;
	return n;
}

static json_t *query_locked(const struct recorder *r)
{
	const struct trace_writer_counts sum = recorder_sum(r);
	struct trace_counters counters;
	struct trace_status status;
	json_t *result, *vcpus;
	int failed = 0;

	trace_session_status(r->session, &status);
	counters = recorder_counters(r, &status);
	vcpus = query_vcpus(r, &status);
	result = json_pack(
		"{s:b, s:s, s:o, s:s, s:{s:I, s:I, s:I, s:o}, s:o}", "enabled", status.enabled,
		"mode", status.exitless ? "exitless" : "trap", "tracers", query_tracers(&status),
		"trace_dir", r->dir, "sites", "entry", (json_int_t)status.entry_sites, "return",
		(json_int_t)status.return_sites, "shared", (json_int_t)shared_sites(&status),
		"refused", refusals_json(status.refused, status.nr_refused), "vcpus", vcpus);
	if (!result)
		return NULL;
	if (r->config.domain)
		failed |= json_object_set_new(result, "domain", json_from_text(r->config.domain));
	failed |= json_object_set_new(result, "gaps", query_gaps(&status));
	failed |= json_object_set_new(result, "virt_slide", json_from_address(status.virt_slide));
	failed |= json_object_set_new(result, "phys_base", json_from_address(status.phys_text));
	failed |= set_count(result, "events", sum.events);
	failed |= set_count(result, "allocs", sum.allocs);
	failed |= set_count(result, "frees", sum.frees);
	failed |= json_object_set_new(result, "events_per_second",
				      json_real(recorder_rate(r, &status)));
	failed |= set_count(result, "max_rate", r->options->max_rate);
	failed |= counters_put(result, &counters);
	failed |= json_object_set_new(result, "no_exitless", json_string(status.no_exitless));
	return json_if_whole(result, failed);
}

json_t *recorder_query(struct recorder *r)
{
	json_t *result, *live = r->live ? live_memory_json(r->live) : NULL;

	pthread_mutex_lock(&r->lock);
	result = query_locked(r);
	pthread_mutex_unlock(&r->lock);
	return json_if_whole(result, r->live && json_object_set_new(result, "live", live));
}

static json_t *monitor_query(void *arg)
{
	return recorder_query(arg);
}

void recorder_put_metrics(struct recorder *r)
{
	json_t *trace = r->metrics ? recorder_query(r) : NULL;
	char *text = NULL;
	size_t size;
	FILE *out = trace ? open_memstream(&text, &size) : NULL;

	if (out)
		metrics_print(out, trace);
	json_decref(trace);
	if (!out || text_stream_close(out))
		free(text);
	else
		metrics_file_put(r->metrics, text);
}

static int change_locked(struct recorder *r, enum monitor_change change, const char *text,
			 struct error *err)
{
	switch (change) {
	case MONITOR_ADD:
		return trace_session_add_instance(r->session, text, err);
	case MONITOR_REMOVE:
		return trace_session_remove_instance(r->session, text, err);
	case MONITOR_REPLACE:
		break;
	}
	return trace_session_replace_instance(r->session, text, err);
}

/* What the user is told of the functions of the newest instance. NULL: nothing. */
static json_t *notes_json(const struct recorder *r, enum monitor_change change)
{
	const struct trace_instance_status *newest;
	struct trace_status status;
	json_t *notes;

	if (change == MONITOR_REMOVE)
		return NULL;
	trace_session_status(r->session, &status);
	newest = &status.instances[status.nr_specs - 1];
	notes = newest->nr_notes ? json_array() : NULL;
	for (size_t i = 0; i < newest->nr_notes; i++)
		json_array_append_new(notes, json_string(newest->notes[i]));
	return notes;
}

/* If the change has switched sites: how many, how often the guest was stopped for that, and for how
 * long. */
static json_t *change_json(const struct trace_switches *change, json_t *notes)
{
	json_t *reply = json_object();

	if (change->times) {
		set_count(reply, "switches", change->times);
		set_count(reply, "switched_sites", change->sites);
		set_count(reply, "switch_ns", change->ns);
	}
	if (notes)
		json_object_set_new(reply, "notes", notes);
	return reply;
}

static int monitor_change(void *arg, enum monitor_change change, const char *text, json_t **reply,
			  struct error *err)
{
	struct recorder *r = arg;
	struct trace_switches before, now, switches;
	json_t *notes;
	int ret;

	pthread_mutex_lock(&r->lock);
	before = trace_session_switches(r->session);
	ret = change_locked(r, change, text, err);
	now = trace_session_switches(r->session);
	notes = ret ? NULL : notes_json(r, change);
	pthread_mutex_unlock(&r->lock);
	switches = trace_switches_since(&now, &before);
	if (!ret)
		*reply = change_json(&switches, notes);
	if (ret == -EAGAIN)
		error_prefix(err, "not yet, try again: ");
	return ret;
}

static json_t *instance_json(const struct trace_instance_status *instance)
{
	json_t *object =
		json_pack("{s:s, s:s, s:s, s:b}", "name", instance->name, "spec", instance->spec,
			  "tracer", instance->tracer, "active", (int)instance->active);

	int failed = 0;

	failed |= set_count(object, "sites", instance->sites);
	failed |= set_count(object, "refused", instance->nr_refused);
	failed |= set_count(object, "lost", instance->lost);
	failed |= json_object_set_new(
		object, "refusals",
		refusals_json(instance->refused, instance->nr_refused < REFUSALS_MAX
							 ? instance->nr_refused
							 : REFUSALS_MAX));
	failed |= json_object_set_new(object, "guest_conditions",
				      json_string(instance->guest_conditions));
	failed |= json_object_set_new(object, "host_conditions",
				      json_string(instance->host_conditions));
	if (instance->waiting)
		failed |= json_object_set_new(object, "waiting", json_string(instance->waiting));
	return json_if_whole(object, failed);
}

static json_t *monitor_instances(void *arg)
{
	struct recorder *r = arg;
	json_t *list = json_array();
	struct trace_status status;
	int failed = 0;

	pthread_mutex_lock(&r->lock);
	trace_session_status(r->session, &status);
	for (unsigned int i = 0; i < status.nr_specs; i++)
		failed |= json_array_append_new(list, instance_json(&status.instances[i]));
	pthread_mutex_unlock(&r->lock);
	return json_if_whole(list, failed);
}

static json_t *monitor_profiles(void *arg, const char *name, struct error *err)
{
	struct recorder *r = arg;
	struct profile_set set;
	json_t *document;
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = recorder_read_profiles(r->session, &set, err);
	pthread_mutex_unlock(&r->lock);
	if (ret)
		return NULL;
	ret = name ? profile_set_keep(&set, name, err) : 0;
	document = ret ? NULL : profile_set_json(&set);
	if (!ret && !document)
		error_set(err, ENOMEM, "out of memory for the answer");
	profile_set_deinit(&set);
	return document;
}

static int monitor_clear_profiles(void *arg, const char *name, struct error *err)
{
	struct recorder *r = arg;
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = recorder_clear_profiles(r->session, name, err);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

static json_t *monitor_hists(void *arg, const char *name, struct error *err)
{
	struct recorder *r = arg;
	struct hist_set set;
	json_t *document;
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = recorder_read_hists(r->session, &set, err);
	pthread_mutex_unlock(&r->lock);
	if (ret)
		return NULL;
	ret = name ? hist_set_keep(&set, name, err) : 0;
	document = ret ? NULL : hist_set_json(&set);
	if (!ret && !document)
		error_set(err, ENOMEM, "out of memory for the answer");
	hist_set_deinit(&set);
	return document;
}

static int monitor_clear_hists(void *arg, const char *name, struct error *err)
{
	struct recorder *r = arg;
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = recorder_clear_hists(r->session, name, err);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

static int monitor_snapshot(void *arg, void **snapshot, struct error *err)
{
	const struct recorder *r = arg;
	struct snapshot *asked;
	int ret;

	if (!r->snapshots)
		return error_set(err, EAGAIN, "not yet, try again: there is no trace");
	ret = snapshots_ask(r->snapshots, &asked, err);
	if (!ret)
		*snapshot = asked;
	return ret;
}

static int monitor_await_snapshot(void *snapshot, struct error *err)
{
	return snapshot_await(snapshot, err);
}

static const struct monitor_trace_ops trace_ops = {.start = monitor_start,
						   .stop = monitor_stop,
						   .query = monitor_query,
						   .snapshot = monitor_snapshot,
						   .await_snapshot = monitor_await_snapshot,
						   .change = monitor_change,
						   .instances = monitor_instances,
						   .profiles = monitor_profiles,
						   .clear_profiles = monitor_clear_profiles,
						   .hists = monitor_hists,
						   .clear_hists = monitor_clear_hists,
						   .translate = monitor_translate};

int recorder_listen(struct recorder *r, struct error *err)
{
	if (!r->options->monitor)
		return 0;
	r->target = (struct monitor_target){.guest = r->guest,
					    .ops = r->ops,
					    .arg = r->arg,
					    .trace = r->dir ? &trace_ops : NULL,
					    .trace_arg = r};
	return monitor_create(r->config.loop, r->options->monitor, &r->target, &r->monitor, err);
}

void recorder_event(struct recorder *r, const char *name, json_t *data)
{
	monitor_event(r->monitor, name, data);
}

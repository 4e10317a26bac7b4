/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verbs that control tracing. */
#include <errno.h>
#include "vmm/monitor/job.h"
#include "vmm/monitor/monitor.h"

enum { MAX_SPECS = 64 };

static bool is_configured(const struct monitor_target *target)
{
	return target->trace;
}

static int check_configured(const struct monitor_call *call, struct error *err)
{
	if (is_configured(call->target))
		return 0;
	return error_set(err, ENOTSUP,
			 "tracing is not configured: start sonde run with --trace or -o");
}

/* An error in a spec has its text, which the call owns. */
static int in_spec(int ret, const char *spec, struct error *err)
{
	if (ret && err->column)
		err->parsed = spec;
	return ret;
}

static int trace_start(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	const json_t *list = json_object_get(call->args, "specs");
	const char *specs[MAX_SPECS];
	size_t n = json_array_size(list);
	int ret = check_configured(call, err);

	if (ret)
		return ret;
	if (n > MAX_SPECS)
		return error_set(err, E2BIG, "trace-start takes at most %d specs", MAX_SPECS);
	for (size_t i = 0; i < n; i++)
		specs[i] = json_string_value(json_array_get(list, i));
	ret = target->trace->start(target->trace_arg, specs, n, err);
	if (n == 1)
		in_spec(ret, specs[0], err);
	if (!ret)
		monitor_event(call->monitor, "TRACE_STARTED", NULL);
	return ret;
}

static int trace_stop(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_configured(call, err);

	if (!ret)
		ret = target->trace->stop(target->trace_arg, err);
	if (!ret)
		monitor_event(call->monitor, "TRACE_STOPPED", NULL);
	return ret;
}

/* With leave. */
static int begin_snapshot(const struct monitor_call *call, void **out,
			  const struct monitor_trace_ops **ops, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_configured(call, err);

	*ops = target->trace;
	return ret ? ret : target->trace->snapshot(target->trace_arg, out, err);
}

/* The main thread does not wait for the disk, also when it takes back the leave. */
static int trace_snapshot(struct monitor_call *call, struct error *err)
{
	const struct monitor_trace_ops *ops;
	void *snapshot;
	int ret = monitor_call_use(call, err);

	if (ret)
		return ret;
	ret = begin_snapshot(call, &snapshot, &ops, err);
	monitor_call_done(call);
	return ret ? ret : ops->await_snapshot(snapshot, err);
}

static int query_trace(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_configured(call, err);

	if (ret)
		return ret;
	call->result = target->trace->query(target->trace_arg);
	return call->result ? 0 : error_set(err, ENOMEM, "out of memory for the answer");
}

/* --- instances ------------------------------------------------------------------------------- */

static bool has_instances(const struct monitor_target *target)
{
	return target->trace && target->trace->change;
}

static int change(struct monitor_call *call, enum monitor_change what, const char *key,
		  struct error *err)
{
	const struct monitor_target *target = call->target;
	const char *text = json_string_value(json_object_get(call->args, key));
	int ret = check_configured(call, err);

	if (!ret && !has_instances(target))
		return error_set(err, ENOTSUP, "this guest's tracers cannot be changed");
	if (!ret)
		ret = in_spec(
			target->trace->change(target->trace_arg, what, text, &call->result, err),
			text, err);
	if (!ret)
		monitor_event(call->monitor, "TRACE_CHANGED", NULL);
	return ret;
}

static int trace_add(struct monitor_call *call, struct error *err)
{
	return change(call, MONITOR_ADD, "spec", err);
}

static int trace_remove(struct monitor_call *call, struct error *err)
{
	return change(call, MONITOR_REMOVE, "name", err);
}

static int trace_set(struct monitor_call *call, struct error *err)
{
	return change(call, MONITOR_REPLACE, "spec", err);
}

static int query_instances(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_configured(call, err);

	if (!ret && !has_instances(target))
		return error_set(err, ENOTSUP, "this guest's tracers cannot be changed");
	if (ret)
		return ret;
	call->result = target->trace->instances(target->trace_arg);
	return call->result ? 0 : error_set(err, ENOMEM, "out of memory for the answer");
}

/* --- profiles -------------------------------------------------------------------------------- */

static bool has_profiles(const struct monitor_target *target)
{
	return target->trace && target->trace->profiles;
}

static int check_profiles(const struct monitor_call *call, struct error *err)
{
	int ret = check_configured(call, err);

	if (ret || has_profiles(call->target))
		return ret;
	return error_set(err, ENOTSUP, "this guest's functions cannot be profiled");
}

static const char *instance_name(const struct monitor_call *call)
{
	return json_string_value(json_object_get(call->args, "name"));
}

static int query_profile(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_profiles(call, err);

	if (ret)
		return ret;
	call->result = target->trace->profiles(target->trace_arg, instance_name(call), err);
	return call->result ? 0 : -err->code;
}

static int profile_clear(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_profiles(call, err);

	return ret ? ret
		   : target->trace->clear_profiles(target->trace_arg, instance_name(call), err);
}

/* --- histograms ------------------------------------------------------------------------------ */

static bool has_hists(const struct monitor_target *target)
{
	return target->trace && target->trace->hists;
}

static int check_hists(const struct monitor_call *call, struct error *err)
{
	int ret = check_configured(call, err);

	if (ret || has_hists(call->target))
		return ret;
	return error_set(err, ENOTSUP, "of this guest's events there are no histograms");
}

static int query_hist(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_hists(call, err);

	if (ret)
		return ret;
	call->result = target->trace->hists(target->trace_arg, instance_name(call), err);
	return call->result ? 0 : -err->code;
}

static int hist_clear(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	int ret = check_hists(call, err);

	return ret ? ret : target->trace->clear_hists(target->trace_arg, instance_name(call), err);
}

static const struct monitor_arg instance_args[] = {
	{.name = "name", .type = MONITOR_ARG_STRING},
	{0},
};

static const struct monitor_arg spec_args[] = {
	{.name = "spec", .type = MONITOR_ARG_STRING, .required = true},
	{0},
};

static const struct monitor_arg name_args[] = {
	{.name = "name", .type = MONITOR_ARG_STRING, .required = true},
	{0},
};

static const struct monitor_arg trace_start_args[] = {
	{.name = "specs", .type = MONITOR_ARG_STRINGS},
	{0},
};

const struct monitor_verb monitor_trace_verbs[] = {
	{.name = "trace-start",
	 .help = "begin tracing; without specs, those of the command line",
	 .args = trace_start_args,
	 .offered = is_configured,
	 .run = trace_start},
	{.name = "trace-stop",
	 .help = "end tracing and restore the guest's code",
	 .offered = is_configured,
	 .run = trace_stop},
	{.name = "trace-snapshot",
	 .help = "write to the trace what a flight recorder keeps",
	 .aside = true,
	 .offered = is_configured,
	 .run = trace_snapshot},
	{.name = "query-trace",
	 .help = "show counts, losses and patched sites",
	 .offered = is_configured,
	 .run = query_trace},
	{.name = "trace-add",
	 .help = "trace with one more tracer",
	 .args = spec_args,
	 .offered = has_instances,
	 .run = trace_add},
	{.name = "trace-remove",
	 .help = "trace without a tracer; the others go on",
	 .args = name_args,
	 .offered = has_instances,
	 .run = trace_remove},
	{.name = "trace-set",
	 .help = "replace the tracer of the same name",
	 .args = spec_args,
	 .offered = has_instances,
	 .run = trace_set},
	{.name = "query-instances",
	 .help = "show the tracers, and how many functions each records",
	 .offered = has_instances,
	 .run = query_instances},
	{.name = "query-profile",
	 .help = "show how often profiled functions were called, and for how long",
	 .args = instance_args,
	 .offered = has_profiles,
	 .run = query_profile},
	{.name = "profile-clear",
	 .help = "profile from zero again",
	 .args = instance_args,
	 .offered = has_profiles,
	 .run = profile_clear},
	{.name = "query-hist",
	 .help = "show the histograms of events",
	 .args = instance_args,
	 .offered = has_hists,
	 .run = query_hist},
	{.name = "hist-clear",
	 .help = "begin histograms from zero again",
	 .args = instance_args,
	 .offered = has_hists,
	 .run = hist_clear},
	{0},
};

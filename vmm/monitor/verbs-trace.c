/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/verbs.h"

#include <errno.h>

enum { MAX_SPECS = 64 };

static int need_ops(const struct monitor_trace *trace, struct error *err)
{
	if (trace->ops)
		return 0;
	return error_set(err, ENOTSUP,
			 "tracing is not configured: start sonde run with --trace or -o");
}

static int trace_start(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_trace *trace = ctx;
	const json_t *list = json_object_get(args, "specs");
	const char *specs[MAX_SPECS];
	size_t n = json_array_size(list);
	int ret = need_ops(trace, err);

	(void)result;
	if (ret)
		return ret;
	if (n > MAX_SPECS)
		return error_set(err, E2BIG, "trace-start takes at most %d specs", MAX_SPECS);
	for (size_t i = 0; i < n; i++)
		specs[i] = json_string_value(json_array_get(list, i));
	ret = trace->ops->start(trace->arg, specs, n, err);
	if (!ret)
		monitor_event(trace->monitor, "TRACE_STARTED", NULL);
	return ret;
}

static int trace_stop(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_trace *trace = ctx;
	int ret = need_ops(trace, err);

	(void)args;
	(void)result;
	if (!ret)
		ret = trace->ops->stop(trace->arg, err);
	if (!ret)
		monitor_event(trace->monitor, "TRACE_STOPPED", NULL);
	return ret;
}

static int query_trace(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_trace *trace = ctx;
	int ret = need_ops(trace, err);

	(void)args;
	if (ret)
		return ret;
	*result = trace->ops->query(trace->arg);
	return *result ? 0 : error_set(err, ENOMEM, "out of memory for the answer");
}

static const struct monitor_arg trace_start_args[] = {
	{.name = "specs", .type = MONITOR_ARG_STRINGS},
	{0},
};

static const struct monitor_verb trace_verbs[] = {
	{.name = "trace-start",
	 .help = "begin tracing; without specs, what the command line told to trace",
	 .args = trace_start_args,
	 .run = trace_start},
	{.name = "trace-stop",
	 .help = "end tracing and restore the guest's code",
	 .run = trace_stop},
	{.name = "query-trace",
	 .help = "show counts, losses and patched sites",
	 .run = query_trace},
};

int monitor_verbs_trace_register(struct monitor *monitor, const struct monitor_trace *trace,
				 struct error *err)
{
	return monitor_register_all(monitor, trace_verbs,
				    sizeof(trace_verbs) / sizeof(trace_verbs[0]), (void *)trace,
				    err);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verbs that see and change how the guest runs. */
#include <errno.h>
#include <string.h>
#include "formats/base/json.h"
#include "vmm/monitor/verb.h"

static int query_status(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	const char *status = target->ops->status(target->arg);

	(void)err;
	call->result =
		json_pack("{s:s,s:b}", "status", status, "running", !strcmp(status, "running"));
	return 0;
}

static bool has_threads(const struct monitor_target *target)
{
	return target->ops->thread_id;
}

static int query_cpus_fast(struct monitor_call *call, struct error *err)
{
	const struct monitor_target *target = call->target;
	json_t *list;
	int failed = 0;

	if (!has_threads(target))
		return error_set(err, ENOTSUP, "the vCPUs' threads belong to another process");
	list = json_array();
	for (unsigned int i = 0; i < target->guest->nr_vcpus; i++)
		failed |= json_array_append_new(
			list, json_pack("{s:i,s:i}", "cpu-index", (int)i, "thread-id",
					(int)target->ops->thread_id(target->arg, i)));
	call->result = json_if_whole(list, failed);
	return call->result ? 0 : error_set(err, ENOMEM, "out of memory for the answer");
}

static bool pauses(const struct monitor_target *target)
{
	return target->ops->pauses;
}

/* As in QEMU, stopping a stopped guest is no error. */
static int stop(struct monitor_call *call, struct error *err)
{
	int ret = call->target->ops->pause(call->target->arg, err);

	return ret == -EALREADY ? 0 : ret;
}

static int cont(struct monitor_call *call, struct error *err)
{
	int ret = call->target->ops->resume(call->target->arg, err);

	return ret == -EALREADY ? 0 : ret;
}

static int quit(struct monitor_call *call, struct error *err)
{
	(void)err;
	call->target->ops->quit(call->target->arg);
	return 0;
}

const struct monitor_verb monitor_guest_verbs[] = {
	{.name = "query-status", .help = "show whether the guest runs", .run = query_status},
	{.name = "query-cpus-fast",
	 .help = "list the vCPUs and their host threads",
	 .offered = has_threads,
	 .run = query_cpus_fast},
	{.name = "stop", .help = "pause the guest", .offered = pauses, .run = stop},
	{.name = "cont", .help = "let a paused guest go on", .offered = pauses, .run = cont},
	{.name = "quit", .help = "complete the trace, and end the run or detach", .run = quit},
	{0},
};

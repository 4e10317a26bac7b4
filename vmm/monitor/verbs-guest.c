/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/verbs.h"

#include <errno.h>
#include <string.h>

static int query_status(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_machine *machine = ctx;
	const char *status = machine->status(machine->arg);

	(void)args;
	(void)err;
	*result = json_pack("{s:s,s:b}", "status", status, "running", !strcmp(status, "running"));
	return 0;
}

static int query_cpus_fast(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_machine *machine = ctx;
	json_t *list = json_array();

	(void)args;
	(void)err;
	for (unsigned int i = 0; i < machine->guest->nr_vcpus; i++)
		json_array_append_new(list, json_pack("{s:i,s:i}", "cpu-index", (int)i, "thread-id",
						      (int)machine->thread_id(machine->arg, i)));
	*result = list;
	return 0;
}

/* As in QEMU, stopping what is stopped is no error. */
static int stop(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_machine *machine = ctx;
	int ret = machine->pause(machine->arg, err);

	(void)args;
	(void)result;
	return ret == -EALREADY ? 0 : ret;
}

static int cont(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_machine *machine = ctx;
	int ret = machine->resume(machine->arg, err);

	(void)args;
	(void)result;
	return ret == -EALREADY ? 0 : ret;
}

static int quit(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const struct monitor_machine *machine = ctx;

	(void)args;
	(void)result;
	(void)err;
	machine->quit(machine->arg);
	return 0;
}

static const struct monitor_verb vm_verbs[] = {
	{.name = "query-status", .help = "show whether the guest runs", .run = query_status},
	{.name = "query-cpus-fast",
	 .help = "list the vCPUs and their host threads",
	 .run = query_cpus_fast},
	{.name = "stop", .help = "pause the guest", .run = stop},
	{.name = "cont", .help = "let a paused guest go on", .run = cont},
	{.name = "quit", .help = "end the run; a trace is finished first", .run = quit},
};

int monitor_verbs_vm_register(struct monitor *monitor, const struct monitor_machine *machine,
			      struct error *err)
{
	return monitor_register_all(monitor, vm_verbs, sizeof(vm_verbs) / sizeof(vm_verbs[0]),
				    (void *)machine, err);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/verbs.h"

#include <errno.h>
#include "vmm/monitor/message.h"

/* The monitor itself keeps track of who has negotiated; here only the argument is judged. */
static int qmp_capabilities(void *ctx, json_t *args, json_t **result, struct error *err)
{
	const json_t *first = json_array_get(json_object_get(args, "enable"), 0);

	(void)ctx;
	(void)result;
	if (first)
		return error_set(err, EINVAL, "there is no capability '%.64s'",
				 json_string_value(first));
	return 0;
}

static int query_commands(void *ctx, json_t *args, json_t **result, struct error *err)
{
	(void)args;
	(void)err;
	*result = monitor_verbs_describe(ctx);
	return 0;
}

static int query_version(void *ctx, json_t *args, json_t **result, struct error *err)
{
	(void)ctx;
	(void)args;
	(void)err;
	*result = qmp_version();
	return 0;
}

static const struct monitor_arg capabilities_args[] = {
	{.name = "enable", .type = MONITOR_ARG_STRINGS},
	{0},
};

static const struct monitor_verb self_verbs[] = {
	{.name = "qmp_capabilities",
	 .help = "negotiate capabilities; the first command of a connection",
	 .args = capabilities_args,
	 .run = qmp_capabilities},
	{.name = "query-commands", .help = "list the commands", .run = query_commands},
	{.name = "query-version", .help = "show Sonde's version", .run = query_version},
};

int monitor_verbs_self_register(struct monitor *monitor, struct monitor_verbs *verbs,
				struct error *err)
{
	return monitor_register_all(monitor, self_verbs, sizeof(self_verbs) / sizeof(self_verbs[0]),
				    verbs, err);
}

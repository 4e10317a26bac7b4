/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/call-choice.h"

#include <string.h>

/* What filters see of a call. */
struct filtered {
	uint64_t ip, parent_ip, cgroup, duration, self;
	int64_t ret;
	uint32_t pid, tgid, depth, returned;
	char comm[16];
};

#define FIELD(name_, type_, member)                                                           \
	{                                                                                     \
		.name = name_, .type = type_, .size = sizeof(((struct filtered *)0)->member), \
		.at = offsetof(struct filtered, member)                                       \
	}

static const struct call_field known[] = {
	{FIELD("name", EVENT_FUNCTION, ip), NULL, false},
	{FIELD("ip", EVENT_FUNCTION, ip), NULL, false},
	{FIELD("parent_ip", EVENT_CODE, parent_ip), NULL, false},
	{FIELD("pid", EVENT_UINT, pid), NULL, false},
	{FIELD("depth", EVENT_UINT, depth), NULL, false},
	{FIELD("returned", EVENT_UINT, returned), NULL, false},
	{FIELD("tgid", EVENT_UINT, tgid), "tgid", false},
	{FIELD("comm", EVENT_STRING, comm), "comm", false},
	{FIELD("cgroup", EVENT_UINT, cgroup), "cgroup", false},
	{FIELD("duration", EVENT_UINT, duration), NULL, true},
	{FIELD("self", EVENT_UINT, self), NULL, true},
	{FIELD("ret", EVENT_INT, ret), "result", true},
};

enum { NR_KNOWN = sizeof(known) / sizeof(known[0]) };
_Static_assert((int)NR_KNOWN <= CALL_FILTER_MAX_FIELDS, "all of them may be recorded");

static const struct call_kind calls = {"graph", known, NR_KNOWN, sizeof(struct filtered)};

int graph_choice_create(const struct event_filters *filters, const struct trace_instance *instance,
			struct event_texts *texts, struct call_filter **out, struct error *err)
{
	return call_filter_create(filters, &calls, instance, event_texts_names(texts), out, err);
}

bool graph_choice_has(const struct call_filter *choice, const struct graph_call *call, bool seen)
{
	struct filtered bytes = {.ip = call->ip,
				 .parent_ip = call->parent_ip,
				 .cgroup = call->cgroup,
				 .pid = call->pid,
				 .tgid = call->tgid,
				 .depth = call->depth,
				 .returned = seen};

	if (!choice)
		return true;
	memcpy(bytes.comm, call->comm, sizeof(bytes.comm));
	if (seen) {
		bytes.duration = graph_call_ns(call);
		bytes.self = graph_call_self_ns(call);
		bytes.ret = graph_call_result(call);
	}
	return call_filter_matches(choice, seen, call->vcpu, &bytes);
}

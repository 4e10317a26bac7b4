/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/call-choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"

/* What filters see of a call. */
struct filtered {
	uint64_t ip, parent_ip, cgroup, duration, self;
	int64_t ret;
	uint32_t pid, tgid, depth;
	char comm[16];
};

#define FIELD(name_, type_, member)                                                           \
	{                                                                                     \
		.name = name_, .type = type_, .size = sizeof(((struct filtered *)0)->member), \
		.at = offsetof(struct filtered, member)                                       \
	}

/* `recorded`: the field of the instance's events that it comes from; NULL: each has it. */
static const struct {
	const char *recorded;
	struct event_field field;
} known[] = {
	{NULL, FIELD("name", EVENT_FUNCTION, ip)},
	{NULL, FIELD("ip", EVENT_FUNCTION, ip)},
	{NULL, FIELD("parent_ip", EVENT_CODE, parent_ip)},
	{NULL, FIELD("pid", EVENT_UINT, pid)},
	{NULL, FIELD("depth", EVENT_UINT, depth)},
	{NULL, FIELD("duration", EVENT_UINT, duration)},
	{NULL, FIELD("self", EVENT_UINT, self)},
	{"tgid", FIELD("tgid", EVENT_UINT, tgid)},
	{"comm", FIELD("comm", EVENT_STRING, comm)},
	{"cgroup", FIELD("cgroup", EVENT_UINT, cgroup)},
	{"result", FIELD("ret", EVENT_INT, ret)},
};

enum { NR_KNOWN = sizeof(known) / sizeof(known[0]) };

struct graph_choice {
	const struct event_filters *filters;
	struct event_field fields[NR_KNOWN];
	struct event_class class;
	struct event_predicate **predicates; /* of the filters */
};

static bool is_recorded(const struct trace_instance *instance, const char *name)
{
	for (size_t i = 0; name && i < instance->nr_classes; i++)
		if (event_field_find(&instance->classes[i], name))
			return true;
	return !name;
}

static void make_class(struct graph_choice *choice, const struct trace_instance *instance)
{
	size_t n = 0;

	for (size_t i = 0; i < NR_KNOWN; i++)
		if (is_recorded(instance, known[i].recorded))
			choice->fields[n++] = known[i].field;
	choice->class = (struct event_class){.system = "graph",
					     .name = "call",
					     .fields = choice->fields,
					     .nr_fields = n,
					     .size = sizeof(struct filtered)};
}

int graph_choice_create(const struct event_filters *filters, const struct trace_instance *instance,
			struct event_texts *texts, struct graph_choice **out, struct error *err)
{
	struct graph_choice *choice = calloc(1, sizeof(*choice));
	int ret;

	if (!choice)
		return error_set(err, ENOMEM, "out of memory");
	choice->filters = filters;
	make_class(choice, instance);
	ret = event_filters_bind(filters, &(const struct event_class *){&choice->class}, 1,
				 event_texts_names(texts), &choice->predicates, err);
	if (ret)
		graph_choice_destroy(choice);
	else
		*out = choice;
	return ret;
}

void graph_choice_destroy(struct graph_choice *choice)
{
	if (!choice)
		return;
	event_predicates_destroy(choice->predicates, choice->predicates ? choice->filters->n : 0);
	free(choice);
}

bool graph_choice_has(const struct graph_choice *choice, const struct graph_call *call, bool seen)
{
	struct filtered bytes = {.ip = call->ip,
				 .parent_ip = call->parent_ip,
				 .cgroup = call->cgroup,
				 .pid = call->pid,
				 .tgid = call->tgid,
				 .depth = call->depth};

	if (!choice)
		return true;
	memcpy(bytes.comm, call->comm, sizeof(bytes.comm));
	if (seen) {
		bytes.duration = graph_call_ns(call);
		bytes.self = graph_call_self_ns(call);
		bytes.ret = graph_call_result(call);
	}
	return event_predicates_match_any(
		choice->predicates, choice->filters->n,
		&(struct event){.class = &choice->class, .vcpu = call->vcpu, .bytes = &bytes});
}

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
	uint32_t pid, tgid, depth, returned;
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
	bool needs_return;
} known[] = {
	{NULL, FIELD("name", EVENT_FUNCTION, ip), false},
	{NULL, FIELD("ip", EVENT_FUNCTION, ip), false},
	{NULL, FIELD("parent_ip", EVENT_CODE, parent_ip), false},
	{NULL, FIELD("pid", EVENT_UINT, pid), false},
	{NULL, FIELD("depth", EVENT_UINT, depth), false},
	{NULL, FIELD("returned", EVENT_UINT, returned), false},
	{"tgid", FIELD("tgid", EVENT_UINT, tgid), false},
	{"comm", FIELD("comm", EVENT_STRING, comm), false},
	{"cgroup", FIELD("cgroup", EVENT_UINT, cgroup), false},
	{NULL, FIELD("duration", EVENT_UINT, duration), true},
	{NULL, FIELD("self", EVENT_UINT, self), true},
	{"result", FIELD("ret", EVENT_INT, ret), true},
};

/* Calls whose return the trace has, and others. */
enum { RETURNED, UNRETURNED, NR_KINDS };

enum { NR_KNOWN = sizeof(known) / sizeof(known[0]) };

/* Those of calls that have returned are the last ones. */
struct graph_choice {
	const struct event_filters *filters;
	struct event_field fields[NR_KNOWN];
	struct event_class classes[NR_KINDS];
	struct event_predicate **predicates; /* of the filters, for each of the classes */
};

static void make_classes(struct graph_choice *choice, const struct trace_instance *instance)
{
	size_t n = 0, of_all = 0;

	for (size_t i = 0; i < NR_KNOWN; i++) {
		if (known[i].recorded && !trace_instance_has_field(instance, known[i].recorded))
			continue;
		choice->fields[n++] = known[i].field;
		of_all += !known[i].needs_return;
	}
	choice->classes[RETURNED] = (struct event_class){.system = "graph",
							 .name = "call",
							 .fields = choice->fields,
							 .nr_fields = n,
							 .size = sizeof(struct filtered)};
	choice->classes[UNRETURNED] = choice->classes[RETURNED];
	choice->classes[UNRETURNED].nr_fields = of_all;
}

int graph_choice_create(const struct event_filters *filters, const struct trace_instance *instance,
			struct event_texts *texts, struct graph_choice **out, struct error *err)
{
	struct graph_choice *choice = calloc(1, sizeof(*choice));
	int ret;

	if (!choice)
		return error_set(err, ENOMEM, "out of memory");
	choice->filters = filters;
	make_classes(choice, instance);
	ret = event_filters_bind(filters,
				 (const struct event_class *[]){&choice->classes[RETURNED],
								&choice->classes[UNRETURNED]},
				 NR_KINDS, event_texts_names(texts), &choice->predicates, err);
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
	event_predicates_destroy(choice->predicates,
				 choice->predicates ? NR_KINDS * choice->filters->n : 0);
	free(choice);
}

bool graph_choice_has(const struct graph_choice *choice, const struct graph_call *call, bool seen)
{
	struct filtered bytes = {.ip = call->ip,
				 .parent_ip = call->parent_ip,
				 .cgroup = call->cgroup,
				 .pid = call->pid,
				 .tgid = call->tgid,
				 .depth = call->depth,
				 .returned = seen};
	const unsigned int kind = seen ? RETURNED : UNRETURNED;

	if (!choice)
		return true;
	memcpy(bytes.comm, call->comm, sizeof(bytes.comm));
	if (seen) {
		bytes.duration = graph_call_ns(call);
		bytes.self = graph_call_self_ns(call);
		bytes.ret = graph_call_result(call);
	}
	return event_predicates_match_any(
		choice->predicates + kind * choice->filters->n, choice->filters->n,
		&(struct event){
			.class = &choice->classes[kind], .vcpu = call->vcpu, .bytes = &bytes});
}

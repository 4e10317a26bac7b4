/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/syscalls/call-choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/task.h"
#include "formats/syscalls/prototypes.h"

/* What filters see of a call. */
struct filtered {
	struct syscall_event event; /* the result in `call` */
	uint64_t duration;
	uint32_t returned;
};

#define FIELD(name_, type_, member)                                                           \
	{                                                                                     \
		.name = name_, .type = type_, .size = sizeof(((struct filtered *)0)->member), \
		.at = offsetof(struct filtered, member)                                       \
	}
#define ARGUMENT(n) FIELD("arg" #n, EVENT_HEX, event.args[n])

static const struct event_field call_fields[] = {
	FIELD("name", EVENT_FUNCTION, event.call.call.ip),
	FIELD("pid", EVENT_UINT, event.call.call.pid),
	/* if they are recorded */
	FIELD("tgid", EVENT_UINT, event.call.call.tgid),
	FIELD("comm", EVENT_STRING, event.call.call.comm),
	FIELD("cgroup", EVENT_UINT, event.call.call.cgroup),
	ARGUMENT(0),
	ARGUMENT(1),
	ARGUMENT(2),
	ARGUMENT(3),
	ARGUMENT(4),
	ARGUMENT(5),
	FIELD("returned", EVENT_UINT, returned),
	/* of calls whose return the trace has */
	FIELD("ret", EVENT_INT, event.call.result),
	FIELD("duration", EVENT_UINT, duration),
};

enum { NR_FIELDS = sizeof(call_fields) / sizeof(call_fields[0]), NR_OF_RETURNED = 2 };

/* Calls whose return the trace has, and others. */
enum { RETURNED, UNRETURNED, NR_KINDS };

struct syscall_choice {
	const struct event_filters *filters;
	const struct cli_vcpus *vcpus;
	struct event_texts *texts;
	struct event_names names;
	struct event_field fields[NR_FIELDS];
	struct event_class classes[NR_KINDS];
	struct event_predicate *
		*predicates; /* of the filters, for each of the classes; NULL: all */
};

static void filter_text(void *arg, const struct event_field *field, uint64_t value, char *out,
			size_t size)
{
	const struct syscall_choice *choice = arg;

	(void)field;
	snprintf(out, size, "%s", syscall_name_of(event_texts_function(choice->texts, value)));
}

static void make_classes(struct syscall_choice *choice, const struct trace_instance *instance)
{
	size_t n = 0;

	for (size_t i = 0; i < NR_FIELDS; i++)
		if (!event_task_has_field(call_fields[i].name) ||
		    trace_instance_has_field(instance, call_fields[i].name))
			choice->fields[n++] = call_fields[i];
	choice->classes[RETURNED] = (struct event_class){.system = "syscalls",
							 .name = "call",
							 .fields = choice->fields,
							 .nr_fields = n,
							 .size = sizeof(struct filtered)};
	choice->classes[UNRETURNED] = choice->classes[RETURNED];
	choice->classes[UNRETURNED].nr_fields -= NR_OF_RETURNED;
}

int syscall_choice_create(const struct event_filters *filters, const struct cli_vcpus *vcpus,
			  const struct trace_instance *instance, struct event_texts *texts,
			  struct syscall_choice **out, struct error *err)
{
	struct syscall_choice *choice = calloc(1, sizeof(*choice));
	int ret = 0;

	if (!choice)
		return error_set(err, ENOMEM, "out of memory");
	*choice = (struct syscall_choice){.filters = filters,
					  .vcpus = vcpus,
					  .texts = texts,
					  .names = {.arg = choice, .text = filter_text}};
	make_classes(choice, instance);
	if (filters && filters->n)
		ret = event_filters_bind(
			filters,
			(const struct event_class *[]){&choice->classes[RETURNED],
						       &choice->classes[UNRETURNED]},
			NR_KINDS, &choice->names, &choice->predicates, err);
	if (ret)
		syscall_choice_destroy(choice);
	else
		*out = choice;
	return ret;
}

void syscall_choice_destroy(struct syscall_choice *choice)
{
	if (!choice)
		return;
	event_predicates_destroy(choice->predicates,
				 choice->predicates ? NR_KINDS * choice->filters->n : 0);
	free(choice);
}

bool syscall_choice_has(const struct syscall_choice *choice, const struct syscall_call *call)
{
	const unsigned int kind = call->end == SYSCALL_RETURNED ? RETURNED : UNRETURNED;
	struct filtered bytes = {.event.call.call = {.ip = call->ip,
						     .pid = call->pid,
						     .tgid = call->tgid,
						     .cgroup = call->cgroup},
				 .returned = kind == RETURNED};
	const struct event event = {
		.class = &choice->classes[kind], .vcpu = call->vcpu, .bytes = &bytes};

	if (choice->vcpus && !cli_vcpus_have(choice->vcpus, call->vcpu))
		return false;
	if (!choice->predicates)
		return true;
	memcpy(bytes.event.args, call->args, sizeof(call->args));
	memcpy(bytes.event.call.call.comm, call->comm, sizeof(call->comm));
	if (kind == RETURNED) {
		bytes.event.call.result = (uint64_t)call->result;
		bytes.duration = (uint64_t)(call->end_ns - call->begin_ns);
	}
	return event_predicates_match_any(choice->predicates + kind * choice->filters->n,
					  choice->filters->n, &event);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/syscalls/call-choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

enum { RETURNED, UNRETURNED, NR_KINDS };

static const struct event_class call_classes[NR_KINDS] = {
	[RETURNED] = {.system = "syscalls",
		      .name = "call",
		      .fields = call_fields,
		      .nr_fields = NR_FIELDS,
		      .size = sizeof(struct filtered)},
	[UNRETURNED] = {.system = "syscalls",
			.name = "call",
			.fields = call_fields,
			.nr_fields = NR_FIELDS - NR_OF_RETURNED,
			.size = sizeof(struct filtered)},
};

struct syscall_choice {
	const struct event_filters *filters;
	const struct cli_vcpus *vcpus;
	struct event_texts *texts;
	struct event_names names;
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

int syscall_choice_create(const struct event_filters *filters, const struct cli_vcpus *vcpus,
			  struct event_texts *texts, struct syscall_choice **out,
			  struct error *err)
{
	struct syscall_choice *choice = calloc(1, sizeof(*choice));
	int ret = 0;

	if (!choice)
		return error_set(err, ENOMEM, "out of memory");
	*choice = (struct syscall_choice){.filters = filters,
					  .vcpus = vcpus,
					  .texts = texts,
					  .names = {.arg = choice, .text = filter_text}};
	if (filters && filters->n)
		ret = event_filters_bind(filters,
					 (const struct event_class *[]){&call_classes[RETURNED],
									&call_classes[UNRETURNED]},
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
		.class = &call_classes[kind], .vcpu = call->vcpu, .bytes = &bytes};

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

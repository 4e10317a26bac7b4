/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/syscalls/call-choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/filter/call-filter.h"
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
#define ARGUMENT(n)                                                    \
	{                                                              \
		FIELD("arg" #n, EVENT_HEX, event.args[n]), NULL, false \
	}

static const struct call_field known[] = {
	{FIELD("name", EVENT_FUNCTION, event.call.call.ip), NULL, false},
	{FIELD("pid", EVENT_UINT, event.call.call.pid), NULL, false},
	{FIELD("tgid", EVENT_UINT, event.call.call.tgid), "tgid", false},
	{FIELD("comm", EVENT_STRING, event.call.call.comm), "comm", false},
	{FIELD("cgroup", EVENT_UINT, event.call.call.cgroup), "cgroup", false},
	ARGUMENT(0),
	ARGUMENT(1),
	ARGUMENT(2),
	ARGUMENT(3),
	ARGUMENT(4),
	ARGUMENT(5),
	{FIELD("returned", EVENT_UINT, returned), NULL, false},
	{FIELD("ret", EVENT_INT, event.call.result), NULL, true},
	{FIELD("duration", EVENT_UINT, duration), NULL, true},
};

enum { NR_KNOWN = sizeof(known) / sizeof(known[0]) };
_Static_assert((int)NR_KNOWN <= CALL_FILTER_MAX_FIELDS, "all of them may be recorded");

static const struct call_kind calls = {"syscalls", known, NR_KNOWN, sizeof(struct filtered)};

struct syscall_choice {
	const struct cli_vcpus *vcpus;
	struct event_texts *texts;
	struct event_names names;
	struct call_filter *filter; /* NULL: all */
};

static void filter_text(void *arg, const struct event_field *field, uint64_t value, char *out,
			size_t size)
{
	const struct syscall_choice *choice = arg;

	(void)field;
	snprintf(out, size, "%s", syscall_name_of(event_texts_function(choice->texts, value)));
}

int syscall_choice_create(const struct event_filters *filters, const struct cli_vcpus *vcpus,
			  const struct trace_instance *instance, struct event_texts *texts,
			  struct syscall_choice **out, struct error *err)
{
	struct syscall_choice *choice = calloc(1, sizeof(*choice));
	int ret = 0;

	if (!choice)
		return error_set(err, ENOMEM, "out of memory");
	*choice = (struct syscall_choice){
		.vcpus = vcpus, .texts = texts, .names = {.arg = choice, .text = filter_text}};
	if (filters && filters->n)
		ret = call_filter_create(filters, &calls, instance, &choice->names, &choice->filter,
					 err);
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
	call_filter_destroy(choice->filter);
	free(choice);
}

bool syscall_choice_has(const struct syscall_choice *choice, const struct syscall_call *call)
{
	const bool returned = call->end == SYSCALL_RETURNED;
	struct filtered bytes = {.event.call.call = {.ip = call->ip,
						     .pid = call->pid,
						     .tgid = call->tgid,
						     .cgroup = call->cgroup},
				 .returned = returned};

	if (choice->vcpus && !cli_vcpus_have(choice->vcpus, call->vcpu))
		return false;
	if (!choice->filter)
		return true;
	memcpy(bytes.event.args, call->args, sizeof(call->args));
	memcpy(bytes.event.call.call.comm, call->comm, sizeof(call->comm));
	if (returned) {
		bytes.event.call.result = (uint64_t)call->result;
		bytes.duration = (uint64_t)(call->end_ns - call->begin_ns);
	}
	return call_filter_matches(choice->filter, returned, call->vcpu, &bytes);
}

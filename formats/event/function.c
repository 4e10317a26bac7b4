/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include "formats/event/function-fields.h"

#define CLASS(fields_)                                                              \
	{                                                                           \
		.system = "function", .name = "function", .fields = fields_,        \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = 2, \
	}

static const struct event_class without_caller = CLASS(function_ip);
static const struct event_class with_caller = CLASS(function_ip_parent);

#define AT(member) offsetof(struct function_event, member)

static const struct event_task_places places = {
	.pid = AT(pid),
	.tgid = AT(tgid),
	.comm = AT(comm),
	.cgroup = AT(cgroup),
	.stack = offsetof(struct function_stack_event, stack),
};

static struct event_class classes[FUNCTION_SETS];
static struct event_field class_fields[FUNCTION_SETS][EVENT_TASK_FIELDS + 2];

static void make_classes(void)
{
	for (unsigned int fields = 0; fields < FUNCTION_SETS; fields++) {
		event_class_add_task(fields & FUNCTION_PARENT ? &with_caller : &without_caller,
				     fields, &places, class_fields[fields], &classes[fields]);
		classes[fields].size = fields & FUNCTION_STACK ? sizeof(struct function_stack_event)
							       : sizeof(struct function_event);
	}
}

const struct event_class *function_class(unsigned int fields)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_classes);
	return &classes[fields & (FUNCTION_SETS - 1)];
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/syscalls/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

enum { MAX_OPEN = 1 << 20 /* a trace of nonsense gets no more memory */ };

struct syscall_calls {
	syscall_visit_fn *visit;
	void *arg;
	struct u64_map open; /* by frame: struct syscall_call */
};

int syscall_calls_create(syscall_visit_fn *visit, void *arg, struct syscall_calls **out,
			 struct error *err)
{
	struct syscall_calls *c = calloc(1, sizeof(*c));

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->visit = visit;
	c->arg = arg;
	u64_map_init(&c->open, sizeof(struct syscall_call));
	*out = c;
	return 0;
}

void syscall_calls_destroy(struct syscall_calls *c)
{
	if (c)
		u64_map_deinit(&c->open);
	free(c);
}

static void begin(struct syscall_call *call, const struct event *event, bool recorded)
{
	const struct syscall_event *bytes = event->bytes;

	*call = (struct syscall_call){.ip = bytes->call.call.ip,
				      .pid = bytes->call.call.pid,
				      .tgid = bytes->call.call.tgid,
				      .cgroup = bytes->call.call.cgroup,
				      .vcpu = event->vcpu,
				      .begin_ns = event->ns,
				      .end = recorded ? SYSCALL_UNSEEN : SYSCALL_UNRECORDED};
	memcpy(call->args, bytes->args, sizeof(call->args));
	memcpy(call->comm, bytes->call.call.comm, sizeof(call->comm));
}

/* What is open in this frame has not returned, and never will. */
static int enter(struct syscall_calls *c, const struct event *event, bool recorded)
{
	const struct syscall_event *bytes = event->bytes;
	struct syscall_call *open = u64_map_find(&c->open, bytes->call.frame), call;
	int ret = open ? c->visit(c->arg, open) : 0;

	if (ret)
		return ret;
	if (!recorded) {
		u64_map_remove(&c->open, bytes->call.frame);
		begin(&call, event, false);
		return c->visit(c->arg, &call);
	}
	if (!open && c->open.count < MAX_OPEN)
		open = u64_map_insert(&c->open, bytes->call.frame, NULL);
	if (!open)
		return c->open.count < MAX_OPEN ? -ENOMEM : 0;
	begin(open, event, true);
	return 0;
}

/* Of calls that began before the trace there is no entry. */
static int leave(struct syscall_calls *c, const struct event *event)
{
	const struct syscall_event *bytes = event->bytes;
	const struct syscall_call *open = u64_map_find(&c->open, bytes->call.frame);
	struct syscall_call call;

	if (!open)
		return 0;
	call = *open;
	u64_map_remove(&c->open, bytes->call.frame);
	call.end = SYSCALL_RETURNED;
	call.end_ns = event->ns;
	call.result = (int64_t)bytes->call.result;
	return c->visit(c->arg, &call);
}

int syscall_calls_add(struct syscall_calls *c, const struct event *event)
{
	enum syscall_class which;

	if (!syscall_class_of(event->class, &which))
		return 0;
	if (which == SYSCALL_EXIT)
		return leave(c, event);
	return enter(c, event, which == SYSCALL_ENTER);
}

static int by_begin(const void *a, const void *b)
{
	const struct syscall_call *const *x = a, *const *y = b;

	return ((*x)->begin_ns > (*y)->begin_ns) - ((*x)->begin_ns < (*y)->begin_ns);
}

int syscall_calls_end(struct syscall_calls *c)
{
	const struct syscall_call **calls =
		calloc(c->open.count + 1, sizeof(struct syscall_call *));
	const struct syscall_call *call;
	size_t n = 0, pos = 0;
	uint64_t frame;
	int ret = 0;

	if (!calls)
		return -ENOMEM;
	while ((call = u64_map_next(&c->open, &pos, &frame)))
		calls[n++] = call;
	qsort(calls, n, sizeof(*calls), by_begin);
	for (size_t i = 0; !ret && i < n; i++)
		ret = c->visit(c->arg, calls[i]);
	free(calls);
	u64_map_deinit(&c->open);
	u64_map_init(&c->open, sizeof(struct syscall_call));
	return ret;
}

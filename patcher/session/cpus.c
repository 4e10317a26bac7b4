/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest takes CPUs on and off line. */
#include <errno.h>
#include "patcher/session/internal.h"

/* The first 64 CPUs; 0: the kernel has no such mask. */
static uint64_t online_cpus(const struct trace_session *s)
{
	uint64_t gva = kernel_symbol(&s->kernel, "__cpu_online_mask"), mask;

	return gva && !kernel_read(&s->kernel, gva, &mask, sizeof(mask), NULL) ? mask : 0;
}

void session_note_cpus(struct trace_session *s)
{
	s->online_cpus = online_cpus(s);
}

static int check(struct trace_session *s, struct error *err)
{
	struct engine *engine = s->engine;
	int ret = s->guest->control->stop(s->guest, err);

	if (ret)
		return ret;
	ret = engine->ops->check_cpus ? engine->ops->check_cpus(engine, err) : 0;
	s->guest->control->resume(s->guest, NULL);
	return ret;
}

/* What has come may have another number, or a time stamp counter that was set. */
void session_follow_cpus(struct trace_session *s)
{
	uint64_t online;
	struct error err;
	int ret;

	if (!session_look_is_due(s, &s->next_cpus))
		return;
	online = online_cpus(s);
	if (!online || online == s->online_cpus)
		return;
	ret = check(s, &err);
	/* a CPU that is being started is looked at again */
	if (ret == -EAGAIN || ret == -EBUSY)
		return;
	s->online_cpus = online;
	if (ret) {
		error_prefix(&err, "the guest has changed its CPUs: ");
		first_error_set(&s->cpus_differ, &err);
	}
}

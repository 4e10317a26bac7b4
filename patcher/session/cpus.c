/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's CPUs, which it takes on and off line, and its memory, some of which may be plugged
 * in.
 */
#include <errno.h>
#include <string.h>
#include "formats/base/clock.h"
#include "introspect/tasks/percpu.h"
#include "patcher/session/internal.h"

/* For how long a vCPU may be in a guest of its own at each stop. */
static const uint64_t see_ns = 3000000000;
enum { SEE_MS = 2 };

/* How long the guest's memory may change after the number of its pages has, and how often the
 * backend is asked meanwhile. */
static const uint64_t settle_ns = 5000000000, ask_memory_ns = 1000000000;

/* A CPU that the guest has compared is on line so much later at most, and looked at. */
static const uint64_t verdict_ns = 10000000000;

void session_cpus_init(struct trace_session *s)
{
	pthread_mutex_init(&s->nodes_lock, NULL);
}

void session_cpus_deinit(struct trace_session *s)
{
	pthread_mutex_destroy(&s->nodes_lock);
}

/* 0: the kernel has no such variable, or it cannot be read. */
static uint64_t variable(const struct trace_session *s, const char *symbol)
{
	uint64_t gva = kernel_symbol(&s->kernel, symbol), value;

	return gva && !kernel_read(&s->kernel, gva, &value, sizeof(value), NULL) ? value : 0;
}

/* All of them: a session has at most TRACE_MAX_VCPUS, which is 64. */
static uint64_t online_cpus(const struct trace_session *s)
{
	return variable(s, "__cpu_online_mask");
}

/* That the kernel manages. It extends a node before it counts the pages that are plugged in. */
static uint64_t pages_of_ram(const struct trace_session *s)
{
	return variable(s, "_totalram_pages");
}

/*
 * Changes each time that a CPU goes off line, though it may be on line again by the next look: from
 * the grace periods of RCU in which each CPU last did (struct rcu_data, kernel/rcu/tree.h). 0: not
 * known.
 */
static uint64_t departures(const struct trace_session *s)
{
	const uint64_t odd = 0x9e3779b97f4a7c15;
	uint64_t mark = 0, base, period;

	for (unsigned int cpu = 0; s->knows_departures && cpu < s->guest->nr_vcpus; cpu++) {
		if (percpu_base(&s->kernel, cpu, &base, NULL) ||
		    kernel_read(&s->kernel, base + (uint64_t)(int64_t)s->departure_at, &period,
				sizeof(period), NULL))
			return 0;
		mark = (mark + period + 1) * odd;
	}
	return mark;
}

static void find_departures(struct trace_session *s)
{
	s->knows_departures = !(s->guest->caps & GUEST_STOPS_TO_READ) &&
			      !percpu_displacement(&s->kernel, "rcu_data", "rcu_ofl_gp_seq",
						   &s->departure_at, NULL);
}

/*
 * Whether the guest has found that its counters differ, or cannot be relied on. It compares that of
 * a CPU that it starts with another's (arch/x86/kernel/tsc_sync.c).
 */
static bool tsc_is_unstable(const struct trace_session *s)
{
	uint32_t unstable;

	return !kernel_read_u32(&s->kernel, "tsc_unstable", &unstable, NULL) && unstable;
}

_Static_assert((int)MEMORY_NODES_MAX <= (int)TRACE_NODES_MAX, "a trace has all of them");

/* What cannot be read stays as it was. */
static void read_nodes(struct trace_session *s)
{
	struct memory_node nodes[MEMORY_NODES_MAX];
	size_t n;

	if (memory_nodes_read(&s->kernel, nodes, &n, NULL))
		return;
	pthread_mutex_lock(&s->nodes_lock);
	memcpy(s->nodes, nodes, n * sizeof(nodes[0]));
	s->nr_nodes = n;
	pthread_mutex_unlock(&s->nodes_lock);
}

/* Where a vCPU runs a guest of its own, most stops find it there. What else there is to say the
 * start itself does. */
void session_see_cpus(struct trace_session *s)
{
	const uint64_t until = clock_monotonic_ns() + see_ns;
	int32_t number;
	int ret = -EAGAIN;

	percpu_forget_vcpus(&s->kernel);
	while (ret == -EAGAIN && clock_monotonic_ns() < until && !kernel_is_booting(&s->kernel)) {
		if (s->guest->control->stop(s->guest, NULL))
			return;
		ret = percpu_cpu_number(&s->kernel, &number, NULL);
		s->guest->control->resume(s->guest, NULL);
		if (ret == -EAGAIN)
			clock_wait_ms(SEE_MS);
	}
}

void session_note_cpus(struct trace_session *s)
{
	find_departures(s);
	s->online_cpus = online_cpus(s);
	s->departures = departures(s);
	s->tsc_unstable = s->tsc_was_unstable = tsc_is_unstable(s);
	s->tsc_unstable_ns = s->cpus_changed_ns = 0;
	s->ram_pages = pages_of_ram(s);
	read_nodes(s);
}

void session_describe_nodes(struct trace_session *s, struct trace_info *info)
{
	pthread_mutex_lock(&s->nodes_lock);
	for (size_t i = 0; i < s->nr_nodes; i++)
		info->nodes[i] = (struct trace_node){s->nodes[i].number, s->nodes[i].start,
						     s->nodes[i].bytes, s->nodes[i].cpus};
	info->nr_nodes = s->nr_nodes;
	pthread_mutex_unlock(&s->nodes_lock);
}

/* The verdict comes before the CPU is on line, and since Linux 6.7 from a worker that is started
 * then. So a look may find both, or one of them first. */
static void follow_tsc(struct trace_session *s)
{
	const bool before = s->tsc_unstable;

	s->tsc_unstable = tsc_is_unstable(s);
	if (s->tsc_unstable && !before)
		s->tsc_unstable_ns = clock_monotonic_ns();
}

/*
 * Where counters are known by their stamps only, they cannot be compared from here. The guest may
 * also find its counters unstable because another clock disagrees, as on a busy host: only a
 * verdict that comes together with a CPU is one about that CPU's.
 */
static int check_tsc(const struct trace_session *s, struct error *err)
{
	const uint64_t changed = s->cpus_changed_ns, verdict = s->tsc_unstable_ns;
	const uint64_t between = changed > verdict ? changed - verdict : verdict - changed;

	if (!s->guest->clock->tsc_seen || !changed || !verdict || between > verdict_ns)
		return 0;
	return error_set(err, ENOTSUP,
			 "by its own comparison, its time stamp counters are unstable");
}

static int check(struct trace_session *s, struct error *err)
{
	struct engine *engine = s->engine;
	int ret;

	if (!engine->ops->check_cpus)
		return 0;
	ret = s->guest->control->stop(s->guest, err);
	if (ret)
		return ret;
	ret = engine->ops->check_cpus(engine, err);
	if (!ret)
		ret = check_tsc(s, err);
	s->guest->control->resume(s->guest, NULL);
	return ret;
}

void session_follow_memory(struct trace_session *s)
{
	const struct guest_memory_ops *memory = s->guest->memory;

	if (memory->follow)
		memory->follow(s->guest, NULL);
}

/*
 * Memory was plugged in, or the guest gave some away. What it gives away is plugged out a moment
 * later. A balloon changes the number of pages all the time, and asking may cost a call to another
 * process.
 */
static void follow_memory(struct trace_session *s)
{
	const uint64_t pages = pages_of_ram(s), now = clock_monotonic_ns();

	if (pages != s->ram_pages) {
		read_nodes(s);
		s->ram_pages = pages;
		s->memory_settled = now + settle_ns;
	}
	if (now >= s->memory_settled || now < s->next_memory)
		return;
	session_follow_memory(s);
	s->next_memory = now + ask_memory_ns;
}

static void must_end(struct trace_session *s, struct error *err)
{
	error_prefix(err, "the guest has changed its CPUs: ");
	first_error_set(&s->cpus_differ, err);
}

/* What has come may have another number, or a time stamp counter that was set. */
void session_follow_cpus(struct trace_session *s)
{
	uint64_t online, left;
	struct error err;
	int ret;

	if (!session_look_is_due(s, &s->next_cpus))
		return;
	follow_memory(s);
	follow_tsc(s);
	online = online_cpus(s);
	left = departures(s);
	/* what cannot be read has not changed */
	online = online ? online : s->online_cpus;
	left = left ? left : s->departures;
	if (online == s->online_cpus && left == s->departures) {
		if (check_tsc(s, &err))
			must_end(s, &err);
		return;
	}
	s->cpus_changed_ns = clock_monotonic_ns();
	read_nodes(s);
	if (online != s->checked_online || left != s->checked_departures)
		percpu_forget_vcpus(&s->kernel);
	s->checked_online = online;
	s->checked_departures = left;
	ret = check(s, &err);
	/* a CPU that is being started is looked at again */
	if (ret == -EAGAIN || ret == -EBUSY)
		return;
	s->online_cpus = online;
	s->departures = left;
	if (ret)
		must_end(s, &err);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/watchdogs.h"

#include <stdbool.h>
#include <stddef.h>

static const uint64_t ns_per_s = 1000000000, ns_per_ms = 1000000;

/* The kernel's time for one thing; 0: it is never reported. */
static const struct threshold {
	const char *variable; /* an int, or a long with a small value */
	uint64_t ns;          /* of its unit */
	unsigned int share;   /* so much of it is too long */
	/* Without the variable: this symbol, which kernels with the watchdog have (NULL: all have
	 * it), and how long a vCPU may wait then; 0: such a kernel has no watchdog. */
	const char *sign;
	uint64_t unknown_ns;
} thresholds[] = {
	{"watchdog_thresh", ns_per_s, 2, NULL, 0},
	{"rcu_cpu_stall_timeout", ns_per_s, 4, NULL, WATCHDOGS_SHORTEST_NS},
	{"rcu_exp_cpu_stall_timeout", ns_per_ms, 4, NULL, 0}, /* since 5.19 */
	/* CONFIG_CSD_LOCK_WAIT_DEBUG, since 5.10; 5 s until 5.18 */
	{"csd_lock_timeout", ns_per_ms, 2, "csd_bug_count", 2500000000},
};

/* --- sched_ext (kernel/sched/ext.c) ---------------------------------------------------------- */

enum { MOST_SCHEDULERS = 64, STALL_SHARE = 4 };

static void lower(uint64_t *allowed, uint64_t ns)
{
	if (ns && ns < *allowed)
		*allowed = ns;
}

static uint32_t member_of(const struct kernel *kernel, const char *structure, const char *member)
{
	struct btf_field field;

	if (kernel_image_check_btf(kernel->image, NULL) ||
	    btf_field(kernel->image->btf, structure, member, &field, NULL))
		return 0;
	return field.offset;
}

/* `timeout_at` 0: it is not known where. A scheduler without a time of its own has half a minute.
 */
static void lower_by_ops(const struct kernel *kernel, uint64_t ops, uint32_t timeout_at,
			 uint64_t *allowed)
{
	uint32_t ms = 0;

	if (timeout_at && !kernel_read(kernel, ops + timeout_at, &ms, sizeof(ms), NULL))
		lower(allowed, ms * ns_per_ms / STALL_SHARE);
}

/* Before 6.16 there is one scheduler at most, in variables. */
static void lower_by_only(const struct kernel *kernel, uint64_t *allowed)
{
	const uint64_t ops = kernel_symbol(kernel, "scx_ops");
	uint32_t enabled = 0;

	if (ops && !kernel_read_u32(kernel, "__scx_ops_enabled", &enabled, NULL) && enabled)
		lower_by_ops(kernel, ops, member_of(kernel, "sched_ext_ops", "timeout_ms"),
			     allowed);
}

/* Since 7.1 cgroups may have schedulers of their own. All are in a list, which may change while it
 * is read. */
static void lower_by_all(const struct kernel *kernel, uint32_t timeout_at, uint64_t *allowed)
{
	const uint64_t head = kernel_symbol(kernel, "scx_sched_all");
	const uint32_t link_at = member_of(kernel, "scx_sched", "all");
	uint64_t node = head;

	if (!head || !link_at)
		return;
	for (unsigned int i = 0; i < MOST_SCHEDULERS; i++) {
		if (kernel_read(kernel, node, &node, sizeof(node), NULL) || node == head)
			return;
		lower_by_ops(kernel, node - link_at, timeout_at, allowed);
	}
}

/* A task that can run waits behind the one that waits for the host. The kernel throws the scheduler
 * out if it has not run for so long. */
static void lower_by_schedulers(const struct kernel *kernel, uint64_t *allowed)
{
	const uint64_t variable = kernel_symbol(kernel, "scx_root");
	uint64_t root = 0;
	uint32_t timeout_at;

	if (!variable) {
		lower_by_only(kernel, allowed);
		return;
	}
	if (kernel_read(kernel, variable, &root, sizeof(root), NULL) || !root)
		return;
	timeout_at = member_of(kernel, "scx_sched", "ops.timeout_ms");
	lower_by_ops(kernel, root, timeout_at, allowed);
	lower_by_all(kernel, timeout_at, allowed);
}

/* --- all ------------------------------------------------------------------------------------- */

uint64_t watchdogs_allow_ns(const struct kernel *kernel, uint64_t most)
{
	uint64_t allowed = most;

	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		const struct threshold *t = &thresholds[i];
		uint64_t ns = 0;
		uint32_t value = 0;

		if (!kernel_read_u32(kernel, t->variable, &value, NULL))
			ns = value * t->ns / t->share;
		else if (!t->sign || kernel_symbol(kernel, t->sign))
			ns = t->unknown_ns;
		lower(&allowed, ns);
	}
	lower_by_schedulers(kernel, &allowed);
	return allowed;
}

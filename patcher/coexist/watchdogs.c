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
		if (ns && ns < allowed)
			allowed = ns;
	}
	return allowed;
}

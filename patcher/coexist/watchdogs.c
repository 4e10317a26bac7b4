/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/watchdogs.h"

#include <stdbool.h>
#include <stddef.h>

static const uint64_t ns_per_s = 1000000000, ns_per_ms = 1000000;

/* The kernel's time for one thing; 0: it is never reported. */
static const struct threshold {
	const char *variable; /* an int */
	uint64_t ns;          /* of its unit */
	unsigned int share;   /* so much of it is too long */
	bool always;          /* kernels whose variables have symbols have this one */
} thresholds[] = {
	{"watchdog_thresh", ns_per_s, 2, false},
	{"rcu_cpu_stall_timeout", ns_per_s, 4, true},
	{"rcu_exp_cpu_stall_timeout", ns_per_ms, 4, false}, /* since 5.19 */
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
		else if (t->always)
			ns = WATCHDOGS_SHORTEST_NS;
		if (ns && ns < allowed)
			allowed = ns;
	}
	return allowed;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_WORKLOAD_MARKER_H
#define SONDE_TESTS_WORKLOAD_MARKER_H

#include <grp.h>
#include <sched.h>
#include <stdbool.h>

/*
 * The markers of a window: setgroups(n) makes the kernel kmalloc() a struct group_info of 8 bytes
 * plus 4 per group. Both sizes come from kmalloc-8k, and nothing else requests them.
 */
#define BEGIN_GROUPS 1201 /* 4812 bytes */
#define END_GROUPS 1301   /* 5212 bytes */

/* On every CPU up to `cpus`. On failure returns false and sets errno. Moving to a CPU causes some
 * events. */
static inline bool put_marker(bool begin, int cpus)
{
	static gid_t groups[END_GROUPS];
	cpu_set_t set;
	int cpu;

	for (cpu = 0; cpu < cpus; cpu++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set) == 0 &&
		    setgroups(begin ? BEGIN_GROUPS : END_GROUPS, groups) != 0)
			return false;
	}
	return true;
}

#endif

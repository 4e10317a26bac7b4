/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_GUEST_SCRATCH_CLOCK_H
#define SONDE_TESTS_GUEST_SCRATCH_CLOCK_H

#include "introspect/kernel/kernel.h"
#include "introspect/guest/clock.h"

/* The conversion of each vCPU against kvmclock as the guest itself would compute it; guest stopped.
 */
void clock_check_kvmclock(const struct kernel *kernel, const struct tsc_clock *clocks);

/* The conversion against the guest's own clocks, as tests/workload/clock.c printed them in `log`.
 */
void clock_check_log(const struct kernel *kernel, const struct tsc_clock *clocks, const char *log);

#endif

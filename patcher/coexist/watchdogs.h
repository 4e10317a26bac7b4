/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_WATCHDOGS_H
#define SONDE_PATCHER_COEXIST_WATCHDOGS_H

#include <stdint.h>
#include "introspect/kernel/kernel.h"

/* Allowed by the lowest settings that the guest's /proc and /sys accept. */
enum { WATCHDOGS_SHORTEST_NS = 500000000 };

/* How long a vCPU's thread waits for the host at most, if they allow it: for room in a ring, or for
 * a disk. */
static const uint64_t watchdogs_patience_ns = 5000000000;

/*
 * For how long a vCPU may wait with interrupts off, so that the guest's kernel does not report it:
 * in nanoseconds, at most `most`. That is half of a hard lockup's time, which is watchdog_thresh
 * (kernel/watchdog.c; a soft lockup's is twice as long), and a quarter of the time of an RCU stall
 * (kernel/rcu/update.c), which begins before the wait, and half of the time in which another CPU
 * has to take an interrupt (csd_lock_timeout, kernel/smp.c). Where a BPF scheduler is loaded
 * (sched_ext), it is also a quarter of the time in which each task has to run (timeout_ms), which
 * begins before the wait, as does the time in which the kernel has to look. The guest may change
 * these at any time. If they cannot be read: WATCHDOGS_SHORTEST_NS, but that of a scheduler does
 * not count then. Any thread.
 */
uint64_t watchdogs_allow_ns(const struct kernel *kernel, uint64_t most);

#endif

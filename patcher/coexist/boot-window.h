/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_BOOT_WINDOW_H
#define SONDE_PATCHER_COEXIST_BOOT_WINDOW_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/oneshot.h"
#include "patcher/plan/patch-plan.h"

/*
 * Tracing through the two moments of boot at which the kernel rewrites the very bytes we patch, and
 * would warn (and disable ftrace) if it did not find its own:
 *
 *   ftrace_init()               turns every `call __fentry__` into a NOP
 *   alternative_instructions()  turns every return slot into what this CPU needs
 *
 * Around each, the patch set concerned is taken out of the way, and its events are caught by
 * one-shot hooks at other addresses instead: an entry at the instruction behind the site, a return
 * at the caller. Both moments come while one vCPU runs; nothing is lost.
 */
enum { BOOT_WINDOW_FIRED = 64 };

struct boot_window {
	const struct kernel *kernel;
	struct patch_plan *plan;
	struct trap_table *traps;
	struct oneshots *oneshots;
	/* The session's handlers, called for the events that the hooks catch. */
	void (*entry)(void *arg, uint64_t site, const struct guest_trap *hit);
	void (*ret)(void *arg, const struct guest_trap *hit);
	void *arg;
	struct first_error *failure;   /* gets why a set could not be put back */
	bool entries_out, returns_out; /* inside ftrace_init() / alternative_instructions() */
	/* Sites whose one-shot has fired, to be armed again when a call returns. If there are more
	 * than have room here, all sites are gone through. */
	uint64_t fired[BOOT_WINDOW_FIRED];
	size_t nr_fired;
};

/* Whether the guest is still before the end of these two moments. */
bool boot_window_is_open(const struct kernel *kernel);

/* Whether tracing can start now; *first: before the guest's first allocation. -EAGAIN: the guest may
 * be rewriting its text. */
int boot_window_check_start(const struct kernel *kernel, bool *first, struct error *err);

/* Arm the hooks on both functions (those not passed yet). The guest must be stopped or not started.
 */
int boot_window_arm(struct boot_window *window, struct error *err);

/* Tell of an entry that was trapped: while return slots are out, its return is hooked at the
 * caller. */
void boot_window_note_entry(struct boot_window *window, uint64_t return_address);

#endif

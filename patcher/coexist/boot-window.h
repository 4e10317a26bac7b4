/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_BOOT_WINDOW_H
#define SONDE_PATCHER_COEXIST_BOOT_WINDOW_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/traps.h"
#include "patcher/plan/patch-plan.h"

/*
 * Tracing through the two moments of boot at which the kernel rewrites the bytes that patches
 * cover. If it does not find its own bytes there it warns, and disables ftrace:
 *
 *   ftrace_init()               turns every `call __fentry__` into a NOP
 *   alternative_instructions()  turns every return slot into what this CPU needs
 *
 * Around each, the patch set concerned is reverted, and one-shot traps at other addresses catch its
 * events: an entry at the instruction behind the site, a return at the caller. Both moments come
 * while one vCPU runs, so that no event is lost, and are over when kernel_is_booting() is false.
 */
enum { BOOT_WINDOW_FIRED = 64 };

struct boot_window {
	const struct kernel *kernel;
	struct patch_plan *plan;
	struct trap_table *traps;
	struct oneshots *oneshots;
	/* The session's handlers, called for the events that the one-shots catch. */
	void (*entry)(void *arg, uint64_t site, const struct guest_trap *hit);
	void (*ret)(void *arg, const struct guest_trap *hit);
	void *arg;
	struct first_error *failure;   /* set if a patch set could not be applied again */
	bool entries_out, returns_out; /* inside ftrace_init() / alternative_instructions() */
	/* gvas behind sites whose one-shot has fired, to be armed again when a call returns. If
	 * they are more than fit, all sites are armed. */
	uint64_t fired[BOOT_WINDOW_FIRED];
	size_t nr_fired;
};

/* Whether tracing can start now; *first: before the guest's first allocation. -EAGAIN: the guest
 * may be rewriting its text. */
int boot_window_check_start(const struct kernel *kernel, bool *first, struct error *err);

/* Arm the one-shots on both functions (those not passed yet). With the guest stopped or not
 * started.
 */
int boot_window_arm(struct boot_window *window, struct error *err);

/* Arm a one-shot for a return. */
void boot_window_arm_return(struct boot_window *window, uint64_t return_address);

/* An entry was trapped: while return slots are reverted, its return takes a one-shot. */
static inline void boot_window_note_entry(struct boot_window *window, uint64_t return_address)
{
	if (window->returns_out)
		boot_window_arm_return(window, return_address);
}

#endif

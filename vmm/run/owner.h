/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RUN_OWNER_H
#define SONDE_VMM_RUN_OWNER_H

#include "vmm/machine/vm.h"
#include "vmm/recorder/recorder.h"

/* The machine of sonde run as its recorder and the monitor's clients see it. Main thread only. */
struct run_owner {
	struct vm *vm;
	struct recorder *recorder;
	enum vm_status status; /* as clients know it */
};

/* The argument is the struct run_owner. */
extern const struct monitor_guest_ops run_owner_ops;

/* From now on send clients an event at each change of status: STOP, RESUME, GUEST_PANICKED. */
int run_owner_listen(struct run_owner *owner, struct error *err);

/* Send clients the last event, SHUTDOWN with its reason, if the run has ended. After vm_finish()
 * and recorder_end(): the trace is complete then. */
void run_owner_shutdown(struct run_owner *owner);

#endif

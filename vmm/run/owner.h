/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RUN_OWNER_H
#define SONDE_VMM_RUN_OWNER_H

#include "vmm/machine/vm.h"
#include "vmm/recorder/recorder.h"

/* A machine of this process as its recorder and the monitor's clients see it. Main thread only. */
struct run_owner {
	struct vm *vm;
	struct recorder *recorder;
	enum vm_status status; /* as clients know it */
};

/* Their argument is the struct run_owner. */
extern const struct monitor_guest_ops run_owner_ops;

/* From now on send clients the changes of the machine's status: STOP, RESUME, GUEST_PANICKED. */
int run_owner_listen(struct run_owner *owner, struct error *err);

/* Send clients SHUTDOWN, with the reason, if the run has ended: the last event, when the trace is
 * complete. After vm_finish() and recorder_end(). */
void run_owner_shutdown(struct run_owner *owner);

#endif

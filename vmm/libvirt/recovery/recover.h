/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_RECOVER_H
#define SONDE_VMM_LIBVIRT_RECOVERY_RECOVER_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "vmm/libvirt/recovery/places.h"

struct libvirt_recovery {
	bool had_journal, had_device;
	bool had_breaks; /* breakpoints, which are gone now */
	bool resumed;    /* it was left stopped */
	bool ended;      /* the domain has: all that was left of it was the journal */
	bool met_task;   /* one was preempted in our memory, and waited for */
	struct patch_outcome places;
};

/*
 * Undo what a dead tracer left in a domain: put back the bytes that are still ours, let the domain
 * run if the tracer had stopped it, and when nothing of the guest is in our memory any more take
 * that away. Tries for `patience_ms` to reach libvirt. `just_died`: no administrator has come upon
 * the domain since. A domain that was destroyed and started again is another one: nothing is done
 * to it, and the journal goes.
 *
 * -EBUSY: its tracer lives, or somebody else recovers it; or the guest, which has its own code
 * back, may still be in the memory (a vCPU or a task of it, most likely because it is paused), so
 * that this can only be taken away later: try again; or there is no journal, and yet something in
 * the memory; or the domain is not at this connection, though its QEMU runs. -ETIMEDOUT: all is
 * undone, but the guest does not let the device go yet.
 */
int libvirt_recover(const char *uri, const char *id, bool just_died, unsigned int patience_ms,
		    struct libvirt_recovery *out, struct error *err);

#endif

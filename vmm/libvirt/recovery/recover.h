/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_RECOVER_H
#define SONDE_VMM_LIBVIRT_RECOVERY_RECOVER_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "vmm/libvirt/recovery/places.h"

struct libvirt_recovery {
	bool had_journal, had_device;
	bool had_breaks; /* there may have been breakpoints; they are removed */
	bool resumed;    /* the tracer had left it stopped */
	bool ended;      /* the domain has ended; only the journal was left */
	bool met_task;   /* a task had been preempted in scratch memory, and was waited for */
	struct patch_outcome places;
};

/*
 * Undo what a dead tracer left in a domain: put back bytes that are still the tracer's, resume the
 * domain if the tracer had stopped it, and unplug the scratch memory once no vCPU and no task is in
 * it. Tries for `patience_ms` to reach libvirt. `just_died`: the tracer died a moment ago, so that
 * no administrator has paused or resumed the domain since. If the domain was destroyed and started
 * again, it is another guest: it is left alone, and the journal is removed.
 *
 * -EBUSY: one of
 *  - the tracer lives, or another process recovers the domain;
 *  - the guest has its own code back, but a vCPU or a task may still be in scratch memory, most
 *    likely because the domain is paused: try again;
 *  - there is no journal, but the scratch memory is in use;
 *  - the domain is not at this connection, but its QEMU runs.
 * -ETIMEDOUT: all is undone, but the guest has not released the device yet. -ENOSPC: the tracer is
 * dead but has not ended (death.h), and there is no room for a copy of its journal.
 */
int libvirt_recover(const char *uri, const char *id, bool just_died, unsigned int patience_ms,
		    struct libvirt_recovery *out, struct error *err);

#endif

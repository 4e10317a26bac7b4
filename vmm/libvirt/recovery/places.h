/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_PLACES_H
#define SONDE_VMM_LIBVIRT_RECOVERY_PLACES_H

#include "patcher/text/patch-set.h"
#include "vmm/libvirt/journal/journal.h"

struct guest;

/* The places in a guest's memory that a journal names. */

/* The number of places that still hold a tracer's bytes. */
int libvirt_journal_pending(const struct libvirt_journal *journal, struct guest *guest, size_t *out,
			    struct error *err);
/* -EBUSY: the journal says that the tracer has stopped the guest. Do not call it while the guest is
 * held stopped. */
int libvirt_journal_check_running(const struct libvirt_journal *journal, struct error *err);

/* Whether the guest's page tables still map scratch memory. */
int libvirt_places_mapped(const struct journal_contents *contents, struct guest *guest, bool *out,
			  struct error *err);

/*
 * With the guest stopped: put the original bytes back in places that hold a tracer's. `mappings`:
 * only entries of page tables that map scratch memory; otherwise only all other places. Adds to
 * *outcome.
 */
int libvirt_places_restore(const struct journal_contents *contents, struct guest *guest,
			   bool mappings, struct patch_outcome *outcome, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_PLACES_H
#define SONDE_VMM_LIBVIRT_RECOVERY_PLACES_H

#include "patcher/text/patch-set.h"
#include "vmm/libvirt/journal/journal.h"

struct guest;

/* The places in a guest's memory that a journal names, and what is in them now. */

/* How many places of the journal still hold our bytes. */
int libvirt_journal_pending(const struct libvirt_journal *journal, struct guest *guest, size_t *out,
			    struct error *err);
/* -EBUSY: the guest is still stopped by us. Not while somebody holds it, who will let it go. */
int libvirt_journal_check_running(const struct libvirt_journal *journal, struct error *err);

/* Whether any entry of a tracer's is in the guest's page tables. */
int libvirt_places_mapped(const struct journal_contents *contents, struct guest *guest, bool *out,
			  struct error *err);

/*
 * With the guest stopped: put the first bytes back where a tracer's are. `mappings`: where it
 * mapped its memory; else everywhere else. Adds to *outcome.
 */
int libvirt_places_restore(const struct journal_contents *contents, struct guest *guest,
			   bool mappings, struct patch_outcome *outcome, struct error *err);

#endif

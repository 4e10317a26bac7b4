/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_LIBVIRT_BACKEND_TRACED_GUEST_H
#define SONDE_TESTS_UNIT_VMM_LIBVIRT_BACKEND_TRACED_GUEST_H

#include <stdlib.h>
#include "vmm/libvirt/backend/internal.h"

static inline void on_beat(void *arg, bool exposed)
{
	(void)arg;
	(void)exposed;
}

/* A domain that may have breakpoints, whose hits `fn` handles; `text` as in
 * libvirt_guest_use_traps(). The journal is borrowed. */
static inline struct libvirt_guest *create_traced(struct libvirt_domain *domain,
						  struct libvirt_journal *journal, uint64_t text,
						  uint64_t text_gpa, guest_trap_fn *fn, void *arg)
{
	struct libvirt_guest *g;

	if (libvirt_guest_create(domain, journal, false, &g, NULL) ||
	    libvirt_guest_beat(g, on_beat, NULL, NULL) ||
	    libvirt_guest_use_traps(g, text, text_gpa, NULL) ||
	    g->guest.traps->set_handler(&g->guest, fn, arg, NULL))
		abort();
	return g;
}

#endif

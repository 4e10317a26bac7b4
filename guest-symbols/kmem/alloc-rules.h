/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_ALLOC_RULES_H
#define SONDE_GUEST_SYMBOLS_KMEM_ALLOC_RULES_H

#include <stddef.h>
#include "guest-symbols/kmem/alloc-entry.h"

enum { ALLOC_MAX_OUTER = 3 };

/* One alternative, and when not to take it: no object may be counted through two entry points. */
struct alloc_rule {
	struct alloc_entry entry;
	const char *covered_by; /* not if this function, of an earlier rule, was taken */
	const char *nested_in[ALLOC_MAX_OUTER]; /* not if one of these calls it itself */
	const char *unless_calls;               /* not if it calls this function itself */
	bool if_traceable;                      /* not if it has no mcount site */
};

/*
 * The alternatives of all supported kernels. Several rules may name one function with different
 * parameters; the first that agrees with BTF is taken.
 */
extern const struct alloc_rule alloc_rules[];
extern const size_t nr_alloc_rules;

#endif

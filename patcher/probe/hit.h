/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_HIT_H
#define SONDE_PATCHER_PROBE_HIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "patcher/probe/call-table.h"

/*
 * A probe was hit by a vCPU: all that is known of it, as its capture asked for (capture.h); what
 * that does not ask for is 0. Whether a trap or a trampoline took it down cannot be told. The guest
 * may be far ahead when it is handled: what is not in here must not be read from the guest.
 */
struct probe_hit {
	unsigned int vcpu;
	uint64_t time_ns;
	uint64_t key;               /* gva of the return address on the stack */
	uint64_t call_site;         /* the return address; at entries */
	uint64_t args[STASH_WORDS]; /* at entries */
	uint64_t result;            /* at returns */
	uint64_t slab_cache;        /* gva of the kmem_cache that the result belongs to, or 0 */
	uint64_t kept, owner;       /* FIELD_KEPT, FIELD_OWNER */

	const uint64_t *stack; /* words from behind the return address */
	size_t nr_stack;
	/* Objects of a bulk operation. One that has many comes in several hits, the same but for
	 * these. */
	const uint64_t *items;
	size_t nr_items;
};

#endif

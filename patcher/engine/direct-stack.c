/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From slices of the guest's stacks to call chains. */
#include <stddef.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/probe/chain.h"

/* Its address is the first word of the event. */
static uint64_t instruction_of(const struct direct_slot *slot, const uint8_t *event)
{
	uint64_t ip;

	if (slot->want.point != POINT_INSIDE)
		return 0;
	memcpy(&ip, event, sizeof(ip));
	return ip;
}

void direct_read_stacks(const struct ring_engine *x, const struct direct_slot *slot,
			const struct direct_run *run, uint8_t *events)
{
	const uint8_t *from = run->first + slot->layout.stack;
	uint64_t frames[EVENT_STACK_WORDS];

	for (size_t i = 0; i < run->n; i++, from += run->size, events += slot->plan.stride) {
		const struct probe_chain chain = {(const uint64_t *)(const void *)from,
						  slot->layout.stack_words,
						  instruction_of(slot, events)};

		chain_unwind(x->kernel, x->facts.stack_bytes, &chain, frames);
		memcpy(events + slot->plan.stack, frames, sizeof(frames));
	}
}

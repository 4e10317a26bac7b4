/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_STACKS_H
#define SONDE_PATCHER_RING_STACKS_H

#include <stdint.h>

/*
 * The stacks that calls are on. Those that share one nest: which serves which depends on the order
 * of their records. Calls on different ones have nothing to do with each other.
 */
enum {
	RING_KEY_BIAS = 8, /* from a record's key to the address of the return address */
	RING_STACK_BITS = 10,
	RING_NR_STACKS = 1 << RING_STACK_BITS,
	RING_STACK_OPEN = UINT8_MAX,
};

struct ring_stacks {
	unsigned int shift; /* a stack has 2^shift bytes, and begins at a multiple of that */
	/* By hash: RING_STACK_OPEN if a call may be open on one of these stacks, else 0. */
	uint8_t open[RING_NR_STACKS];
};

/* The number of the stack that an address lies on. */
static inline uint64_t ring_stack_of(const struct ring_stacks *stacks, uint64_t address)
{
	return address >> stacks->shift;
}

static inline unsigned int ring_stack_hash(uint64_t stack)
{
	return (unsigned int)(stack * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RING_STACK_BITS));
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_GUEST_SCRATCH_STUB_H
#define SONDE_TESTS_GUEST_SCRATCH_STUB_H

#include <stddef.h>
#include <stdint.h>

/* What a stub stores when a vCPU runs it. */
struct stub_slot {
	uint32_t runs, cpu;
	uint64_t task, tsc, round;
};

/* Room for one. */
enum { STUB_SIZE = 128 };

/*
 * Code for address `gva` that fills the slot at address `slot` and continues at `back`; of the
 * vCPU's state only the flags change. Interrupts are off from its first instruction to the one
 * after its last, so a vCPU that has left the stub after `runs` changed will not come back.
 */
struct stub {
	uint64_t gva, slot, back;
	int32_t cpu_number, current_task; /* displacements from GS */
	uint32_t round;
};
void stub_write(const struct stub *stub, uint8_t code[STUB_SIZE]);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_INT3_H
#define SONDE_TESTS_LIB_FAKE_INT3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Breakpoints as QEMU has them under KVM (QEMU 7.2, gdbstub.c and accel/kvm/kvm-all.c): bytes in
 * the guest's memory, which it finds with the page tables of a vCPU.
 */
enum { FAKE_MAX_INT3 = 32 };

struct fake_memory {
	uint8_t *ram;
	size_t size;
};

struct fake_int3s {
	struct {
		uint64_t gva; /* 0: free */
		uint8_t before;
	} v[FAKE_MAX_INT3];
};

/* With 4 levels of page tables. False: not mapped, or not to RAM. */
bool fake_walk(const struct fake_memory *memory, uint64_t cr3, uint64_t gva, uint64_t *gpa);
/* Map a page of 4 KiB; the tables, which may be there, come from the pages from *next on. */
void fake_map(const struct fake_memory *memory, uint64_t cr3, uint64_t gva, uint64_t gpa,
	      uint64_t *next);

/* False: these page tables do not map it. */
bool fake_int3_set(struct fake_int3s *all, const struct fake_memory *memory, uint64_t cr3,
		   uint64_t gva, bool on);
/* Forget all, also those whose byte cannot be put back with these page tables. */
void fake_int3_forget(struct fake_int3s *all, const struct fake_memory *memory, uint64_t cr3);
bool fake_int3_has(const struct fake_int3s *all, uint64_t gva);
size_t fake_int3_count(const struct fake_int3s *all);

#endif

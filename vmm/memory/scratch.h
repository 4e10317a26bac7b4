/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MEMORY_SCRATCH_H
#define SONDE_VMM_MEMORY_SCRATCH_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"
#include "vmm/kvm/kvm.h"
#include "vmm/memory/memory.h"

/*
 * All memory a guest has: its RAM, and memory of ours above it that the guest does not know of
 * (guest_scratch_ops.add). Places for the latter are fixed, in guest-physical and in host
 * addresses, for as long as the machine exists: only the sizes in `regions` change, each in one
 * piece, so that a thread which looks an address up meanwhile may see zeros there, but never a
 * wrong place.
 */
enum {
	SCRATCH_SLOTS = 4,            /* regions at a time */
	SCRATCH_ALIGN = 2 << 20,      /* of sizes and addresses */
	SCRATCH_MAX_SIZE = 256 << 20, /* of a region */
	SCRATCH_RAM_REGIONS = 2,
};

struct scratch_memory {
	const struct kvm *kvm;
	uint64_t gpa; /* of the first place; 0: there is no room below the guest's address width */
	int fd;       /* one memory file for all places; -1 until the first is used */
	uint8_t *hva;
	size_t nr_ram; /* the first of the regions */
	struct guest_region regions[SCRATCH_RAM_REGIONS + SCRATCH_SLOTS];
	size_t nr_regions; /* accessed atomically */
};

/* phys_bits: width of the guest's physical addresses. `kvm` must outlive it. */
void scratch_memory_init(struct scratch_memory *scratch, const struct kvm *kvm,
			 const struct guest_memory *memory, unsigned int phys_bits);
/* After the machine is gone. */
void scratch_memory_deinit(struct scratch_memory *scratch);

/*
 * Zeroed memory at a free place; `size` in bytes, a multiple of SCRATCH_ALIGN up to
 * SCRATCH_MAX_SIZE. -EINVAL, -ENOSPC (all places taken, or none), or what KVM or the host says.
 */
int scratch_memory_add(struct scratch_memory *scratch, uint64_t size, struct guest_region *out,
		       struct error *err);

/*
 * -ENOENT if there is no such region. Its contents are gone. The region's memslot is deleted, and
 * as no vCPU may reach the memory of a deleted memslot, KVM flushes every TLB entry through which
 * one could, be it the translation of a guest-virtual or of a guest-physical address, before its
 * ioctl returns or at the latest when the vCPU enters the guest again. So a caller that has removed
 * a mapping from the guest's page tables needs no flush by the guest.
 */
int scratch_memory_remove(struct scratch_memory *scratch, const struct guest_region *region,
			  struct error *err);

#endif

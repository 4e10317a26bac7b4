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
 * All memory of a guest: its RAM, and scratch memory above it, which the guest's kernel does not
 * know of (struct guest_scratch_ops). The places for scratch memory are fixed while the machine
 * exists, as guest-physical and as host addresses. Only the sizes in `regions` change, each
 * atomically: a thread that resolves an address meanwhile may read zeros there, but never another
 * place.
 */
enum {
	SCRATCH_SLOTS = 4,            /* regions at a time */
	SCRATCH_ALIGN = 2 << 20,      /* of sizes and addresses */
	SCRATCH_MAX_SIZE = 256 << 20, /* of a region */
	SCRATCH_RAM_REGIONS = 2,
};

struct scratch_memory {
	const struct kvm *kvm;
	uint64_t gpa; /* of the first place; 0: no room below the guest's address width */
	int fd;       /* one memory file for all places; -1 until the first is used */
	uint8_t *hva;
	size_t nr_ram; /* the first of the regions */
	struct guest_region regions[SCRATCH_RAM_REGIONS + SCRATCH_SLOTS];
	size_t nr_regions; /* accessed atomically */
};

/* phys_bits: width of the guest's physical addresses. `kvm` must outlive *scratch. */
void scratch_memory_init(struct scratch_memory *scratch, const struct kvm *kvm,
			 const struct guest_memory *memory, unsigned int phys_bits);
/* After the machine is gone. */
void scratch_memory_deinit(struct scratch_memory *scratch);

/*
 * Zeroed memory at a free place; `size` in bytes, a multiple of SCRATCH_ALIGN up to
 * SCRATCH_MAX_SIZE.
 *  -EINVAL  another size
 *  -ENOSPC  all places are taken, or there is none
 *  others   those of KVM, memfd_create() and mmap()
 */
int scratch_memory_add(struct scratch_memory *scratch, uint64_t size, struct guest_region *out,
		       struct error *err);

/*
 * Remove a region and its contents. -ENOENT if there is none at region->gpa.
 *
 * No vCPU can reach the memory of a deleted memslot: KVM flushes every TLB entry that leads there,
 * of guest-virtual and of guest-physical addresses, before its ioctl returns, or at the latest when
 * the vCPU enters the guest again. So a caller that has removed a mapping from the guest's page
 * tables needs no flush by the guest.
 */
int scratch_memory_remove(struct scratch_memory *scratch, const struct guest_region *region,
			  struct error *err);

#endif

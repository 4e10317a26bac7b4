/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_SCRATCH_MAPPING_H
#define SONDE_INTROSPECT_KERNEL_SCRATCH_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"
#include "introspect/kernel/kernel.h"

/*
 * Memory of ours (guest_scratch_ops.add) at a kernel address within reach of a call from the
 * kernel's text and its modules: entries of the PMD table that maps the kernel image and that the
 * kernel leaves empty (level2_kernel_pgt; Documentation/arch/x86/x86_64/mm.rst). All processes
 * share that table, also with KPTI, whose user-mode tables do without it.
 *
 * Only the first 512 MiB of the image area are used: where a kernel is built without KASLR the
 * modules begin behind them.
 */
enum {
	KERNEL_MAP_CHUNK = 2 << 20, /* a PMD entry maps so much */
	KERNEL_MAP_PAGE = 4096,     /* granularity of parts */
	KERNEL_MAP_MAX = 256 << 20, /* bytes in one mapping */
	KERNEL_MAP_MAX_PARTS = 16,
};

/* A range of the scratch region, in bytes; multiples of KERNEL_MAP_PAGE. */
struct scratch_part {
	uint64_t offset, size;
	bool executable; /* and read-only; else writable and not executable */
};

struct scratch_mapping {
	uint64_t gva;  /* of the scratch region's first byte; offsets in both are the same */
	uint64_t size; /* of the scratch region */
	const struct kernel *kernel;
	uint64_t slots_gpa;                                /* of its first PMD entry */
	uint64_t slots[KERNEL_MAP_MAX / KERNEL_MAP_CHUNK]; /* what was written; 0: nothing */
};

/*
 * Bytes that page tables for these parts take at the end of the scratch region; no part may lie
 * there. A chunk that one part fills is one PMD entry and takes none. Any other chunk with a part
 * in it takes a page table of KERNEL_MAP_PAGE bytes.
 *
 * Parts that fill their chunks are to be preferred: code of the guest that walks its own tables
 * (CONFIG_DEBUG_WX at the end of boot, kernel_page_tables in debugfs) looks for page tables in its
 * direct map, where scratch memory is not.
 */
size_t scratch_mapping_tables_size(const struct scratch_part *parts, size_t nr_parts);

/*
 * Map the parts of `scratch` (gpa and size multiples of KERNEL_MAP_CHUNK; the rest of it stays
 * unmapped) into the running kernel. The guest is stopped by the caller; `kernel` must outlive
 * *out. All or nothing, and verified by a page walk. No TLB needs a flush: processors do not keep
 * entries that are not present.
 *
 * -EAGAIN: early boot, the kernel has not cleared the unused part of its image mapping yet
 * (cleanup_highmap()). -ENOSPC: no room. -EINVAL: parts that overlap, are misaligned, outside, or
 * on the page tables. -ENOTSUP: a guest without vCPU state, or not at the usual place. -EIO: guest
 * memory does not hold what was written.
 */
int scratch_mapping_create(const struct kernel *kernel, const struct guest_region *scratch,
			   const struct scratch_part *parts, size_t nr_parts,
			   struct scratch_mapping *out, struct error *err);

/*
 * Take it away: zeroes the entries that are still ours. -ESTALE, with the address, if others were
 * found, which are left alone. The guest is stopped by the caller and no vCPU is inside or will
 * return there.
 *
 * TLBs may still hold the mapping afterwards: call guest_scratch_ops.remove before the guest runs
 * again, which gets rid of them.
 */
int scratch_mapping_remove(struct scratch_mapping *mapping, struct error *err);

/*
 * Find a mapping that another process has made: the gva of `gpa` (a multiple of KERNEL_MAP_CHUNK)
 * among the chunks of the kernel's image area. root and levels as for page_walk(). -EPROTO: none.
 */
int scratch_mapping_find(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gpa,
			 uint64_t *gva, struct error *err);

#endif

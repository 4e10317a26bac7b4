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
 * Scratch memory (guest_scratch_ops.add) mapped within reach of a call from the kernel's text and
 * its modules. It takes entries that the kernel leaves empty in the PMD table of the image
 * (level2_kernel_pgt; Documentation/arch/x86/x86_64/mm.rst). All processes share that table; under
 * KPTI user mode does without it.
 *
 * Only the first 512 MiB of the image area are used: in a kernel without KASLR, modules begin
 * behind them.
 */
enum {
	KERNEL_MAP_CHUNK = 2 << 20, /* mapped by one PMD entry */
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
	uint64_t slots_gpa; /* of its first PMD entry */
	/* the entries that were written; 0: none */
	uint64_t slots[KERNEL_MAP_MAX / KERNEL_MAP_CHUNK];
};

/*
 * Bytes that page tables for these parts take at the end of the scratch region; no part may lie
 * there. A chunk that one part fills is one PMD entry and takes none. Any other chunk with a part
 * in it takes a page table of KERNEL_MAP_PAGE bytes.
 *
 * Prefer parts that fill their chunks: a guest that walks its own tables (CONFIG_DEBUG_WX at the
 * end of boot, kernel_page_tables in debugfs) reads page tables through its direct map, where
 * scratch memory is not.
 */
size_t scratch_mapping_tables_size(const struct scratch_part *parts, size_t nr_parts);

/*
 * Map the parts of `scratch` (gpa and size multiples of KERNEL_MAP_CHUNK; the rest of it stays
 * unmapped) into the running kernel. The guest is stopped by the caller; `kernel` must outlive
 * *out. All or nothing, and verified by a page walk. No TLB needs a flush: processors do not keep
 * entries that are not present.
 *
 * -EAGAIN: early boot; cleanup_highmap() has not cleared the unused part of the image mapping yet.
 * -ENOSPC: no room. -EINVAL: a part overlaps another, is misaligned, outside, or on the page
 * tables. -ENOTSUP: the guest has no vCPU state, or its kernel is not at the usual place. -EIO:
 * guest memory does not hold what was written.
 */
int scratch_mapping_create(const struct kernel *kernel, const struct guest_region *scratch,
			   const struct scratch_part *parts, size_t nr_parts,
			   struct scratch_mapping *out, struct error *err);

/*
 * Zero the entries that still hold what was written. -ESTALE, with the address: an entry holds
 * something else, and was left alone. After another error entries are left, and size is not 0: call
 * it again. The guest is stopped by the caller, and no vCPU is in the mapping or will return there.
 *
 * TLBs may still hold the mapping afterwards: call guest_scratch_ops.remove, which flushes them,
 * before the guest runs again.
 */
int scratch_mapping_remove(struct scratch_mapping *mapping, struct error *err);

/*
 * Find a mapping that another process has made: the gva of `gpa` (a multiple of KERNEL_MAP_CHUNK)
 * among the chunks of the kernel's image area. root and levels as for page_walk(). -EPROTO: none.
 */
int scratch_mapping_find(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gpa,
			 uint64_t *gva, struct error *err);

#endif

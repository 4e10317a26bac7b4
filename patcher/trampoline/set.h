/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_SET_H
#define SONDE_PATCHER_TRAMPOLINE_SET_H

#include "formats/base/error.h"
#include "formats/base/u64-map.h"
#include "patcher/probe/probe.h"
#include "patcher/ring/ring.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/trampoline/trampoline.h"
#include "patcher/text/trap-table.h"

/*
 * The trampolines for all places of a plan that can have one. Places that are too
 * small for a jump keep their trap.
 *
 * A place's number, which its records carry, counts the plan's entries, then its returns.
 */
struct trampoline_place {
	bool made;
	const struct probe_ref *ref; /* entries */
	uint64_t retry, skip;        /* gvas; see struct trampoline */
	struct capture capture;
	struct record_layout layout;
};

struct trampoline_set {
	struct trampoline_place *places;
	struct ring_shape *shapes; /* by place */
	size_t n;
	struct u64_map by_trap; /* gva of the slow path's OUT -> uint32_t place */
	size_t code_bytes;
	size_t made;
};

/* Of `kernel`, what the plan's captures look up in struct pages is filled in from their
 * page_lookup (capture.h). */
struct trampoline_room {
	uint64_t gva;   /* of the code in the guest */
	uint8_t *bytes; /* the same memory */
	size_t size;
	struct trampoline_rings rings;
	const struct trampoline_kernel *kernel;
	uint64_t saved_arrays; /* gva; see struct trampoline_spec */
	enum trampoline_full full;
};

/*
 * Write the code and, for every place that has some now, the jump to it as the new bytes of its
 * patch in `plan`: to be applied by the caller. -ENOSPC if there is too little room for code; what
 * trampoline_generate() or a page_lookup says. `plan` keeps its traps then.
 */
int trampoline_set_make(struct trampoline_set *set, struct patch_plan *plan,
			const struct trap_table *traps, struct decoder *decoder,
			const struct trampoline_room *room, struct error *err);
void trampoline_set_deinit(struct trampoline_set *set);

/* The place whose slow path has its OUT at `gva`, or NULL. */
const struct trampoline_place *trampoline_set_at(const struct trampoline_set *set, uint64_t gva);

/* A record of a trampoline of this set, validated by the set's shapes; time and vCPU are left. Its
 * stack and items point into the record. */
void trampoline_set_read(const struct trampoline_set *set, const struct ring_record *record,
			 enum probe_point *point, const struct probe_ref **ref,
			 struct probe_hit *hit);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_PATCH_SET_H
#define SONDE_PATCHER_TEXT_PATCH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "introspect/tasks/stack-scan.h"

/*
 * A set of changes to guest text that is made as a whole or not at all, and taken back exactly. It
 * may be large (each function of a kernel): patches are sorted by address, and guest memory is read
 * and written page by page.
 */
enum { PATCH_MAX_SIZE = 15 };

struct patch {
	uint64_t gva;
	uint8_t size;
	uint8_t old_bytes[PATCH_MAX_SIZE];
	uint8_t new_bytes[PATCH_MAX_SIZE];
	const char *function; /* for messages; not owned */
	bool trap;      /* new_bytes are a trap; a guest with breaks gets one of these instead */
	bool yielded;   /* the guest's own for now: apply and revert pass it over */
	bool off;       /* not wanted for now: likewise */
	bool transient; /* the guest may free this text with the patch in it */
	/* The old bytes are several instructions, between which one of these tasks may be. NULL:
	 * one instruction. Borrowed; where it is all 0, the tasks are not known yet. */
	const struct task_stacks *between;
	_Atomic uint8_t holder; /* of an entry site: what holds it (enum site_state), 0 = not known.
				   Any thread. */
};

struct patch_set {
	struct patch *v;
	size_t n, capacity;
	bool sorted; /* by gva, and no patch overlaps another */
	bool applied;
	/* The guest has not run since these patches stood in its text, or runs its first task only:
	 * no task can be inside one of them. */
	bool vacant;
};

/* Per-patch outcome of a revert. */
struct patch_outcome {
	size_t restored;        /* held the new bytes or a break, now holds the old bytes */
	size_t unchanged;       /* held the old bytes already */
	size_t foreign;         /* held neither: left alone */
	size_t failed;          /* could not be read or written */
	uint64_t first_foreign; /* address of the first of `foreign` */
};

/* Append. -EINVAL if it has no or too many bytes, -ENOMEM. */
int patch_set_add(struct patch_set *set, const struct patch *patch, struct error *err);
/* All that another set has. -ENOMEM. */
int patch_set_add_all(struct patch_set *set, const struct patch_set *from, struct error *err);
/* Those of a sorted set that end behind `begin` and begin below `end`. */
int patch_set_add_range(struct patch_set *set, const struct patch_set *from, uint64_t begin,
			uint64_t end, struct error *err);

/*
 * Sort by address; patches of the same place with the same bytes become one. -EBUSY if two others
 * overlap. What follows sorts as well; indices and `n` are final from then on.
 */
int patch_set_sort(struct patch_set *set, struct error *err);

void patch_set_deinit(struct patch_set *set);

/*
 * What turns guest text with `from` applied into text with `to` applied: appended to *out, which is
 * sorted then. Both are sorted; patches of the same address have the same old bytes, and none that
 * is yielded or off counts. -ENOMEM.
 */
int patch_set_difference(const struct patch_set *from, const struct patch_set *to,
			 struct patch_set *out, struct error *err);

/* Whether apply and revert pass it over. */
static inline bool patch_is_out(const struct patch *patch)
{
	return patch->yielded || patch->off;
}

/* How many are not off. */
size_t patch_set_wanted(const struct patch_set *set);

/* Index of the first patch that ends behind `gva`, set->n if none does. The set is sorted. */
size_t patch_set_find(const struct patch_set *set, uint64_t gva);
/* The patch that begins at `gva`, or NULL. The set is sorted. */
const struct patch *patch_set_at(const struct patch_set *set, uint64_t gva);

/*
 * Call `fn` for each patch of a sorted set, those that are passed over too, with the bytes that
 * stand there now; with NULL, and *err set, where they cannot be read. Stops at the first error
 * that `fn` returns.
 */
typedef int patch_bytes_fn(void *arg, struct patch *patch, const uint8_t *now, struct error *err);
int patch_set_read(struct patch_set *set, const struct kernel *kernel, patch_bytes_fn *fn,
		   void *arg, struct error *err);

/*
 * With every vCPU stopped: verify all old bytes, refuse if a vCPU is strictly inside a patch, or a
 * task between the instructions of one, write all, read back. On any failure everything written is
 * put back and *err has the reason and the address of the first refusal: -ESTALE old bytes differ
 * or transient text is gone, -EBUSY a vCPU stayed inside, -ETXTBSY a task may be between
 * instructions, -EIO. If the guest does not resume, that error; the set is still applied if nothing
 * could be put back.
 */
int patch_set_apply(struct patch_set *set, const struct kernel *kernel, struct error *err);

/*
 * With every vCPU stopped: put the old bytes back wherever the new ones still stand. A set that is
 * not applied has nothing to take back; one of which patches failed stays applied, so that a later
 * call tries them again. Transient patches whose text is gone count as unchanged. Adds to *outcome,
 * which may be NULL. If the guest does not resume afterwards, that error; the set is not applied
 * then, as the old bytes are back.
 */
int patch_set_revert(struct patch_set *set, const struct kernel *kernel,
		     struct patch_outcome *outcome, struct error *err);

/* With every vCPU stopped: patch `i` is the guest's own from now on, which gets its old bytes. */
int patch_set_yield(struct patch_set *set, size_t i, const struct kernel *kernel,
		    struct error *err);

/* --- one place that was written -------------------------------------------------------------- */

struct patch_place {
	uint64_t address;
	size_t size;
	const uint8_t *original;
	const uint8_t *ours; /* that the tracer wrote: nr_ours times `size` bytes, any of them */
	size_t nr_ours;
};

enum patch_place_state { PATCH_PLACE_OURS, PATCH_PLACE_ORIGINAL, PATCH_PLACE_FOREIGN };

/* `now` are the place's bytes. */
enum patch_place_state patch_place_state(const struct patch_place *place, const uint8_t *now);

/* Write the original bytes if the state is PATCH_PLACE_OURS, and count in *outcome. Returns what
 * `write` returns. */
typedef int patch_write_fn(void *arg, uint64_t address, const uint8_t *bytes, size_t size,
			   struct error *err);
int patch_place_restore(const struct patch_place *place, const uint8_t *now, patch_write_fn *write,
			void *arg, struct patch_outcome *outcome, struct error *err);

#endif

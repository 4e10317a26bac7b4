/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_PATCH_SET_H
#define SONDE_PATCHER_TEXT_PATCH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * A set of changes to guest text that is made as a whole or not at all, and taken back exactly.
 */
enum { PATCH_MAX_SIZE = 8 };

struct patch {
	uint64_t gva;
	uint8_t size;
	uint8_t old_bytes[PATCH_MAX_SIZE];
	uint8_t new_bytes[PATCH_MAX_SIZE];
	const char *function; /* for messages; not owned */
	bool trap;    /* new_bytes are one; where the guest has breaks it is one of these instead */
	bool yielded; /* somebody else's for now: passed over in all that follows */
};

struct patch_set {
	struct patch *v;
	size_t n, capacity;
	bool applied;
};

/* What became of each patch when the set was taken back. */
struct patch_outcome {
	size_t restored;        /* held our bytes or a break, now holds the old ones */
	size_t unchanged;       /* held the old bytes already */
	size_t foreign;         /* held neither: somebody else's now, left alone */
	uint64_t first_foreign; /* gva of the first of those */
};

/* Adding the same place with the same bytes twice is one patch. -EBUSY if it overlaps another one,
 * -EINVAL if it has no or too many bytes.
 */
int patch_set_add(struct patch_set *set, const struct patch *patch, struct error *err);
void patch_set_deinit(struct patch_set *set);

/*
 * With every vCPU stopped: verify all old bytes, refuse if a vCPU is strictly inside a patch, write
 * all, read back. On any failure everything written is put back and *err has the reason and the
 * address of the first refusal: -ESTALE old bytes differ, -EBUSY a vCPU stayed inside, -EIO.
 */
int patch_set_apply(struct patch_set *set, const struct kernel *kernel, struct error *err);

/*
 * With every vCPU stopped: put the old bytes back wherever ours still stand. A set that is not
 * applied has nothing to take back; one that could not be taken back wholly stays applied, to be
 * tried again. *outcome may be NULL.
 */
int patch_set_revert(struct patch_set *set, const struct kernel *kernel,
		     struct patch_outcome *outcome, struct error *err);

/* With every vCPU stopped: one patch is somebody else's from now on, who gets its old bytes. */
int patch_set_give(struct patch_set *set, size_t i, const struct kernel *kernel, struct error *err);

#endif

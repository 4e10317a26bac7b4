/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GROUPS_GROUPS_INTERNAL_H
#define SONDE_FORMATS_GROUPS_GROUPS_INTERNAL_H

#include "formats/base/u64-map.h"
#include "formats/groups/groups.h"

/* What groups.c (sums of groups) and keys.c (what groups are of) share. */

enum { GROUP_NAME_SIZE = 56 };

/* Numbers for names of modules, or of structures, in the order in which they come. */
struct name_numbers {
	char (*names)[GROUP_NAME_SIZE];
	size_t count, room;
	struct u64_map by_hash; /* to the number */
};

struct groups {
	struct grouping by;
	const struct heap *heap;
	const struct sidecar *sidecar;
	struct group *all;
	uint32_t count, room;
	struct u64_map index; /* number of the last group with this hash */
	bool has_site;        /* groups have one call site, or function, each */
	bool by_origin_only;  /* an origin's allocations are all in one group: */
	uint32_t *of_origin;  /* the group's number plus 1; 0: not known yet */
	size_t nr_of_origin;
	struct name_numbers modules, structs;
};

/* The key of an object at ptr in one dimension. A name that is not known yet gets a number. */
uint64_t groups_key_of(struct groups *groups, enum dimension by, const struct heap_object *object,
		       uint64_t ptr);

void name_numbers_init(struct name_numbers *numbers);
void name_numbers_deinit(struct name_numbers *numbers);
/* Bytes of memory that they hold. */
size_t name_numbers_memory(const struct name_numbers *numbers);

#endif

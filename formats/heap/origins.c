/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call sites, with what they allocate. */
#include <errno.h>
#include <stdlib.h>
#include "formats/heap/internal.h"
#include "formats/heap/site-role.h"
#include "formats/heap/usual.h"

void origins_init(struct origins *origins)
{
	u64_map_init(&origins->by_site, sizeof(uint32_t));
}

void origins_deinit(struct origins *origins)
{
	u64_map_deinit(&origins->by_site);
	free(origins->all);
}

static enum heap_role role_of(enum site_role role, const struct kmem_record *record)
{
	if (record->type_id != KMEM_TYPE_PAGES)
		return HEAP_PLAIN;
	return role == SITE_SLAB ? HEAP_SLAB : role == SITE_LARGE ? HEAP_LARGE : HEAP_PLAIN;
}

static int64_t add(struct origins *origins, const struct sidecar *sidecar,
		   const struct kmem_record *record, uint64_t call_site)
{
	enum site_role role = site_role(sidecar, call_site);
	struct heap_origin *bigger;

	if (origins->count == origins->room) {
		uint32_t room = origins->room ? origins->room * 2 : 256;

		bigger = room > origins->room ? reallocarray(origins->all, room, sizeof(*bigger))
					      : NULL;
		if (!bigger)
			return -ENOMEM;
		origins->all = bigger;
		origins->room = room;
	}
	origins->all[origins->count] = (struct heap_origin){
		.call_site = call_site,
		.cache = record->cache,
		.type = record->type_id,
		.role = role_of(role, record),
		.is_wrapper = role == SITE_WRAPPER || role == SITE_PAGES,
		.is_target =
			record->type_id == KMEM_TYPE_PAGES && heap_is_target(sidecar, call_site),
		.is_mixed = role == SITE_PAGES && record->type_id == KMEM_TYPE_PAGES};
	return origins->count++;
}

static int64_t find_or_add(struct origins *origins, const struct sidecar *sidecar,
			   const struct kmem_record *record, uint64_t call_site)
{
	bool is_new;
	uint32_t *first = u64_map_insert(&origins->by_site, call_site, &is_new);
	int64_t added;

	if (!first)
		return -ENOMEM;
	for (uint32_t i = is_new ? 0 : *first + 1; i; i = origins->all[i - 1].next) {
		if (origin_is_of(&origins->all[i - 1], record, call_site))
			return i - 1;
	}
	added = add(origins, sidecar, record, call_site);
	if (added < 0) {
		if (is_new)
			u64_map_remove(&origins->by_site, call_site);
		return added;
	}
	origins->all[added].next = is_new ? 0 : *first + 1;
	*first = (uint32_t)added;
	return added;
}

int64_t origins_find(struct origins *origins, const struct sidecar *sidecar,
		     const struct kmem_record *record, uint64_t call_site)
{
	const int64_t found = find_or_add(origins, sidecar, record, call_site);

	if (found >= 0)
		*origins_recent(origins, record, call_site) = (uint32_t)found;
	return found;
}

int heap_find_brief_origin(struct heap *heap, const struct kmem_brief *brief,
			   struct brief_origin *out)
{
	const struct kmem_record record = kmem_brief_record(brief);
	const int64_t found = origins_get(&heap->origins, heap->sidecar, &record, record.call_site);

	if (found < 0)
		return -ENOMEM;
	*out = (struct brief_origin){origins_key(brief), (uint32_t)found};
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which call sites move pages to others, as the names of their functions say. */
#include <string.h>
#include "formats/heap/internal.h"

/* mm/migrate.c of Linux 4.19 to 7.x: they free what they have copied elsewhere. */
static const char *const movers[] = {"migrate_page", "migrate_folio", "unmap_and_move",
				     "move_to_new_", NULL};
/* Where pages to move to are allocated, in mm/migrate.c, mempolicy.c, vmscan.c, memory_hotplug.c. */
static const char *const targets[] = {"alloc_migration_target",
				      "alloc_misplaced_dst",
				      "alloc_demote",
				      "alloc_new_node_page",
				      "new_node_page",
				      "new_page",
				      "new_folio",
				      NULL};

static bool begins_as_one(const struct sidecar *sidecar, uint64_t call_site,
			  const char *const *begins)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, call_site);
	const char *name = symbol ? symbol->name : "";

	name += strspn(name, "_");
	for (; *begins; begins++)
		if (!strncmp(name, *begins, strlen(*begins)))
			return true;
	return false;
}

bool heap_is_target(const struct sidecar *sidecar, uint64_t call_site)
{
	return begins_as_one(sidecar, call_site, targets);
}

bool heap_find_freer(struct heap *heap, uint64_t call_site)
{
	struct freer *freer = heap_recent_freer(heap, call_site);

	*freer = (struct freer){.call_site = call_site,
				.is_known = true,
				.moves = begins_as_one(heap->sidecar, call_site, movers)};
	return freer->moves;
}

uint64_t heap_moved_bytes(const struct heap *heap)
{
	const struct moved *moved = &heap->moved;

	return moved->bytes > moved->target_bytes ? moved->bytes - moved->target_bytes : 0;
}

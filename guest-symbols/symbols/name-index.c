/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/symbols/name-index.h"

#include <errno.h>
#include <stdlib.h>

/* FNV-1a, 32 bits. */
static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261u;

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * 16777619u;
	return hash;
}

int name_index_init(struct name_index *index, size_t capacity)
{
	size_t size = 16;

	while (size / 2 < capacity)
		size *= 2;
	index->slots = calloc(size, sizeof(*index->slots));
	index->mask = size - 1;
	return index->slots ? 0 : -ENOMEM;
}

void name_index_deinit(struct name_index *index)
{
	free(index->slots);
	*index = (struct name_index){0};
}

void name_index_add(struct name_index *index, const char *name, uint32_t number)
{
	uint32_t hash = hash_name(name);
	size_t slot = hash & index->mask;

	while (index->slots[slot].number_plus_1)
		slot = (slot + 1) & index->mask;
	index->slots[slot] = (struct name_slot){.hash = hash, .number_plus_1 = number + 1};
}

struct name_cursor name_index_start(const struct name_index *index, const char *name)
{
	uint32_t hash = hash_name(name);

	return (struct name_cursor){.hash = hash, .slot = hash & index->mask};
}

bool name_index_next(const struct name_index *index, struct name_cursor *cursor, uint32_t *number)
{
	while (index->slots[cursor->slot].number_plus_1) {
		const struct name_slot *slot = &index->slots[cursor->slot];

		cursor->slot = (cursor->slot + 1) & index->mask;
		if (slot->hash != cursor->hash)
			continue;
		*number = slot->number_plus_1 - 1;
		return true;
	}
	return false;
}

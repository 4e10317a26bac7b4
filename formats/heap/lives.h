/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_LIVES_H
#define SONDE_FORMATS_HEAP_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"
#include "formats/heap/heap.h"

/*
 * What is live, by address: a hash table with chains, whose links are in the objects. Each event
 * looks for an object, so it takes fewer instructions than a struct u64_map: nothing moves when an
 * object goes, and an object and its address are in one line of the processor's cache. Addresses
 * come from guests and trace files: the hash is multiply-shift with a secret factor, of which two
 * addresses collide no more often than by chance. Memory grows with the greatest number of objects
 * at a time.
 */
struct life {
	uint64_t ptr;
	uint32_t next; /* index of the next one in its chain, or of the next free one; 0: none */
	struct heap_object object;
} __attribute__((aligned(64)));

struct lives {
	struct life *all; /* index 0 is none */
	uint32_t *heads;  /* of chains, by hash: an index */
	uint32_t room;    /* of both: a power of two */
	uint32_t used;    /* entries of `all` that were ever used, with the first */
	uint32_t free;    /* the first free one of these; 0: none */
	unsigned int shift;
	uint64_t factor; /* odd */
};

/* Returns 0 or -ENOMEM; then there is nothing to deinit, but it does no harm. */
int lives_init(struct lives *lives);
void lives_deinit(struct lives *lives);

static inline uint32_t *lives_head(const struct lives *lives, uint64_t ptr)
{
	return &lives->heads[ptr * lives->factor >> lives->shift];
}

/* The object, or NULL. Valid until the next one is inserted. */
static inline struct heap_object *lives_find(const struct lives *lives, uint64_t ptr)
{
	struct life *life;

	for (uint32_t i = *lives_head(lives, ptr); i; i = life->next) {
		life = &lives->all[i];
		if (life->ptr == ptr)
			return &life->object;
	}
	return NULL;
}

/* For lives_insert(): an address that is not there. NULL: no memory. */
struct heap_object *lives_add(struct lives *lives, uint64_t ptr);

/* The object at ptr, inserted if there is none, which *is_new (may be NULL) says: the caller sets
 * all of a new one. NULL: no memory. */
static inline struct heap_object *lives_insert(struct lives *lives, uint64_t ptr, bool *is_new)
{
	struct heap_object *object = lives_find(lives, ptr);

	if (is_new)
		*is_new = !object;
	return object ? object : lives_add(lives, ptr);
}

/* Of an object that was found. */
void lives_remove(struct lives *lives, const struct heap_object *object);

/* Each of them, in no order: start with *pos = 0; NULL at the end. Must not change meanwhile. */
struct heap_object *lives_next(const struct lives *lives, size_t *pos, uint64_t *ptr);

/* Have the processor load the first object of a chain. Where chains begin takes 4 bytes for each,
 * so that is mostly in a cache. */
static inline void lives_prefetch(const struct lives *lives, uint64_t ptr)
{
	if (lives->used * sizeof(struct life) > U64_MAP_CACHED)
		u64_map_load_soon(&lives->all[*lives_head(lives, ptr)]);
}

/* Bytes of memory that they take. */
size_t lives_memory(const struct lives *lives);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	INITIAL_BITS = 6,
	MAX_BITS = 31,
	/* Bits: chains are four times as many as objects can be. The second object of a chain is
	 * not loaded before it is needed, which takes as long as all the rest of an event. */
	MORE_HEADS = 2,
};

static int make_room(struct lives *lives, unsigned int bits)
{
	const uint32_t room = UINT32_C(1) << bits;
	const size_t nr_heads = (size_t)room << MORE_HEADS;

	lives->all = u64_map_array(room, sizeof(*lives->all));
	lives->heads = u64_map_array(nr_heads, sizeof(*lives->heads));
	if (!lives->all || !lives->heads) {
		lives_deinit(lives);
		return -ENOMEM;
	}
	memset(lives->heads, 0, nr_heads * sizeof(*lives->heads));
	lives->room = room;
	lives->shift = 64 - bits - MORE_HEADS;
	return 0;
}

int lives_init(struct lives *lives)
{
	*lives = (struct lives){.used = 1};
	/* Without entropy the table still works; it is only predictable. */
	if (getrandom(&lives->factor, sizeof(lives->factor), GRND_NONBLOCK) < 0)
		lives->factor = UINT64_C(0x9e3779b97f4a7c15);
	lives->factor |= 1;
	return make_room(lives, INITIAL_BITS);
}

void lives_deinit(struct lives *lives)
{
	free(lives->all);
	free(lives->heads);
	lives->all = NULL;
	lives->heads = NULL;
}

static void link_life(struct lives *lives, uint32_t i)
{
	uint32_t *head = lives_head(lives, lives->all[i].ptr);

	lives->all[i].next = *head;
	*head = i;
}

/* All entries are used. */
static int grow(struct lives *lives)
{
	const unsigned int bits = 64 - lives->shift - MORE_HEADS + 1;
	struct lives bigger = *lives;

	if (bits > MAX_BITS || make_room(&bigger, bits))
		return -ENOMEM;
	memcpy(bigger.all, lives->all, lives->used * sizeof(*lives->all));
	for (uint32_t i = 1; i < bigger.used; i++)
		link_life(&bigger, i);
	lives_deinit(lives);
	*lives = bigger;
	return 0;
}

struct heap_object *lives_add(struct lives *lives, uint64_t ptr)
{
	uint32_t i = lives->free;

	if (i) {
		lives->free = lives->all[i].next;
		u64_map_load_soon(&lives->all[lives->free]);
	} else {
		if (lives->used == lives->room && grow(lives))
			return NULL;
		i = lives->used++;
		lives->all[i].object = (struct heap_object){0};
	}
	lives->all[i].ptr = ptr;
	link_life(lives, i);
	return &lives->all[i].object;
}

void lives_remove(struct lives *lives, const struct heap_object *object)
{
	struct life *life =
		(struct life *)((char *)(uintptr_t)object - offsetof(struct life, object));
	const uint32_t i = (uint32_t)(life - lives->all);
	uint32_t *link = lives_head(lives, life->ptr);

	while (*link != i)
		link = &lives->all[*link].next;
	lives_unlink(lives, link);
}

struct heap_object *lives_next(const struct lives *lives, size_t *pos, uint64_t *ptr)
{
	while (++*pos < lives->used) {
		struct life *life = &lives->all[*pos];

		if (life->object.place == LIFE_FREE)
			continue;
		*ptr = life->ptr;
		return &life->object;
	}
	return NULL;
}

size_t lives_memory(const struct lives *lives)
{
	return lives->room * (sizeof(*lives->all) + (sizeof(*lives->heads) << MORE_HEADS));
}

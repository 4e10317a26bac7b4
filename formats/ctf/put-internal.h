/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_PUT_INTERNAL_H
#define SONDE_FORMATS_CTF_PUT_INTERNAL_H

#include "formats/ctf/internal.h"

/* What put.c (events by the steps of a plan), and put-known.c and put-kmem.c (those of
 * classes that the compiler knows) share. */

/* The packet uses a cache that it did not use before. */
void ctf_use_cache(struct ctf_writer *w, uint16_t id);

/* How events of one of kmem_classes are written in this form; or NULL. */
ctf_put_fn *ctf_put_kmem(const struct event_class *class, unsigned int form);
/* ctf_put_mix_fn, of kmem_classes. */
size_t ctf_put_kmem_mix(struct ctf_writer *w, const struct event_mix *mix, size_t n);
/* Likewise, of kmem_classes_of() fields of tasks, without stacks. */
size_t ctf_put_kmem_task_mix(struct ctf_writer *w, const struct event_mix *mix, size_t n);

/* The id of a string; 0: it has none. */
uint64_t ctf_string_id(struct ctf_writer *w, const uint8_t *string, size_t size);

static inline void ctf_note_cache(struct ctf_writer *w, uint16_t id)
{
	if (!w->uses_cache[id])
		ctf_use_cache(w, id);
}

static inline uint64_t ctf_flags_id(struct ctf_writer *w, uint64_t flags)
{
	if (flags != w->last_flags) {
		w->last_flags = flags;
		w->last_flags_id = flags ? ctf_values_id(&w->flags, flags) : 0;
	}
	return w->last_flags_id;
}

static inline uint64_t ctf_order_of(uint64_t bytes)
{
	bool is_power = bytes && !(bytes & (bytes - 1));

	return is_power ? (uint64_t)__builtin_ctzll(bytes) - CTF_ORDER_SHIFT : UINT64_MAX;
}

/* The smallest order whose pages hold so many bytes. */
static inline uint64_t ctf_order_above(uint64_t bytes)
{
	uint64_t more = bytes ? (bytes - 1) >> CTF_ORDER_SHIFT : 0;

	return more ? 64 - (uint64_t)__builtin_clzll(more) : 0;
}

/* The time of the next event is one that a compact header expresses. */
static inline bool ctf_clock_is_near(const struct ctf_writer *w, int64_t ns)
{
	return !(((uint64_t)ns - w->clock) >> CTF_CLOCK_BITS) && ctf_clock_holds(ns);
}

static inline uint64_t ctf_compact_header(uint64_t id, uint64_t clock)
{
	return (uint32_t)(clock << CTF_ID_BITS) | id;
}

static inline bool ctf_has_room(const struct ctf_writer *w)
{
	return w->used + w->table_bytes <= CTF_PACKET_MAX - CTF_EVENT_ROOM;
}

/* How many of `n` events certainly have room, each as ctf_has_room() has it; of `most` bytes, with
 * what they add to the tables. */
static inline size_t ctf_room_for(const struct ctf_writer *w, size_t most, size_t n)
{
	size_t fits;

	if (!ctf_has_room(w))
		return 0;
	fits = 1 + (CTF_PACKET_MAX - CTF_EVENT_ROOM - w->used - w->table_bytes) / most;
	return n < fits ? n : fits;
}

static inline void ctf_store_word(uint8_t *bytes, uint64_t word)
{
	word = htole64(word);
	memcpy(bytes, &word, sizeof(word));
}

#endif

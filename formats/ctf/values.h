/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_VALUES_H
#define SONDE_FORMATS_CTF_VALUES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"
#include "formats/event/call-sites.h"

/*
 * Values that events name by ids: addresses of code, flags, strings. A value is two words, of which
 * the second is 0 for all but strings.
 */
struct ctf_value {
	uint64_t word[2];
};

/*
 * Numbers the values of one kind in the order in which they first come, from 1 on, for all streams
 * of an instance together. Thread-safe.
 */
struct ctf_dictionary {
	pthread_mutex_t lock;
	struct u64_map ids; /* to index in `values`, by hash */
	struct ctf_value *values;
	size_t count, capacity, max;
	struct budget *budget; /* or NULL */
};

void ctf_dictionary_init(struct ctf_dictionary *dictionary, size_t max, struct budget *budget);
void ctf_dictionary_deinit(struct ctf_dictionary *dictionary);

/* A copy of all, to be freed: the value at i has id i + 1. NULL without memory, or values. */
struct ctf_value *ctf_dictionary_copy(struct ctf_dictionary *dictionary, size_t *count);

struct ctf_known_value {
	struct ctf_value value;
	uint32_t packet; /* the last one that uses it; 0: none */
	uint16_t id;     /* 0: the slot is empty */
};

struct ctf_used_value {
	struct ctf_value value;
	uint16_t id;
};

/* The values of one kind in one stream, and those that the packet at hand uses. */
struct ctf_values {
	struct ctf_dictionary *all;
	struct ctf_known_value *known; /* a hash table: open addressing, at most a quarter full */
	unsigned int known_shift;      /* it has 2^(64 - known_shift) slots */
	uint32_t packet;               /* number of the packet, from 1 on */
	size_t nr_known;
	struct ctf_used_value *used; /* by the packet */
	size_t nr_used, capacity;
	size_t *table_bytes;      /* counts what the packet's tables take: */
	size_t bytes_each;        /* so much for each value */
	struct call_sites *sites; /* is told of what is new to all streams; or NULL */
};

/* What the members are is said above; they must outlive the result. -ENOMEM. */
int ctf_values_init(struct ctf_values *values, struct ctf_dictionary *all, size_t *table_bytes,
		    size_t bytes_each, struct call_sites *sites);
void ctf_values_deinit(struct ctf_values *values);

/* A new packet begins: it uses none. */
void ctf_values_begin(struct ctf_values *values);

/* The id of a value, which the packet uses from now on; 0: it gets none. */
uint16_t ctf_values_find(struct ctf_values *values, const struct ctf_value *value);

/* The same of a single word. */
uint16_t ctf_values_find_word(struct ctf_values *values, uint64_t word);

/* The upper bits are where the search begins. */
static inline uint64_t ctf_values_hash(uint64_t word)
{
	return word * UINT64_C(0x9e3779b97f4a7c15);
}

/* What a search needs: for a loop, in registers. */
struct ctf_values_search {
	const struct ctf_known_value *known;
	unsigned int known_shift;
	uint32_t packet;
};

static inline struct ctf_values_search ctf_values_search(const struct ctf_values *values)
{
	return (struct ctf_values_search){values->known, values->known_shift, values->packet};
}

/* Likewise, and mostly without a call. The values are all single words, or all strings. False: it
 * gets none. */
static inline bool ctf_values_next_id(struct ctf_values *values, struct ctf_values_search *search,
				      uint64_t word, uint64_t *id)
{
	const struct ctf_known_value *known =
		&search->known[ctf_values_hash(word) >> search->known_shift];

	if (__builtin_expect(known->value.word[0] == word && known->packet == search->packet, 1)) {
		*id = known->id;
		return true;
	}
	*id = ctf_values_find_word(values, word);
	*search = ctf_values_search(values);
	return *id;
}

/* 0: it gets none. */
static inline uint16_t ctf_values_id(struct ctf_values *values, uint64_t word)
{
	struct ctf_values_search search = ctf_values_search(values);
	uint64_t id;

	return ctf_values_next_id(values, &search, word, &id) ? (uint16_t)id : 0;
}

#endif

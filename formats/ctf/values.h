/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_VALUES_H
#define SONDE_FORMATS_CTF_VALUES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"
#include "formats/trace/call-sites.h"

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

struct ctf_used_value {
	struct ctf_value value;
	unsigned int id;
};

/* The values of one kind in one stream, and those that the packet at hand uses. */
struct ctf_values {
	struct ctf_dictionary *all;
	struct u64_map known;        /* to struct known_value, by hash */
	struct ctf_used_value *used; /* by the packet */
	size_t nr_used, capacity;
	uint32_t packet;          /* number of the packet, from 1 on */
	size_t *table_bytes;      /* counts what the packet's tables take: */
	size_t bytes_each;        /* so much for each value */
	struct call_sites *sites; /* is told of each value; or NULL */
	unsigned int recent_shift;
	struct {
		uint64_t value; /* the first word; the second is 0 */
		uint32_t id, packet;
	} * recent; /* some of those in use, by hash */
};

/* What the members are is said above; they must outlive the result. 2^recent_bits values (1 to 32)
 * are found without a look-up. -ENOMEM. */
int ctf_values_init(struct ctf_values *values, struct ctf_dictionary *all, size_t *table_bytes,
		     size_t bytes_each, struct call_sites *sites, unsigned int recent_bits);
void ctf_values_deinit(struct ctf_values *values);

/* A new packet begins: it uses none. */
void ctf_values_begin(struct ctf_values *values);

/* The id of a value, which the packet uses from now on; 0: it gets none. */
unsigned int ctf_values_find(struct ctf_values *values, const struct ctf_value *value);

/* The same for a single word, mostly without a look-up. */
static inline unsigned int ctf_values_id(struct ctf_values *values, uint64_t word)
{
	uint64_t hash = word * UINT64_C(0x9e3779b97f4a7c15) >> values->recent_shift;
	const struct ctf_value value = {{word, 0}};
	unsigned int id;

	if (values->recent[hash].value == word && values->recent[hash].packet == values->packet)
		return values->recent[hash].id;
	id = ctf_values_find(values, &value);
	if (id) {
		values->recent[hash].value = word;
		values->recent[hash].id = id;
		values->recent[hash].packet = values->packet;
	}
	return id;
}

#endif

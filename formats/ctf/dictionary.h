/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_DICTIONARY_H
#define SONDE_FORMATS_CTF_DICTIONARY_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"

/*
 * Numbers 64-bit values in the order in which they first come, from 1 on, for all streams of a
 * trace together. Thread-safe.
 */
struct ctf_dictionary {
	pthread_mutex_t lock;
	struct u64_map ids; /* unsigned int by value */
	size_t max;
};

/* Ids go up to max. */
void ctf_dictionary_init(struct ctf_dictionary *dictionary, size_t max);
void ctf_dictionary_deinit(struct ctf_dictionary *dictionary);

/* The id of the value; 0 if there are no more ids, or there is no memory. */
unsigned int ctf_dictionary_id(struct ctf_dictionary *dictionary, uint64_t value);

/*
 * A copy: values[i] has id i + 1. To be freed. Returns their number, 0 and *values NULL without
 * memory.
 */
size_t ctf_dictionary_copy(struct ctf_dictionary *dictionary, uint64_t **values);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct known_value {
	struct ctf_value value;
	uint32_t id, packet;
};

/* Strings come from guests, which may make two of one hash: the second gets no id. */
static uint64_t hash_of(const struct ctf_value *value)
{
	uint64_t second = value->word[1] * UINT64_C(0x9e3779b97f4a7c15);

	return value->word[0] ^ (second << 31 | second >> 33);
}

static bool is_same(const struct ctf_value *a, const struct ctf_value *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/* Make room for one more item. Returns false without memory. */
static bool grow(struct budget *budget, void *items, size_t item_size, size_t count,
		 size_t *capacity)
{
	size_t more = *capacity ? 2 * *capacity : 64;
	void *old, *bigger;

	if (count < *capacity)
		return true;
	memcpy(&old, items, sizeof(old));
	bigger = budget_realloc(budget, old, *capacity * item_size, more * item_size);
	if (!bigger)
		return false;
	memcpy(items, &bigger, sizeof(bigger));
	*capacity = more;
	return true;
}

/* --- of an instance -------------------------------------------------------------------------- */

void ctf_dictionary_init(struct ctf_dictionary *dictionary, size_t max, struct budget *budget)
{
	*dictionary = (struct ctf_dictionary){.max = max, .budget = budget};
	pthread_mutex_init(&dictionary->lock, NULL);
	u64_map_init(&dictionary->ids, sizeof(unsigned int));
	u64_map_set_budget(&dictionary->ids, budget);
}

void ctf_dictionary_deinit(struct ctf_dictionary *dictionary)
{
	u64_map_deinit(&dictionary->ids);
	budget_free(dictionary->budget, dictionary->values,
		    dictionary->capacity * sizeof(*dictionary->values));
	pthread_mutex_destroy(&dictionary->lock);
}

static unsigned int add_value(struct ctf_dictionary *d, const struct ctf_value *value)
{
	unsigned int *id;

	if (d->count >= d->max ||
	    !grow(d->budget, &d->values, sizeof(*d->values), d->count, &d->capacity))
		return 0;
	id = u64_map_insert(&d->ids, hash_of(value), NULL);
	if (!id)
		return 0;
	d->values[d->count++] = *value;
	return *id = (unsigned int)d->count;
}

/* The id of the value; 0 if there are no more ids, or there is no memory. */
static unsigned int dictionary_id(struct ctf_dictionary *d, const struct ctf_value *value)
{
	const unsigned int *known;
	unsigned int id;

	pthread_mutex_lock(&d->lock);
	known = u64_map_find(&d->ids, hash_of(value));
	if (known)
		id = is_same(&d->values[*known - 1], value) ? *known : 0;
	else
		id = add_value(d, value);
	pthread_mutex_unlock(&d->lock);
	return id;
}

struct ctf_value *ctf_dictionary_copy(struct ctf_dictionary *dictionary, size_t *count)
{
	struct ctf_value *copy;

	pthread_mutex_lock(&dictionary->lock);
	*count = dictionary->count;
	copy = *count ? calloc(*count, sizeof(*copy)) : NULL;
	if (copy)
		memcpy(copy, dictionary->values, *count * sizeof(*copy));
	else
		*count = 0;
	pthread_mutex_unlock(&dictionary->lock);
	return copy;
}

/* --- of a stream ----------------------------------------------------------------------------- */

int ctf_values_init(struct ctf_values *values, struct ctf_dictionary *all, size_t *table_bytes,
		    size_t bytes_each, struct call_sites *sites, unsigned int recent_bits)
{
	memset(values, 0, sizeof(*values));
	values->all = all;
	values->packet = 1;
	values->table_bytes = table_bytes;
	values->bytes_each = bytes_each;
	values->sites = sites;
	values->recent_shift = 64 - recent_bits;
	values->recent = calloc((size_t)1 << recent_bits, sizeof(*values->recent));
	u64_map_init(&values->known, sizeof(struct known_value));
	return values->recent ? 0 : -ENOMEM;
}

void ctf_values_deinit(struct ctf_values *values)
{
	u64_map_deinit(&values->known);
	free(values->recent);
	budget_free(values->all ? values->all->budget : NULL, values->used,
		    values->capacity * sizeof(*values->used));
}

void ctf_values_begin(struct ctf_values *values)
{
	values->packet++;
	values->nr_used = 0;
}

/* Note that the packet uses the value. Returns its id; 0 without memory. */
static unsigned int use(struct ctf_values *values, const struct ctf_value *value, unsigned int id)
{
	if (!grow(values->all->budget, &values->used, sizeof(*values->used), values->nr_used,
		  &values->capacity))
		return 0;
	values->used[values->nr_used++] = (struct ctf_used_value){*value, id};
	*values->table_bytes += values->bytes_each;
	if (values->sites)
		call_sites_note(values->sites, value->word[0]);
	return id;
}

unsigned int ctf_values_find(struct ctf_values *values, const struct ctf_value *value)
{
	struct known_value *known = u64_map_find(&values->known, hash_of(value));

	if (!known) {
		unsigned int id = dictionary_id(values->all, value);

		known = id ? u64_map_insert(&values->known, hash_of(value), NULL) : NULL;
		if (known)
			*known = (struct known_value){.value = *value, .id = id};
	}
	if (!known || !is_same(&known->value, value))
		return 0;
	if (known->packet != values->packet) {
		if (!use(values, value, known->id))
			return 0;
		known->packet = values->packet;
	}
	return known->id;
}

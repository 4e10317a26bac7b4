/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	    !budget_grow(d->budget, &d->values, sizeof(*d->values), d->count, &d->capacity))
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

enum { FIRST_BITS = 6 };

static struct ctf_used_value *make_table(struct budget *budget, unsigned int bits)
{
	size_t size = sizeof(struct ctf_used_value) << bits;
	struct ctf_used_value *table = budget_malloc(budget, size);

	if (table)
		memset(table, 0, size);
	return table;
}

static void free_table(struct budget *budget, struct ctf_used_value *table, unsigned int bits)
{
	budget_free(budget, table, sizeof(*table) << bits);
}

int ctf_values_init(struct ctf_values *values, struct ctf_dictionary *all, size_t *table_bytes,
		    size_t bytes_each, struct call_sites *sites)
{
	memset(values, 0, sizeof(*values));
	values->all = all;
	values->packet = 1;
	values->table_bytes = table_bytes;
	values->bytes_each = bytes_each;
	values->sites = sites;
	values->known_bits = FIRST_BITS;
	values->known = make_table(all->budget, FIRST_BITS);
	values->used_in = calloc(all->max + 1, sizeof(*values->used_in));
	return values->known && values->used_in ? 0 : -ENOMEM;
}

void ctf_values_deinit(struct ctf_values *values)
{
	struct budget *budget = values->all ? values->all->budget : NULL;

	if (values->known)
		free_table(budget, values->known, values->known_bits);
	free(values->used_in);
	budget_free(budget, values->used, values->capacity * sizeof(*values->used));
}

void ctf_values_begin(struct ctf_values *values)
{
	values->packet++;
	values->nr_used = 0;
}

unsigned int ctf_values_use(struct ctf_values *values, const struct ctf_value *value,
			    unsigned int id)
{
	if (!budget_grow(values->all->budget, &values->used, sizeof(*values->used), values->nr_used,
			 &values->capacity))
		return 0;
	values->used_in[id] = values->packet;
	values->used[values->nr_used++] = (struct ctf_used_value){*value, id};
	*values->table_bytes += values->bytes_each;
	return id;
}

/* The slot that has the value, or the empty one where it belongs. */
static struct ctf_used_value *slot_of(const struct ctf_values *values,
				      const struct ctf_value *value)
{
	const size_t mask = ((size_t)1 << values->known_bits) - 1;
	size_t i = ctf_values_slot(values, hash_of(value));

	while (values->known[i].id && !is_same(&values->known[i].value, value))
		i = (i + 1) & mask;
	return &values->known[i];
}

/* Twice as many slots. Returns false without memory. */
static bool grow_known(struct ctf_values *values)
{
	const unsigned int bits = values->known_bits;
	struct ctf_used_value *old = values->known;
	struct ctf_used_value *bigger = make_table(values->all->budget, bits + 1);

	if (!bigger)
		return false;
	values->known = bigger;
	values->known_bits = bits + 1;
	for (size_t i = 0; i < (size_t)1 << bits; i++)
		if (old[i].id)
			*slot_of(values, &old[i].value) = old[i];
	free_table(values->all->budget, old, bits);
	return true;
}

/* The stream sees a value for the first time. Returns its id; 0: it gets none. */
static unsigned int know(struct ctf_values *values, const struct ctf_value *value)
{
	unsigned int id = dictionary_id(values->all, value);

	if (!id || (values->nr_known >> (values->known_bits - 2) && !grow_known(values)))
		return 0;
	*slot_of(values, value) = (struct ctf_used_value){*value, id};
	values->nr_known++;
	if (values->sites)
		call_sites_note(values->sites, value->word[0]);
	return id;
}

unsigned int ctf_values_find(struct ctf_values *values, const struct ctf_value *value)
{
	unsigned int id = slot_of(values, value)->id;

	if (!id)
		id = know(values, value);
	if (!id || values->used_in[id] == values->packet)
		return id;
	return ctf_values_use(values, value, id);
}

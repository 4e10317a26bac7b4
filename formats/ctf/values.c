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
	u64_map_init(&dictionary->ids, sizeof(uint16_t));
	u64_map_set_budget(&dictionary->ids, budget);
}

void ctf_dictionary_deinit(struct ctf_dictionary *dictionary)
{
	u64_map_deinit(&dictionary->ids);
	budget_free(dictionary->budget, dictionary->values,
		    dictionary->capacity * sizeof(*dictionary->values));
	pthread_mutex_destroy(&dictionary->lock);
}

static uint16_t add_value(struct ctf_dictionary *d, const struct ctf_value *value)
{
	uint16_t *id;

	if (d->count >= d->max ||
	    !budget_grow(d->budget, &d->values, sizeof(*d->values), d->count, &d->capacity))
		return 0;
	id = u64_map_insert(&d->ids, hash_of(value), NULL);
	if (!id)
		return 0;
	d->values[d->count++] = *value;
	return *id = (uint16_t)d->count;
}

/* The id of the value; 0 if there are no more ids, or there is no memory. *is_new: no stream has had
 * it before. */
static uint16_t dictionary_id(struct ctf_dictionary *d, const struct ctf_value *value,
				  bool *is_new)
{
	const uint16_t *known;
	uint16_t id;

	pthread_mutex_lock(&d->lock);
	known = u64_map_find(&d->ids, hash_of(value));
	*is_new = !known;
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

enum { WORD_BITS = 64, FIRST_BITS = 6 };

static size_t nr_slots(unsigned int shift)
{
	return (size_t)1 << (WORD_BITS - shift);
}

static struct ctf_known_value *make_table(struct budget *budget, unsigned int shift)
{
	return budget_calloc(budget, nr_slots(shift), sizeof(struct ctf_known_value));
}

static void free_table(struct budget *budget, struct ctf_known_value *table, unsigned int shift)
{
	budget_free(budget, table, sizeof(*table) * nr_slots(shift));
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
	values->known_shift = WORD_BITS - FIRST_BITS;
	values->known = make_table(all->budget, values->known_shift);
	return values->known ? 0 : -ENOMEM;
}

void ctf_values_deinit(struct ctf_values *values)
{
	struct budget *budget = values->all ? values->all->budget : NULL;

	if (values->known)
		free_table(budget, values->known, values->known_shift);
	budget_free(budget, values->used, values->capacity * sizeof(*values->used));
}

void ctf_values_begin(struct ctf_values *values)
{
	values->packet++;
	values->nr_used = 0;
}

/* The slot that has the value, or the empty one where it belongs. */
static inline struct ctf_known_value *slot_of(const struct ctf_values *values,
					      const struct ctf_value value)
{
	const size_t mask = nr_slots(values->known_shift) - 1;
	size_t i = (size_t)(ctf_values_hash(hash_of(&value)) >> values->known_shift);

	while (values->known[i].id && !is_same(&values->known[i].value, &value))
		i = (i + 1) & mask;
	return &values->known[i];
}

/* Twice as many slots. Returns false without memory. */
static bool grow_known(struct ctf_values *values)
{
	const unsigned int shift = values->known_shift;
	struct ctf_known_value *old = values->known;
	struct ctf_known_value *bigger = make_table(values->all->budget, shift - 1);

	if (!bigger)
		return false;
	values->known = bigger;
	values->known_shift = shift - 1;
	for (size_t i = 0; i < nr_slots(shift); i++)
		if (old[i].id)
			*slot_of(values, old[i].value) = old[i];
	free_table(values->all->budget, old, shift);
	return true;
}

/* The stream sees a value for the first time. NULL: it gets no id. */
static struct ctf_known_value *know(struct ctf_values *values, const struct ctf_value value)
{
	bool is_new;
	uint16_t id = dictionary_id(values->all, &value, &is_new);
	struct ctf_known_value *slot;

	if (id && is_new && values->sites)
		call_sites_note(values->sites, value.word[0]);
	if (!id || (values->nr_known >= nr_slots(values->known_shift) / 4 && !grow_known(values)))
		return NULL;
	slot = slot_of(values, value);
	*slot = (struct ctf_known_value){value, 0, id};
	values->nr_known++;
	return slot;
}

/* The packet uses a value that it did not use before. Returns its id; 0 without memory. */
static uint16_t use(struct ctf_values *values, struct ctf_known_value *known)
{
	if (!budget_grow(values->all->budget, &values->used, sizeof(*values->used), values->nr_used,
			 &values->capacity))
		return 0;
	known->packet = values->packet;
	values->used[values->nr_used++] = (struct ctf_used_value){known->value, known->id};
	*values->table_bytes += values->bytes_each;
	return known->id;
}

static inline uint16_t find(struct ctf_values *values, const struct ctf_value value)
{
	struct ctf_known_value *known = slot_of(values, value);

	if (!known->id)
		known = know(values, value);
	if (!known || known->packet == values->packet)
		return known ? known->id : 0;
	return use(values, known);
}

uint16_t ctf_values_find(struct ctf_values *values, const struct ctf_value *value)
{
	return find(values, *value);
}

uint16_t ctf_values_find_word(struct ctf_values *values, uint64_t word)
{
	return find(values, (struct ctf_value){{word, 0}});
}

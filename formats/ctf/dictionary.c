/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/dictionary.h"

#include <stdbool.h>
#include <stdlib.h>

void ctf_dictionary_init(struct ctf_dictionary *dictionary, size_t max)
{
	pthread_mutex_init(&dictionary->lock, NULL);
	u64_map_init(&dictionary->ids, sizeof(unsigned int));
	dictionary->max = max;
}

void ctf_dictionary_deinit(struct ctf_dictionary *dictionary)
{
	u64_map_deinit(&dictionary->ids);
	pthread_mutex_destroy(&dictionary->lock);
}

unsigned int ctf_dictionary_id(struct ctf_dictionary *dictionary, uint64_t value)
{
	unsigned int *id, result = 0;

	pthread_mutex_lock(&dictionary->lock);
	if (dictionary->ids.count < dictionary->max)
		id = u64_map_insert(&dictionary->ids, value, NULL);
	else
		id = u64_map_find(&dictionary->ids, value);
	if (id && !*id)
		*id = (unsigned int)dictionary->ids.count;
	if (id)
		result = *id;
	pthread_mutex_unlock(&dictionary->lock);
	return result;
}

size_t ctf_dictionary_copy(struct ctf_dictionary *dictionary, uint64_t **values)
{
	const unsigned int *id;
	size_t n, pos = 0;
	uint64_t value;

	pthread_mutex_lock(&dictionary->lock);
	n = dictionary->ids.count;
	*values = calloc(n + 1, sizeof(**values));
	while (*values && (id = u64_map_next(&dictionary->ids, &pos, &value)))
		(*values)[*id - 1] = value;
	pthread_mutex_unlock(&dictionary->lock);
	return *values ? n : 0;
}

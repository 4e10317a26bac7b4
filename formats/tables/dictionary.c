/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/tables/dictionary.h"

#include <errno.h>

/* A text of a dictionary, as by_hash has it. */
struct place {
	size_t at; /* of its length */
	uint32_t number;
};

void dictionary_init(struct dictionary *d)
{
	*d = (struct dictionary){0};
	u64_map_init(&d->by_number, sizeof(uint32_t));
	u64_map_init(&d->by_hash, sizeof(struct place));
}

void dictionary_deinit(struct dictionary *d)
{
	u64_map_deinit(&d->by_number);
	u64_map_deinit(&d->by_hash);
	bytes_free(&d->texts);
}

void dictionary_clear(struct dictionary *d)
{
	u64_map_deinit(&d->by_number);
	u64_map_deinit(&d->by_hash);
	d->texts.used = 0;
	d->count = 0;
	d->has_last = false;
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static bool is_at(const struct dictionary *d, size_t at, const char *text, size_t length)
{
	uint32_t found;

	memcpy(&found, d->texts.data + at, sizeof(found));
	return le32toh(found) == length &&
	       !memcmp(d->texts.data + at + sizeof(found), text, length);
}

/* Of several texts with the same hash, all but the first are there as often as they have values. */
static int64_t add(struct dictionary *d, const char *text)
{
	const size_t length = strlen(text), at = d->texts.used;
	bool is_new;
	struct place *place = u64_map_insert(&d->by_hash, hash_of(text), &is_new);
	const uint32_t head = htole32((uint32_t)length);

	if (!place)
		return -ENOMEM;
	if (!is_new && is_at(d, place->at, text, length))
		return place->number;
	bytes_put(&d->texts, &head, sizeof(head));
	bytes_put(&d->texts, text, length);
	if (d->texts.failed)
		return -ENOMEM;
	if (is_new)
		*place = (struct place){at, d->count};
	return d->count++;
}

int64_t dictionary_find(struct dictionary *d, const struct table_value *value)
{
	uint32_t *known;
	int64_t number;

	if (d->has_last && value->number == d->last_number)
		return d->last;
	known = u64_map_find(&d->by_number, value->number);
	if (!known) {
		number = add(d, value->text);
		if (number < 0)
			return number;
		known = u64_map_insert(&d->by_number, value->number, NULL);
		if (!known)
			return -ENOMEM;
		*known = (uint32_t)number;
	}
	d->has_last = true;
	d->last_number = value->number;
	d->last = *known;
	return *known;
}

/* --- the hybrid of runs and packed bits ------------------------------------------------------ */

enum { GROUP = 8 }; /* numbers that are packed together */

static size_t count_equal(const uint32_t *numbers, size_t n)
{
	size_t count = 1;

	while (count < n && numbers[count] == numbers[0])
		count++;
	return count;
}

static void put_run(struct bytes *out, uint32_t number, size_t n, unsigned int bits)
{
	const uint32_t little = htole32(number);

	bytes_varint(out, (uint64_t)n << 1);
	bytes_put(out, &little, (bits + 7) / 8);
}

/* The last group is filled up with zeros. */
static void put_packed(struct bytes *out, const uint32_t *numbers, size_t n, unsigned int bits)
{
	const size_t groups = (n + GROUP - 1) / GROUP;
	uint64_t word = 0;
	unsigned int used = 0;

	bytes_varint(out, (uint64_t)groups << 1 | 1);
	for (size_t i = 0; i < groups * GROUP; i++) {
		word |= (uint64_t)(i < n ? numbers[i] : 0) << used;
		used += bits;
		for (; used >= 8; used -= 8, word >>= 8) {
			uint8_t byte = (uint8_t)word;

			bytes_put(out, &byte, 1);
		}
	}
}

void hybrid_put(struct bytes *out, const uint32_t *numbers, size_t n, unsigned int bits)
{
	size_t begin = 0, i = 0;

	while (i < n) {
		size_t run = count_equal(numbers + i, n - i);

		if (run < 2 * GROUP) {
			i += GROUP;
			continue;
		}
		if (i > begin)
			put_packed(out, numbers + begin, i - begin, bits);
		put_run(out, numbers[i], run, bits);
		begin = i += run;
	}
	if (begin < n)
		put_packed(out, numbers + begin, n - begin, bits);
}

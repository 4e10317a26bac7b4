/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TABLES_DICTIONARY_H
#define SONDE_FORMATS_TABLES_DICTIONARY_H

#include "formats/base/u64-map.h"
#include "formats/tables/bytes.h"
#include "formats/tables/table.h"

/* The different texts of a column of names, numbered as they come, as a Parquet dictionary page
 * has them: each with its length, 32 bits, in front of it. */
struct dictionary {
	struct bytes texts;
	uint32_t count;
	struct u64_map by_number; /* of values: uint32_t, of the text */
	struct u64_map by_hash;   /* of texts: where one is */
	uint64_t last_number;
	uint32_t last;
	bool has_last;
};

void dictionary_init(struct dictionary *d);
void dictionary_deinit(struct dictionary *d);
void dictionary_clear(struct dictionary *d);

/* The number of a value's text in the dictionary; -ENOMEM. */
int64_t dictionary_find(struct dictionary *d, const struct table_value *value);

/*
 * Numbers below 2^bits as Parquet's hybrid of runs and packed bits (parquet-format, Encodings.md,
 * "RLE"), without a length in front.
 */
void hybrid_put(struct bytes *out, const uint32_t *numbers, size_t n, unsigned int bits);

#endif

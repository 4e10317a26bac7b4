/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_SYMBOLS_NAME_INDEX_H
#define SONDE_GUEST_SYMBOLS_SYMBOLS_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Hash index from names to numbers. It does not keep the names: a lookup gives candidates, in the
 * order in which they were added, and the caller compares their names.
 */
struct name_index {
	struct name_slot {
		uint32_t hash;
		uint32_t number_plus_1; /* 0 = free */
	} * slots;
	size_t mask;
};

/* For up to `capacity` names, which must not be exceeded. 0 or -ENOMEM. */
int name_index_init(struct name_index *index, size_t capacity);
void name_index_deinit(struct name_index *index);
void name_index_add(struct name_index *index, const char *name, uint32_t number);

struct name_cursor {
	uint32_t hash;
	size_t slot;
};

/* The candidates: for (c = name_index_start(...); name_index_next(..., &c, &number);) */
struct name_cursor name_index_start(const struct name_index *index, const char *name);
bool name_index_next(const struct name_index *index, struct name_cursor *cursor, uint32_t *number);

#endif

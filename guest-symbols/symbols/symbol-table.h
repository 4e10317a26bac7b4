/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_SYMBOLS_SYMBOL_TABLE_H
#define SONDE_GUEST_SYMBOLS_SYMBOLS_SYMBOL_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/symbols/symbols.h"

/* Collects symbols from any source into a struct symbol_table (symbols.h). */
struct symbol_builder {
	struct symbol *v; /* names are offsets into `names` until the table is made */
	size_t n, room;
	char *names;
	size_t names_used, names_room;
};

/* Room for n symbols whose names take names_size bytes, terminators included. -ENOMEM. */
int symbol_builder_init(struct symbol_builder *builder, size_t n, size_t names_size,
			struct error *err);
void symbol_builder_deinit(struct symbol_builder *builder);

/*
 * Append a symbol. The caller writes its name to the returned place, which has `length` bytes and
 * then a terminator. NULL if there is no room left.
 */
char *symbol_builder_add(struct symbol_builder *builder, uint64_t address, uint64_t size, char type,
			 size_t length);

/* Sort, index, and fill in sizes that are 0. Consumes the builder, also on error. -ENOENT if empty.
 */
int symbol_builder_finish(struct symbol_builder *builder, struct symbol_table **out,
			  struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>
#include "guest-symbols/symbols/kallsyms-probe.h"
#include "guest-symbols/symbols/symbol-table.h"

/* A distribution kernel has some 5 MiB of names. */
enum { MAX_NAMES_SIZE = 256 << 20 };

/* Bytes that all names take when expanded, terminators instead of the type letters included. */
static uint64_t expanded_size(const struct kallsyms_tables *tables)
{
	const uint8_t *p = tables->names;
	uint64_t size = 0;

	for (uint32_t i = 0; i < tables->nr_symbols; i++)
		for (size_t left = kallsyms_name_length(&p); left; left--)
			size += tables->token_length[*p++];
	return size;
}

static size_t expanded_length(const struct kallsyms_tables *tables, const uint8_t *p, size_t length)
{
	size_t sum = 0;

	while (length--)
		sum += tables->token_length[*p++];
	return sum;
}

/* Write the tokens' characters, except the very first one, which is the symbol's type. */
static void expand(const struct kallsyms_tables *tables, const uint8_t *p, size_t length, char *to)
{
	size_t skip = 1;

	for (; length; length--, p++, skip = 0) {
		size_t n = tables->token_length[*p] - skip;

		memcpy(to, tables->token_table + tables->token_index[*p] + skip, n);
		to += n;
	}
}

static int decode(const struct kallsyms_tables *tables, struct symbol_builder *builder,
		  struct error *err)
{
	const uint8_t *p = tables->names;

	for (uint32_t i = 0; i < tables->nr_symbols; i++) {
		size_t length = kallsyms_name_length(&p);
		char type = (char)tables->token_table[tables->token_index[*p]];
		size_t expanded = expanded_length(tables, p, length) - 1;
		char *name =
			symbol_builder_add(builder, kallsyms_address(tables, i), 0, type, expanded);

		if (!name)
			return error_set(err, EBADMSG, "kallsyms names are inconsistent");
		expand(tables, p, length, name);
		p += length;
	}
	return 0;
}

int symbols_from_kallsyms(const uint8_t *elf, size_t size, struct symbol_table **out,
			  struct error *err)
{
	struct kallsyms_tables tables;
	struct symbol_builder builder;
	struct elf_view view;
	uint64_t names;
	int ret = elf_view_init(&view, elf, size, err);

	if (ret)
		return ret;
	if (!kallsyms_probe(&view, &tables))
		return error_set(err, ENOENT, "no kallsyms tables found in the kernel");
	names = expanded_size(&tables);
	if (names > MAX_NAMES_SIZE)
		return error_set(err, E2BIG, "kallsyms names take %llu bytes when expanded",
				 (unsigned long long)names);
	ret = symbol_builder_init(&builder, tables.nr_symbols, names, err);
	if (ret)
		return ret;
	ret = decode(&tables, &builder, err);
	if (ret) {
		symbol_builder_deinit(&builder);
		return ret;
	}
	return symbol_builder_finish(&builder, out, err);
}

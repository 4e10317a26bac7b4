/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/symbols/symbol-table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "guest-symbols/symbols/name-index.h"

/* __START_KERNEL_map (Documentation/arch/x86/x86_64/mm.rst) */
#define KERNEL_ADDRESSES 0xffffffff80000000

enum { NAME_SIZE = 512 }; /* KSYM_NAME_LEN since 6.1 */

struct symbol_table {
	struct symbol *v;
	size_t n;
	char *names;
	struct name_index index;
};

void symbol_clean_name(char *name)
{
	static const char mark[] = ".llvm.", digits[] = "0123456789abcdef";
	char *suffix = strstr(name, mark);
	size_t length = sizeof(mark) - 1;

	if (!suffix || suffix == name)
		return;
	length += strspn(suffix + length, digits);
	if (!suffix[length] || suffix[length] == '.')
		memmove(suffix, suffix + length, strlen(suffix + length) + 1);
}

int symbol_builder_init(struct symbol_builder *builder, size_t n, size_t names_size,
			struct error *err)
{
	*builder = (struct symbol_builder){.room = n, .names_room = names_size};
	builder->v = calloc(n ? n : 1, sizeof(*builder->v));
	builder->names = malloc(names_size ? names_size : 1);
	if (builder->v && builder->names)
		return 0;
	symbol_builder_deinit(builder);
	return error_set(err, ENOMEM, "no memory for %zu symbols", n);
}

void symbol_builder_deinit(struct symbol_builder *builder)
{
	free(builder->v);
	free(builder->names);
	*builder = (struct symbol_builder){0};
}

char *symbol_builder_add(struct symbol_builder *builder, uint64_t address, uint64_t size, char type,
			 size_t length)
{
	char *name = builder->names + builder->names_used;

	if (builder->n == builder->room || length >= builder->names_room - builder->names_used)
		return NULL;
	builder->v[builder->n++] = (struct symbol){
		.address = address,
		.size = size,
		.name = name,
		.type = type,
	};
	name[length] = '\0';
	builder->names_used += length + 1;
	return name;
}

static void clean_names(struct symbol_builder *builder)
{
	for (size_t i = 0; i < builder->n; i++)
		symbol_clean_name(builder->names + (builder->v[i].name - builder->names));
}

/* Names are laid out in the order they were added, which makes the sort stable. */
static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static void sort(struct symbol *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (v[i].address < v[i - 1].address) {
			qsort(v, n, sizeof(*v), compare);
			return;
		}
	}
}

static void fill_sizes(struct symbol *v, size_t n)
{
	uint64_t here = n ? v[n - 1].address : 0, next = here;

	for (size_t i = n; i-- > 0;) {
		if (v[i].address != here) {
			next = here;
			here = v[i].address;
		}
		if (!v[i].size)
			v[i].size = next - here;
	}
}

int symbol_builder_finish(struct symbol_builder *builder, struct symbol_table **out,
			  struct error *err)
{
	struct symbol_table *table;

	if (!builder->n) {
		symbol_builder_deinit(builder);
		return error_set(err, ENOENT, "no symbols");
	}
	table = calloc(1, sizeof(*table));
	if (!table || name_index_init(&table->index, builder->n)) {
		free(table);
		symbol_builder_deinit(builder);
		return error_set(err, ENOMEM, "no memory for the symbol table");
	}
	clean_names(builder);
	table->v = builder->v;
	table->n = builder->n;
	table->names = builder->names;
	*builder = (struct symbol_builder){0};
	sort(table->v, table->n);
	fill_sizes(table->v, table->n);
	for (size_t i = 0; i < table->n; i++)
		name_index_add(&table->index, table->v[i].name, (uint32_t)i);
	*out = table;
	return 0;
}

void symbols_destroy(struct symbol_table *table)
{
	if (!table)
		return;
	name_index_deinit(&table->index);
	free(table->v);
	free(table->names);
	free(table);
}

size_t symbols_count(const struct symbol_table *table)
{
	return table->n;
}

const struct symbol *symbols_at(const struct symbol_table *table, size_t index)
{
	return index < table->n ? &table->v[index] : NULL;
}

/* First symbol of that name from `lowest` on. */
static const struct symbol *find_from(const struct symbol_table *table, const char *name,
				      uint64_t lowest)
{
	struct name_cursor cursor;
	char clean[NAME_SIZE];
	uint32_t i;

	if (strlen(name) < NAME_SIZE) {
		symbol_clean_name(strcpy(clean, name));
		name = clean;
	}
	cursor = name_index_start(&table->index, name);
	while (name_index_next(&table->index, &cursor, &i))
		if (table->v[i].address >= lowest && !strcmp(table->v[i].name, name))
			return &table->v[i];
	return NULL;
}

const struct symbol *symbols_find(const struct symbol_table *table, const char *name)
{
	return find_from(table, name, 0);
}

bool symbols_have(const struct symbol_table *table, const char *name, uint64_t address)
{
	const struct symbol *symbol = find_from(table, name, address);

	return symbol && symbol->address == address;
}

uint64_t symbols_address(const struct symbol_table *table, const char *name)
{
	const struct symbol *symbol = symbols_find(table, name);

	return symbol ? symbol->address : 0;
}

static bool is_alias(const struct symbol *symbol)
{
	return !strncmp(symbol->name, "__pfx_", 6) || !strncmp(symbol->name, "__cfi_", 6);
}

bool symbol_is_function(const struct symbol *symbol)
{
	int type = tolower((unsigned char)symbol->type);

	return (type == 't' || type == 'w') && !is_alias(symbol);
}

/* The highest is shown: the name that people know a function by. */
static int rank(const struct symbol *symbol)
{
	bool text = tolower((unsigned char)symbol->type) == 't';

	if (is_alias(symbol))
		return 0;
	if (text)
		return isupper((unsigned char)symbol->type) ? 4 : 2;
	/* Weak functions are 'W' or 'w'. */
	return tolower((unsigned char)symbol->type) == 'w' ? 3 : 1;
}

static uint64_t address_at(const void *table, size_t i)
{
	return ((const struct symbol_table *)table)->v[i].address;
}

static size_t first_above(const struct symbol_table *table, uint64_t address)
{
	return search_above(table->n, address, address_at, table);
}

const struct symbol *symbols_covering(const struct symbol_table *table, uint64_t address)
{
	size_t i = first_above(table, address);
	const struct symbol *best;

	if (!i)
		return NULL;
	best = &table->v[--i];
	while (i && table->v[i - 1].address == best->address)
		if (rank(&table->v[--i]) >= rank(best))
			best = &table->v[i];
	return best;
}

int symbols_rebase(struct symbol_table *table, uint64_t slide, struct error *err)
{
	size_t first = table->n;

	/* The table is sorted: kernel addresses come last, and stay in order. */
	while (first && table->v[first - 1].address >= KERNEL_ADDRESSES)
		first--;
	if (first < table->n && slide > table->v[first].address - KERNEL_ADDRESSES)
		return error_set_at(err, EBADMSG, table->v[first].address,
				    "kernel cannot have been moved by 0x%" PRIx64, slide);
	/* The symbol in front of them reaches up to the first one. */
	for (size_t i = first; i && first < table->n; i--)
		if (table->v[i - 1].address + table->v[i - 1].size == table->v[first].address)
			table->v[i - 1].size -= slide;
	for (size_t i = first; i < table->n; i++)
		table->v[i].address -= slide;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/condition-names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/base/glob.h"
#include "formats/base/text.h"
#include "formats/event/kmem.h"
#include "guest-symbols/kmem/allocators.h"

/* --- flags ----------------------------------------------------------------------------------- */

static int flag(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	const struct condition_names *n = arg;

	(void)field;
	return gfp_name_mask(n->info.gfp_names, n->info.nr_gfp_names, name, value);
}

static const char *flag_name(void *arg, const struct event_field *field, size_t number)
{
	const struct condition_names *n = arg;

	(void)field;
	return number < n->info.nr_gfp_names ? n->info.gfp_names[number].name : NULL;
}

static int any_flag(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	(void)arg;
	(void)field;
	(void)name;
	*value = 0;
	return 0;
}

/* --- functions ------------------------------------------------------------------------------- */

struct range_list {
	struct event_range *v; /* link addresses; ascending, and apart from each other */
	size_t n, room;
};

/* Whether it is the function of a name, or the part of it that the compiler has put elsewhere. */
static bool is_part(const char *symbol, const char *name)
{
	const size_t length = strlen(name);

	if (strncmp(symbol, name, length) != 0)
		return false;
	symbol += length;
	return !*symbol || !strcmp(symbol, ".cold") || !strncmp(symbol, ".cold.", 6);
}

static uint64_t end_of(const struct symbol_table *symbols, size_t i)
{
	const struct symbol *symbol = symbols_at(symbols, i), *next = symbol;

	if (symbol->size)
		return symbol->address + symbol->size;
	while (next && next->address == symbol->address)
		next = symbols_at(symbols, ++i);
	return next ? next->address : symbol->address + 1;
}

/* Whether no function begins in from..to-1: there is only padding. */
static bool is_gap(const struct symbol_table *symbols, uint64_t from, uint64_t to)
{
	const struct symbol *symbol = symbols_covering(symbols, to - 1);

	while (symbol && symbol->address >= from && !symbol_is_function(symbol))
		symbol = symbols_covering(symbols, symbol->address - 1);
	return symbol && symbol->address < from;
}

static int add_range(struct range_list *list, struct event_range range, struct error *err)
{
	if (!array_grow(&list->v, sizeof(*list->v), list->n, &list->room))
		return error_set(err, ENOMEM, "out of memory");
	list->v[list->n++] = range;
	return 0;
}

/* Functions that follow each other are one range. In the order of addresses. */
static int add_function(struct range_list *list, const struct symbol_table *symbols, size_t i,
			struct error *err)
{
	const struct event_range range = {symbols_at(symbols, i)->address, end_of(symbols, i)};
	struct event_range *last = list->n ? &list->v[list->n - 1] : NULL;

	if (!last || (range.begin > last->end && !is_gap(symbols, last->end, range.begin)))
		return add_range(list, range, err);
	if (range.end > last->end)
		last->end = range.end;
	return 0;
}

static int add_functions(struct range_list *list, const struct symbol_table *symbols,
			 const char *name, bool is_glob, struct error *err)
{
	const struct symbol *symbol;
	int ret = 0;

	for (size_t i = 0; !ret && (symbol = symbols_at(symbols, i)); i++)
		if (symbol_is_function(symbol) &&
		    (is_glob ? glob_matches(name, symbol->name) : is_part(symbol->name, name)))
			ret = add_function(list, symbols, i, err);
	return ret;
}

/* A place in a function, which may be its end, where a call that does not return leads. */
static int add_places(struct range_list *list, const struct symbol_table *symbols, const char *name,
		      uint64_t offset, struct error *err)
{
	const struct symbol *symbol;
	int ret = 0;

	for (size_t i = 0; !ret && (symbol = symbols_at(symbols, i)); i++) {
		const uint64_t at = symbol->address + offset;

		if (symbol_is_function(symbol) && !strcmp(symbol->name, name) &&
		    offset <= end_of(symbols, i) - symbol->address &&
		    (!list->n || list->v[list->n - 1].end <= at))
			ret = add_range(list, (struct event_range){at, at + 1}, err);
	}
	return ret;
}

/* "+0x1f" or "+0x1f/0x90" behind a name. */
static bool parse_offset(const char *text, uint64_t *offset)
{
	char *end;

	if (*text != '+' || text[1] < '0' || text[1] > '9')
		return false;
	errno = 0;
	*offset = strtoull(text + 1, &end, 0);
	return !errno && (!*end || *end == '/');
}

const char *condition_names_nearest(const struct kernel_image *image, const char *name)
{
	const struct symbol_table *symbols = image->symbols;
	const char **names = calloc(symbols_count(symbols) + 1, sizeof(*names)), *nearest;
	const struct symbol *symbol;
	size_t n = 0;

	if (!names)
		return NULL;
	for (size_t i = 0; (symbol = symbols_at(symbols, i)); i++) {
		if (!symbol_is_function(symbol))
			continue;
		names[n++] = symbol->name;
		if (!strncmp(symbol->name, name, strlen(name)) &&
		    symbol->name[strlen(name)] == '.') {
			n = 0; /* the compiler has split or copied the function */
			names[n++] = symbol->name;
			break;
		}
	}
	names[n] = NULL;
	nearest = n == 1 ? names[0] : text_nearest(name, names);
	free(names);
	return nearest;
}

static int no_function(const struct kernel_image *image, const char *text, const char *name,
		       bool is_glob, struct error *err)
{
	const struct symbol *symbol = symbols_find(image->symbols, name);
	const char *nearest;

	if (!is_glob && symbol && symbol_is_function(symbol))
		return error_set(err, EINVAL, "'%s' is no place in the function", text);
	if (!is_glob && symbol)
		return error_set(err, EINVAL, "'%s' is not a function", name);
	nearest = is_glob ? NULL : condition_names_nearest(image, name);
	if (nearest)
		return error_set(err, EINVAL, "the kernel has no function '%s': did you mean '%s'?",
				 name, nearest);
	return error_set(err, EINVAL,
			 "'%s' is no function of the kernel itself, and those of modules cannot be "
			 "named here: where they lie is known when they are loaded",
			 text);
}

static int find_ranges(void *arg, const char *text, bool is_glob, struct event_range **out,
		       size_t *nr_out, struct error *err)
{
	const struct condition_names *n = arg;
	const size_t length = is_glob ? strlen(text) : strcspn(text, "+");
	char name[EVENT_LONG_STRING_MAX + 16];
	struct range_list list = {0};
	uint64_t offset;
	int ret = 0;

	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	if (!text[length])
		ret = add_functions(&list, n->image->symbols, name, is_glob, err);
	else if (parse_offset(text + length, &offset))
		ret = add_places(&list, n->image->symbols, name, offset, err);
	if (!ret && !list.n)
		ret = no_function(n->image, text, name, is_glob, err);
	if (ret) {
		free(list.v);
		return ret;
	}
	for (size_t i = 0; i < list.n; i++) {
		list.v[i].begin += n->slide;
		list.v[i].end += n->slide;
	}
	*out = list.v;
	*nr_out = list.n;
	return 0;
}

static int any_range(void *arg, const char *name, bool is_glob, struct event_range **out, size_t *n,
		     struct error *err)
{
	(void)arg;
	(void)name;
	(void)is_glob;
	*n = 1;
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : error_set(err, ENOMEM, "out of memory");
}

void condition_names_init(struct condition_names *n, const struct kernel_image *image,
			  uint64_t slide)
{
	n->info.nr_gfp_names = 0;
	n->image = image;
	n->slide = slide;
	n->names = (struct event_names){.arg = n, .flag = any_flag, .ranges = any_range};
	if (!image)
		return;
	gfp_names_read(image, &n->info);
	n->names.flag = flag;
	n->names.flag_name = flag_name;
	n->names.ranges = find_ranges;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why a pattern stands for no function. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "formats/base/text.h"
#include "guest-symbols/functions/function-set.h"

enum { WHY_SIZE = 300 };

/* Compilers name the parts and copies of a function so: fn.isra.0, fn.constprop.0, fn.cold. */
static const struct symbol *find_part(const struct symbol_table *symbols, const char *name)
{
	size_t length = strlen(name);
	const struct symbol *symbol;

	for (size_t i = 0; (symbol = symbols_at(symbols, i)); i++)
		if (!strncmp(symbol->name, name, length) && symbol->name[length] == '.' &&
		    tolower((unsigned char)symbol->type) == 't')
			return symbol;
	return NULL;
}

/* What the image knows of a name that is not in the list; false: nothing. */
static bool explain(const struct kernel_image *image, const char *name, char why[WHY_SIZE])
{
	const struct symbol *symbol = symbols_find(image->symbols, name), *part;
	uint64_t init = symbols_address(image->symbols, "__init_begin"),
		 init_end = symbols_address(image->symbols, "__init_end");
	struct error no_sites;

	if (!symbol) {
		part = find_part(image->symbols, name);
		if (part)
			snprintf(why, WHY_SIZE, "the compiler has split or copied it: try '%s.*'",
				 name);
		return part;
	}
	if (symbol->address >= init && symbol->address < init_end)
		snprintf(why, WHY_SIZE, "the kernel frees its memory after boot");
	else if (!strchr("tTwW", symbol->type))
		snprintf(why, WHY_SIZE, "it is not a function");
	else if (kernel_image_check_sites(image, &no_sites))
		snprintf(why, WHY_SIZE, "%.*s", WHY_SIZE - 1, no_sites.text);
	else
		snprintf(why, WHY_SIZE,
			 "it has no mcount site: it is assembly, or built with notrace");
	return true;
}

/* --- the nearest ----------------------------------------------------------------------------- */

/* The names of the list cut to `length` characters (0: whole), NULL-terminated; one free() for all.
 */
static const char **cut_names(const struct traceable_list *list, size_t length)
{
	size_t row = length + 1;
	const char **names = malloc((list->n + 1) * (sizeof(*names) + row));
	char *texts = (char *)(names + list->n + 1);

	for (size_t i = 0; names && i < list->n; i++) {
		names[i] = list->v[i].name;
		if (length) {
			snprintf(texts + i * row, row, "%s", list->v[i].name);
			names[i] = texts + i * row;
		}
	}
	if (names)
		names[list->n] = NULL;
	return names;
}

/* A word of the same place; NULL: none is near. */
static const char *nearest_word(const struct function_pattern *p)
{
	const bool is_glob = p->name[glob_prefix(p->name)];

	if (!*p->name || !p->words || p->negated || p->module || is_glob)
		return NULL;
	return text_nearest(p->name, p->words);
}

/* The nearest name, or if the pattern is a glob with a beginning, the glob with the nearest one. */
static int find_nearest(const struct function_pattern *p, const struct traceable_list *list,
			char out[WHY_SIZE], struct error *err)
{
	size_t prefix = glob_prefix(p->name);
	bool glob = p->name[prefix] != '\0';
	char word[FUNCTION_PATTERN_MAX + 1];
	const char **names, *nearest;

	out[0] = '\0';
	if (!prefix)
		return 0;
	names = cut_names(list, glob ? prefix : 0);
	if (!names)
		return error_set(err, ENOMEM, "out of memory");
	snprintf(word, sizeof(word), "%.*s", (int)prefix, p->name);
	nearest = text_nearest(word, names);
	if (nearest && strcmp(nearest, word) != 0)
		snprintf(out, WHY_SIZE, "%s%s", nearest, p->name + prefix);
	free(names);
	return 0;
}

/* Without the pattern's module, to see whether the module is what keeps it from matching. */
static bool matches_elsewhere(const struct function_pattern *p, const struct traceable_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (glob_matches(p->name, list->v[i].name))
			return true;
	return false;
}

static bool has_module(const struct function_pattern *p, const struct traceable_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i].module && glob_matches(p->module, list->v[i].module))
			return true;
	return false;
}

static int set_why(const struct function_pattern *p, struct error *err, const char *why)
{
	return error_set_column(err, ENOENT, p->column, "%s%sno function matches '%s'%s%s",
				p->where ? p->where : "", p->where ? ": " : "", p->text,
				*why ? ": " : "", why);
}

/* What is near, and where the function may be else. */
static int set_hints(const struct function_pattern *p, const struct traceable_list *list,
		     const char *what, const char *nearest, struct error *err)
{
	const bool later = list->no_modules && !p->module;
	char why[WHY_SIZE] = "";
	size_t used = 0;

	if (*nearest)
		used = (size_t)snprintf(why, sizeof(why), "did you mean %s'%.80s'?", what, nearest);
	if (later)
		snprintf(why + used, sizeof(why) - used,
			 "%sthose of a module are '%.80s:mod:MODULE'", used ? " Or " : "", p->text);
	return set_why(p, err, why);
}

int function_unmatched(const struct function_pattern *p, const struct traceable_list *list,
		       struct error *err)
{
	char why[WHY_SIZE], nearest[WHY_SIZE];
	const char *word;
	int ret;

	if (p->module && !p->module_negated && !has_module(p, list)) {
		snprintf(why, sizeof(why),
			 "module '%.200s' is not loaded; if it is built in, leave it out",
			 p->module);
		return set_why(p, err, why);
	}
	if (p->module && matches_elsewhere(p, list))
		return set_why(p, err, "those that do are elsewhere");
	if (list->image && explain(list->image, p->name, why))
		return set_why(p, err, why);
	if (p->is_foreign_word)
		return set_why(p, err,
			       "it is a word of other tracers, which this one does not take");
	word = nearest_word(p);
	if (word)
		return set_hints(p, list, "the word ", word, err);
	ret = find_nearest(p, list, nearest, err);
	return ret ? ret : set_hints(p, list, "", nearest, err);
}

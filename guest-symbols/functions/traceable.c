/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of an image that have an mcount site. */
#include <errno.h>
#include <stdlib.h>
#include "formats/base/budget.h"
#include "guest-symbols/functions/function-set.h"

/* A site lies behind the ENDBR of a function, if it has one (FTRACE_MCOUNT_MAX_OFFSET). What is
 * further behind belongs to a weak function that another one replaced. */
enum { MAX_SITE_OFFSET = 4 };

int traceable_list_add(struct traceable_list *list, const struct traceable *function,
		       struct error *err)
{
	if (!array_grow(&list->v, sizeof(*list->v), list->n, &list->room))
		return error_set(err, ENOMEM, "no memory for %zu functions", list->n + 1);
	list->v[list->n++] = *function;
	return 0;
}

int traceable_list_add_image(struct traceable_list *list, const struct kernel_image *image,
			     uint64_t slide, struct error *err)
{
	uint64_t init = symbols_address(image->symbols, "__init_begin"),
		 init_end = symbols_address(image->symbols, "__init_end");
	const uint64_t *site = image->mcount_sites, *end = site + image->nr_mcount_sites;
	const struct symbol *symbol;
	int ret = 0;

	list->image = image;
	for (size_t i = 0; !ret && (symbol = symbols_at(image->symbols, i)); i++) {
		const struct symbol *shown;

		while (site < end && *site < symbol->address)
			site++;
		if (site == end)
			break;
		if (*site - symbol->address > MAX_SITE_OFFSET || !symbol_is_function(symbol) ||
		    (symbol->address >= init && symbol->address < init_end))
			continue;
		shown = symbols_covering(image->symbols, *site);
		if (shown->address != symbol->address) /* a mark in front of another function */
			continue;
		ret = traceable_list_add(list,
					 &(struct traceable){.name = symbol->name,
							     .address = symbol->address + slide,
							     .site = *site + slide,
							     .alias = shown != symbol},
					 err);
	}
	return ret;
}

void traceable_list_deinit(struct traceable_list *list)
{
	free(list->v);
	*list = (struct traceable_list){0};
}

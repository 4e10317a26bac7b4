/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"
#include "guest-symbols/print/print.h"

static json_t *roles_json(const struct alloc_entry *entry)
{
	json_t *roles = json_object();

	for (int i = 0; i < ALLOC_MAX_ARGS; i++)
		if (entry->args[i] != ALLOC_ROLE_NONE)
			json_object_set_new(roles, alloc_role_name(entry->args[i]),
					    json_integer(i + 1));
	return roles;
}

static json_t *points_json(const struct alloc_points *points)
{
	json_t *array = json_array();

	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		json_array_append_new(
			array,
			json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:b, s:o}", "family",
				  text_type(p->entry->type), "action",
				  symbols_action_name(p->entry->action), "function", p->entry->name,
				  "address", text_json_address(p->address), "size",
				  (json_int_t)p->size, "site",
				  p->site ? text_json_address(p->site) : json_null(), "checked",
				  (int)p->checked, "parameters", roles_json(p->entry)));
	}
	return array;
}

/* A NAME that is not UTF-8 cannot be shown in JSON: it is left out, and no kernel has it. */
static json_t *name_json(const struct symbol_table *table, const char *name, bool *all)
{
	json_t *found = json_array();

	for (size_t i = 0; i < symbols_count(table); i++) {
		const struct symbol *symbol = symbols_at(table, i);
		char type[2] = {symbol->type};

		if (!strcmp(symbol->name, name))
			json_array_append_new(found, json_pack("{s:o, s:s}", "address",
							       text_json_address(symbol->address),
							       "type", type));
	}
	*all = *all && json_array_size(found);
	return json_pack("{s:s, s:b, s:o}", "name", name, "found", json_array_size(found) != 0,
			 "symbols", found);
}

int symbols_print_json(const struct kernel_file *file, const struct kernel_image *image,
		       char *const *names)
{
	char build_id[BUILD_ID_TEXT];
	json_t *looked_up = json_array(), *root;
	bool all = true;
	int ret;

	symbols_build_id(image, build_id);
	for (; *names; names++)
		json_array_append_new(looked_up, name_json(image->symbols, *names, &all));
	root = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:I, s:s, s:I, s:I, s:I, s:o, s:o}",
		"version", 1, "banner", image->banner, "release", image->release, "build_id",
		build_id, "format", symbols_format_name(file), "compression", file->compression,
		"text", text_json_address(image->text), "etext", text_json_address(image->etext),
		"relocatable", file->relocs != NULL, "symbols",
		(json_int_t)symbols_count(image->symbols), "symbol_source", image->symbol_source,
		"btf_types", (json_int_t)(image->btf ? btf_count(image->btf) : 0), "mcount_sites",
		(json_int_t)image->nr_mcount_sites, "return_sites",
		(json_int_t)image->nr_return_sites, "entry_points", points_json(&image->alloc),
		"names", looked_up);
	ret = text_print_json("symbols", root);
	return ret ? ret : all ? CLI_OK : CLI_FAILED;
}

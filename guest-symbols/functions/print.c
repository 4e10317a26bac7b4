/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/function-set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

static int add_item(struct function_patterns *patterns, const char *item, size_t length,
		    struct error *err)
{
	char *path;
	int ret;

	if (*item != '@')
		return function_patterns_add(patterns, item, length, err);
	path = strndup(item + 1, length - 1);
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	ret = function_patterns_add_file(patterns, path, err);
	free(path);
	return ret;
}

/* 0, or an exit status with the error printed. */
static int add_operand(const char *verb, struct function_patterns *patterns, const char *operand)
{
	const char *item = operand;
	struct error err = {0};

	for (;;) {
		size_t length = strcspn(item, ",");

		if (add_item(patterns, item, length, &err)) {
			if (!err.column)
				return cli_error(verb, &err);
			err.column += (unsigned int)(item - operand);
			return cli_usage_of(verb, operand, &err);
		}
		if (!item[length])
			return 0;
		item += length + 1;
	}
}

static size_t count_functions(const struct traceable_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) /* in the order of their sites */
		n += !i || list->v[i].site != list->v[i - 1].site;
	return n;
}

int functions_print_count(const char *verb, const struct function_selection *s, size_t all)
{
	int ret = cli_flush(verb);

	for (size_t i = 0; i < s->notes.n; i++)
		fprintf(stderr, "sonde %s: %s\n", verb, s->notes.v[i]);
	fprintf(stderr, "sonde %s: %s of %s\n", verb, text_count(s->n).s,
		text_number(all, "function").s);
	return ret;
}

static int print_names(const char *verb, const struct kernel_image *image,
		       const struct function_selection *s, size_t all)
{
	(void)image;

	for (size_t i = 0; i < s->n; i++)
		puts(s->v[i].name);
	return functions_print_count(verb, s, all);
}

static int print_json(const char *verb, const struct kernel_image *image,
		      const struct function_selection *s, size_t all)
{
	json_t *functions = json_array(), *notes = json_array();

	(void)image;
	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(functions,
				      json_pack("{s:o, s:o, s:o}", "function",
						json_from_text(s->v[i].name), "address",
						json_from_address(s->v[i].address), "site",
						json_from_address(s->v[i].site)));
	for (size_t i = 0; i < s->notes.n; i++)
		json_array_append_new(notes, json_from_text(s->notes.v[i]));
	return text_print_json(verb, json_pack("{s:i, s:I, s:I, s:o, s:o}", "version", 1, "count",
					       (json_int_t)s->n, "traceable", (json_int_t)all,
					       "functions", functions, "notes", notes));
}

static int resolve(const struct function_patterns *patterns, const struct traceable_list *list,
		   struct function_selection *out, struct error *err)
{
	struct function_set *set;
	int ret = function_set_create(patterns, &set, err);

	if (ret)
		return ret;
	ret = function_set_resolve(set, list, out, err);
	function_set_destroy(set);
	return ret;
}

static int print_patterns(const char *verb, const struct kernel_image *image,
			  const struct function_patterns *patterns, functions_print_fn *print)
{
	struct traceable_list list = {0};
	struct function_selection selection = {0};
	struct error err;
	int ret = traceable_list_add_image(&list, image, 0, &err);

	if (!ret && !list.n)
		ret = kernel_image_check_sites(image, &err);
	if (!ret)
		ret = resolve(patterns, &list, &selection, &err);
	if (ret)
		ret = cli_error(verb, &err);
	else
		ret = print(verb, image, &selection, count_functions(&list));
	function_selection_deinit(&selection);
	traceable_list_deinit(&list);
	return ret;
}

int functions_print_by(const char *verb, const struct kernel_image *image, char *const *operands,
		       functions_print_fn *print)
{
	struct function_patterns patterns = {0};
	int ret = 0;

	for (; !ret && *operands; operands++)
		ret = add_operand(verb, &patterns, *operands);
	if (!ret)
		ret = print_patterns(verb, image, &patterns, print);
	function_patterns_deinit(&patterns);
	return ret;
}

int functions_print(const char *verb, const struct kernel_image *image, char *const *operands,
		    bool json)
{
	return functions_print_by(verb, image, operands, json ? print_json : print_names);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What dynamic probes can record of functions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"
#include "guest-symbols/functions/function-exits.h"
#include "guest-symbols/functions/function-set.h"

/* Why not all returns of a function can be recorded; NULL: they can. */
static const char *no_returns(const struct function_exits *exits, uint64_t function)
{
	static const char *const reasons[] = {
		[FUNCTION_RETURNS_ALL] = NULL,
		[FUNCTION_RETURNS_SOME] = "it may leave by a jump to another function",
		[FUNCTION_RETURNS_NONE] = "it has no return slot of its own",
	};

	return reasons[function_returns_of(exits, function)];
}

/* Names of functions, in order. */
struct names {
	const char **v;
	size_t n;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct names names_of(const struct function_selection *s)
{
	struct names names = {.v = calloc(s->n + 1, sizeof(*names.v))};

	for (; names.v && names.n < s->n; names.n++)
		names.v[names.n] = s->v[names.n].name;
	if (names.v)
		qsort(names.v, names.n, sizeof(*names.v), compare_names);
	return names;
}

/* A name stands for all functions that have it. */
static bool is_unique(const struct names *names, const char *name)
{
	const char **found = bsearch(&name, names->v, names->n, sizeof(*names->v), compare_names);

	return !found ||
	       ((found == names->v || compare_names(found - 1, found) != 0) &&
		(found + 1 == names->v + names->n || compare_names(found, found + 1) != 0));
}

/* BTF does not say which of the functions with one name it means. */
static bool has_prototype(const struct kernel_image *image, const struct names *names,
			  const char *function, struct btf_prototype *out)
{
	return image->btf && is_unique(names, function) &&
	       !btf_prototype(image->btf, function, out, NULL);
}

/* "struct file *" or "int ", for a name behind it. */
static void print_type(const char *type)
{
	const size_t length = strlen(type);

	printf("%s%s", type, length && type[length - 1] == '*' ? "" : " ");
}

static void print_prototype(const struct btf_prototype *p, const char *function)
{
	print_type(p->return_type);
	printf("%s(", function);
	for (unsigned int i = 0; i < p->nr_params; i++) {
		printf("%s", i ? ", " : "");
		print_type(p->params[i].type);
		printf("%s", p->params[i].name);
	}
	if (p->is_variadic)
		printf("%s...", p->nr_params ? ", " : "");
	printf(p->nr_params || p->is_variadic ? ")" : "void)");
}

static void print_function(const struct kernel_image *image, const struct names *names,
			   const struct traceable *function, const char *why)
{
	const uint64_t text = symbols_address(image->symbols, "_text");
	const bool is_named = is_unique(names, function->name);
	struct btf_prototype prototype;

	if (has_prototype(image, names, function->name, &prototype))
		print_prototype(&prototype, function->name);
	else
		printf("%s", function->name);
	if (!is_named)
		printf("  # one of several: name it %s0x%" PRIx64, text ? "_text+" : "",
		       function->address - text);
	if (why)
		printf("%s calls only: %s", is_named ? "  #" : ";", why);
	putchar('\n');
}

static int exits_of(const char *verb, const struct kernel_image *image,
		    const struct function_exits **out)
{
	struct error err;

	return function_exits_of(image, out, &err) ? cli_error(verb, &err) : 0;
}

static int print_text(const char *verb, const struct kernel_image *image,
		      const struct function_selection *s, size_t all)
{
	const struct names names = names_of(s);
	const struct function_exits *exits;
	int ret = exits_of(verb, image, &exits);

	for (size_t i = 0; !ret && i < s->n; i++)
		print_function(image, &names, &s->v[i], no_returns(exits, s->v[i].address));
	free(names.v);
	return ret ? ret : functions_print_count(verb, s, all);
}

static json_t *parameters_json(const struct btf_prototype *p)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < p->nr_params; i++)
		json_array_append_new(array, json_pack("{s:o, s:o, s:i}", "name",
						       json_from_text(p->params[i].name), "type",
						       json_from_text(p->params[i].type), "size",
						       (int)p->params[i].size));
	return array;
}

static json_t *probe_json(const struct kernel_image *image, const struct names *names,
			  const struct function_exits *exits, const struct traceable *function)
{
	const char *why = no_returns(exits, function->address);
	json_t *json = json_pack("{s:o, s:o, s:b}", "function", json_from_text(function->name),
				 "address", json_from_address(function->address), "returns", !why);
	struct btf_prototype prototype;

	if (why)
		json_object_set_new(json, "reason", json_string(why));
	if (!has_prototype(image, names, function->name, &prototype))
		return json;
	json_object_set_new(json, "result", json_from_text(prototype.return_type));
	json_object_set_new(json, "parameters", parameters_json(&prototype));
	if (prototype.is_variadic)
		json_object_set_new(json, "variadic", json_true());
	return json;
}

static int print_json(const char *verb, const struct kernel_image *image,
		      const struct function_selection *s, size_t all)
{
	json_t *probes = json_array(), *notes = json_array();
	const struct names names = names_of(s);
	const struct function_exits *exits;
	int ret = exits_of(verb, image, &exits);

	for (size_t i = 0; !ret && i < s->n; i++)
		json_array_append_new(probes, probe_json(image, &names, exits, &s->v[i]));
	for (size_t i = 0; i < s->notes.n; i++)
		json_array_append_new(notes, json_from_text(s->notes.v[i]));
	free(names.v);
	if (!ret)
		return text_print_json(verb,
				       json_pack("{s:i, s:I, s:I, s:o, s:o}", "version", 1, "count",
						 (json_int_t)s->n, "traceable", (json_int_t)all,
						 "probes", probes, "notes", notes));
	json_decref(probes);
	json_decref(notes);
	return ret;
}

int functions_print_probes(const char *verb, const struct kernel_image *image,
			   char *const *operands, bool json)
{
	return functions_print_by(verb, image, operands, json ? print_json : print_text);
}

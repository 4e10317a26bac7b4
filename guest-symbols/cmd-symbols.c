/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/report/trace-text.h"
#include "guest-symbols/functions/function-set.h"
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/kmem/allocators.h"

static const char verb[] = "symbols";

struct options {
	const char *kernel, *system_map, *btf;
	bool functions, json;
};

static const struct cli_option option_table[] = {
	{.name = "kernel",
	 .letter = 'k',
	 .value = "FILE",
	 .help = "a bzImage or an ELF vmlinux",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, kernel)},
	CLI_GIVEN_OPTIONS(struct options),
	{.name = "functions",
	 .letter = 'f',
	 .help = "list the functions that PATTERNs stand for, as --trace does",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, functions)},
	CLI_JSON_OPTION(struct options, "print JSON"),
	{0},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb syntax = {
	.name = verb,
	.usage = "usage: sonde symbols -k KERNEL [OPTION...] [NAME...]\n"
		 "       sonde symbols -k KERNEL [OPTION...] --functions PATTERN[,PATTERN...]...\n"
		 "\n"
		 "Show what a kernel image says about itself, or look up symbol NAMEs in it, or\n"
		 "list the functions with an mcount site that PATTERNs stand for.\n",
	.tables = tables,
};

/* What is printed. */
struct subject {
	struct kernel_file *file;
	struct kernel_image *image;
	const struct alloc_points *points;
};

static int load(const struct options *options, struct subject *s, struct error *err)
{
	struct kernel_given given;
	int ret = kernel_file_open(options->kernel, &s->file, err);

	if (ret)
		return ret;
	ret = kernel_given_open(options->system_map, options->btf, &given, err);
	if (!ret)
		ret = kernel_image_load(s->file, &given, &s->image, err);
	kernel_given_close(&given);
	if (!ret && !options->functions)
		ret = alloc_points_of(s->image, &s->points, err);
	return ret;
}

static void unload(struct subject *s)
{
	kernel_image_destroy(s->image);
	kernel_file_close(s->file);
}

static const char *format_name(const struct kernel_file *file)
{
	return file->format == KERNEL_FORMAT_BZIMAGE ? "bzImage" : "vmlinux";
}

enum { BUILD_ID_TEXT = 2 * 32 + 1 };

static void build_id(const struct kernel_image *image, char text[BUILD_ID_TEXT])
{
	hex_encode(text, image->build_id, image->build_id_size);
}

static const char *action_name(enum alloc_action action)
{
	static const char *const names[] = {
		[ALLOC_ACTION_ALLOC] = "alloc",           [ALLOC_ACTION_FREE] = "free",
		[ALLOC_ACTION_ALLOC_BULK] = "alloc-bulk", [ALLOC_ACTION_FREE_BULK] = "free-bulk",
		[ALLOC_ACTION_FREE_LAST] = "free-last",
	};

	return names[action];
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_facts(const struct subject *s)
{
	const struct kernel_image *image = s->image;
	char id[BUILD_ID_TEXT];

	build_id(image, id);
	printf("Banner        %s\n", image->banner);
	printf("Release       %s\n", image->release);
	printf("Build id      %s\n", *id ? id : "none");
	printf("Format        %s, compression %s\n", format_name(s->file), s->file->compression);
	printf("Text          0x%" PRIx64 "-0x%" PRIx64 "\n", image->text, image->etext);
	printf("Relocations   %s\n", s->file->relocs ? "yes" : "no");
	printf("Symbols       %s (%s)\n", text_count(symbols_count(image->symbols)).s,
	       image->symbol_source);
	printf("BTF types     %s%s\n", image->btf ? text_count(btf_count(image->btf)).s : "none",
	       image->btf_is_given ? " (given)" : "");
	printf("mcount sites  %s\n", text_count(image->nr_mcount_sites).s);
	printf("Return sites  %s%s\n", text_count(image->nr_return_sites).s,
	       image->nr_return_sites ? ""
				      : ": results are recorded only where a `ret` has room for a "
					"patch, which is seen when tracing begins");
}

/* "1=size 2=gfp": the numbers count parameters from 1. */
static void print_roles(const struct alloc_entry *entry)
{
	for (int i = 0; i < ALLOC_MAX_ARGS; i++)
		if (entry->args[i] != ALLOC_ROLE_NONE)
			printf(" %d=%s", i + 1, alloc_role_name(entry->args[i]));
}

/* ", if called by FUNCTION, FUNCTION" */
static void print_calls(const struct kernel_image *image, const struct alloc_entry *entry)
{
	const struct symbol *last = NULL;

	for (size_t i = 0; i < entry->nr_calls; i++) {
		const struct symbol *caller = symbols_covering(image->symbols, entry->calls[i] - 1);

		if (caller && caller != last)
			printf("%s %s", last ? "," : " if called by", caller->name);
		last = caller;
	}
}

static void print_points(const struct kernel_image *image, const struct alloc_points *points)
{
	int width = 8;

	for (size_t i = 0; i < points->n; i++)
		if ((int)strlen(points->v[i].entry.name) > width)
			width = (int)strlen(points->v[i].entry.name);
	printf("\nAllocator entry points\n");
	printf("%-7s  %-10s  %-*s  %-18s  %-18s  %s\n", "FAMILY", "ACTION", width, "FUNCTION",
	       "ADDRESS", "SITE", "PARAMETERS");
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		printf("%-7s  %-10s  %-*s  0x%" PRIx64 "  0x%" PRIx64 " ",
		       kmem_type_name(p->entry.type), action_name(p->entry.action), width,
		       p->entry.name, p->address, p->site);
		print_roles(&p->entry);
		print_calls(image, &p->entry);
		printf("\n");
	}
}

static void print_unresolved(const struct alloc_points *points)
{
	if (points->nr_unresolved)
		printf("\nUnresolved allocators\n");
	for (size_t i = 0; i < points->nr_unresolved; i++)
		printf("%-7s  %s: %s\n", kmem_type_name(points->unresolved[i].type),
		       points->unresolved[i].name, points->unresolved[i].reason);
}

static const char *cover_name(enum alloc_cover cover)
{
	static const char *const names[] = {
		[ALLOC_COVER_PROBE] = "traced",
		[ALLOC_COVER_NESTED] = "nested",
		[ALLOC_COVER_UNUSED] = "unused",
		[ALLOC_COVER_NONE] = "not covered",
	};

	return names[cover];
}

static void print_coverage(const struct alloc_points *points)
{
	size_t covered = 0;

	if (points->unproven[0]) {
		printf("\nCoverage      not known: %s\n", points->unproven);
		return;
	}
	for (size_t i = 0; i < points->nr_emitters; i++)
		covered += points->emitters[i].cover != ALLOC_COVER_NONE;
	printf("\nCoverage      %zu of %zu functions that emit kmem events\n", covered,
	       points->nr_emitters);
	for (size_t i = 0; i < points->nr_emitters; i++) {
		const struct alloc_emitter *e = &points->emitters[i];

		if (e->cover != ALLOC_COVER_PROBE)
			printf("%-11s  %s (%s)%s%s\n", cover_name(e->cover), e->function, e->event,
			       *e->reason ? ": " : "", e->reason);
	}
}

/* As nm(1) prints them. */
static bool print_name(const struct symbol_table *table, const char *name)
{
	bool found = false;

	for (size_t i = 0; i < symbols_count(table); i++) {
		const struct symbol *symbol = symbols_at(table, i);

		if (strcmp(symbol->name, name))
			continue;
		printf("0x%016" PRIx64 " %c %s\n", symbol->address, symbol->type, symbol->name);
		found = true;
	}
	if (!found)
		fprintf(stderr, "sonde symbols: no symbol %s\n", name);
	return found;
}

/* Both ways to print return whether all that was asked for is there. */
static bool print_text(const struct subject *s, char *const *names)
{
	bool all = true;

	if (!*names) {
		print_facts(s);
		print_points(s->image, s->points);
		print_unresolved(s->points);
		print_coverage(s->points);
		all = !s->points->nr_unresolved;
	}
	for (; *names; names++)
		all = print_name(s->image->symbols, *names) && all;
	return all;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *roles_json(const struct alloc_entry *entry)
{
	json_t *roles = json_object();

	for (int i = 0; i < ALLOC_MAX_ARGS; i++)
		if (entry->args[i] != ALLOC_ROLE_NONE)
			json_object_set_new(roles, alloc_role_name(entry->args[i]),
					    json_integer(i + 1));
	return roles;
}

static json_t *calls_json(const struct alloc_entry *entry)
{
	json_t *calls = json_array();

	for (size_t i = 0; i < entry->nr_calls; i++)
		json_array_append_new(calls, json_from_address(entry->calls[i]));
	return calls;
}

static json_t *points_json(const struct alloc_points *points)
{
	json_t *array = json_array();

	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		json_array_append_new(
			array, json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:b, s:o, s:o}", "family",
					 kmem_type_name(p->entry.type), "action",
					 action_name(p->entry.action), "function", p->entry.name,
					 "address", json_from_address(p->address), "size",
					 (json_int_t)p->size, "site", json_from_address(p->site),
					 "checked", 1, "parameters", roles_json(&p->entry), "calls",
					 calls_json(&p->entry)));
	}
	return array;
}

static json_t *unresolved_json(const struct alloc_points *points)
{
	json_t *array = json_array();

	for (size_t i = 0; i < points->nr_unresolved; i++) {
		const struct alloc_unresolved *u = &points->unresolved[i];

		json_array_append_new(
			array, json_pack("{s:s, s:s, s:o, s:s}", "family", kmem_type_name(u->type),
					 "name", u->name, "address",
					 u->address ? json_from_address(u->address) : json_null(),
					 "reason", u->reason));
	}
	return array;
}

static json_t *coverage_json(const struct alloc_points *points)
{
	json_t *array = json_array();

	for (size_t i = 0; i < points->nr_emitters; i++) {
		const struct alloc_emitter *e = &points->emitters[i];

		json_array_append_new(array, json_pack("{s:s, s:s, s:o, s:s, s:s}", "function",
						       e->function, "event", e->event, "address",
						       json_from_address(e->address), "cover",
						       cover_name(e->cover), "reason", e->reason));
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
							       json_from_address(symbol->address),
							       "type", type));
	}
	*all = *all && json_array_size(found);
	return json_pack("{s:s, s:b, s:o}", "name", name, "found", json_array_size(found) != 0,
			 "symbols", found);
}

static bool print_json(const struct subject *s, char *const *names, int *ret)
{
	const struct kernel_image *image = s->image;
	bool all = *names || !s->points->nr_unresolved;
	json_t *looked_up = json_array(), *root;
	char id[BUILD_ID_TEXT];

	build_id(image, id);
	for (; *names; names++)
		json_array_append_new(looked_up, name_json(image->symbols, *names, &all));
	root = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:I, s:s, s:I, s:s, s:I, s:I}",
		"version", 1, "banner", image->banner, "release", image->release, "build_id", id,
		"format", format_name(s->file), "compression", s->file->compression, "text",
		json_from_address(image->text), "etext", json_from_address(image->etext),
		"relocatable", s->file->relocs != NULL, "symbols",
		(json_int_t)symbols_count(image->symbols), "symbol_source", image->symbol_source,
		"btf_types", (json_int_t)(image->btf ? btf_count(image->btf) : 0), "btf_source",
		kernel_image_btf_source(image), "mcount_sites", (json_int_t)image->nr_mcount_sites,
		"return_sites", (json_int_t)image->nr_return_sites);
	json_object_set_new(root, "entry_points", points_json(s->points));
	json_object_set_new(root, "unresolved", unresolved_json(s->points));
	json_object_set_new(root, "unproven", json_string(s->points->unproven));
	json_object_set_new(root, "coverage", coverage_json(s->points));
	json_object_set_new(root, "names", looked_up);
	*ret = text_print_json(verb, root);
	return all;
}

static int show(const struct options *options, char *const *names)
{
	struct subject s = {0};
	struct error err;
	bool all = false;
	int ret = load(options, &s, &err);

	if (ret) {
		ret = cli_error(verb, &err);
	} else if (options->functions) {
		ret = functions_print(verb, s.image, names, options->json);
		all = true;
	} else if (options->json) {
		all = print_json(&s, names, &ret);
	} else {
		all = print_text(&s, names);
		ret = cli_flush(verb);
	}
	unload(&s);
	return ret ? ret : all ? CLI_OK : CLI_FAILED;
}

int cmd_symbols(int argc, char **argv)
{
	struct options options = {0};
	int ret = cli_parse(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (!options.kernel)
		return cli_usage(verb,
				 "no kernel given: use -k KERNEL; see 'sonde symbols --help'");
	if (options.functions && !argv[optind])
		return cli_usage(verb,
				 "no functions given: add a PATTERN, as in --functions 'vfs_*'");
	return show(&options, argv + optind);
}

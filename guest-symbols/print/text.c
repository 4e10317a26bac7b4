/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/print/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/base/hex.h"
#include "formats/report/trace-text.h"

const char *symbols_format_name(const struct kernel_file *file)
{
	return file->format == KERNEL_FORMAT_BZIMAGE ? "bzImage" : "vmlinux";
}

void symbols_build_id(const struct kernel_image *image, char text[BUILD_ID_TEXT])
{
	hex_encode(text, image->build_id, image->build_id_size);
}

const char *symbols_action_name(enum alloc_action action)
{
	static const char *const names[] = {
		[ALLOC_ACTION_ALLOC] = "alloc",
		[ALLOC_ACTION_FREE] = "free",
		[ALLOC_ACTION_ALLOC_BULK] = "alloc-bulk",
		[ALLOC_ACTION_FREE_BULK] = "free-bulk",
	};

	return names[action];
}

static void print_facts(const struct kernel_file *file, const struct kernel_image *image)
{
	char build_id[BUILD_ID_TEXT];

	symbols_build_id(image, build_id);
	printf("Banner        %s\n", image->banner);
	printf("Release       %s\n", image->release);
	printf("Build id      %s\n", *build_id ? build_id : "none");
	printf("Format        %s, compression %s\n", symbols_format_name(file), file->compression);
	printf("Text          0x%" PRIx64 "-0x%" PRIx64 "\n", image->text, image->etext);
	printf("Relocations   %s\n", file->relocs ? "yes" : "no");
	printf("Symbols       %s (%s)\n", text_count(symbols_count(image->symbols)).s,
	       image->symbol_source);
	printf("BTF types     %s\n", image->btf ? text_count(btf_count(image->btf)).s : "none");
	printf("mcount sites  %s\n", text_count(image->nr_mcount_sites).s);
	printf("Return sites  %s\n", text_count(image->nr_return_sites).s);
}

/* "1=size 2=gfp": the numbers count parameters from 1. */
static void print_roles(const struct alloc_point *point)
{
	for (int i = 0; i < ALLOC_MAX_ARGS; i++)
		if (point->entry->args[i] != ALLOC_ROLE_NONE)
			printf(" %d=%s", i + 1, alloc_role_name(point->entry->args[i]));
	printf("%s\n", point->checked ? "" : " (not checked: no BTF prototype)");
}

static void print_alloc_points(const struct kernel_image *image)
{
	int width = 0;

	for (size_t i = 0; i < image->alloc.n; i++)
		if ((int)strlen(image->alloc.v[i].entry->name) > width)
			width = (int)strlen(image->alloc.v[i].entry->name);
	printf("\nAllocator entry points\n");
	printf("%-7s  %-10s  %-*s  %-18s  %-18s  %s\n", "FAMILY", "ACTION", width, "FUNCTION",
	       "ADDRESS", "SITE", "PARAMETERS");
	for (size_t i = 0; i < image->alloc.n; i++) {
		const struct alloc_point *point = &image->alloc.v[i];
		char site[24] = "none";

		if (point->site)
			snprintf(site, sizeof(site), "0x%" PRIx64, point->site);
		printf("%-7s  %-10s  %-*s  0x%" PRIx64 "  %-18s ", text_type(point->entry->type),
		       symbols_action_name(point->entry->action), width, point->entry->name,
		       point->address, site);
		print_roles(point);
	}
}

/* As nm(1) shows them. */
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

int symbols_print_text(const struct kernel_file *file, const struct kernel_image *image,
		       char *const *names)
{
	bool all = true;
	int ret;

	if (!*names) {
		print_facts(file, image);
		print_alloc_points(image);
	}
	for (; *names; names++)
		all = print_name(image->symbols, *names) && all;
	ret = cli_flush("symbols");
	return ret ? ret : all ? CLI_OK : CLI_FAILED;
}

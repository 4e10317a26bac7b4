/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/dwarf/module-lines.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/dwarf/debug-file.h"
#include "guest-symbols/dwarf/dwarf-lines.h"

enum { MAX_MODULES = 256, MAX_NAME = 64, MAX_ID = 64 /* digits */ };

struct module {
	char name[MAX_NAME], build_id[MAX_ID + 1];
	struct dwarf_lines *dwarf; /* NULL: there is no debug information of it */
};

struct module_lines {
	char root[PATH_MAX], kernel[PATH_MAX];
	struct trace_info info;
	struct module_files *files; /* NULL: none was needed so far */
	struct module all[MAX_MODULES];
	size_t n;
};

struct module_lines *module_lines_create(const char *root, const char *kernel,
					 const struct trace_info *info)
{
	struct module_lines *lines = calloc(1, sizeof(*lines));

	if (!lines)
		return NULL;
	snprintf(lines->root, sizeof(lines->root), "%s", root);
	snprintf(lines->kernel, sizeof(lines->kernel), "%s", kernel ? kernel : "");
	lines->info = *info;
	return lines;
}

void module_lines_destroy(struct module_lines *lines)
{
	if (!lines)
		return;
	for (size_t i = 0; i < lines->n; i++)
		dwarf_lines_close(lines->all[i].dwarf);
	module_files_destroy(lines->files);
	free(lines);
}

/* --- names ----------------------------------------------------------------------------------- */

/* Where the module's name begins in "ext4_read [ext4]"; NULL: nowhere. */
static const char *find_module(const char *function)
{
	const size_t length = strlen(function);
	const char *begin = strrchr(function, '[');

	return begin && begin > function + 1 && begin[-1] == ' ' && function[length - 1] == ']'
		       ? begin + 1
		       : NULL;
}

bool module_lines_are_of(const char *function)
{
	return find_module(function);
}

/* --- modules --------------------------------------------------------------------------------- */

static struct dwarf_lines *open_module(struct module_lines *lines, const struct module *module)
{
	struct dwarf_lines *dwarf = NULL;
	int fd;

	if (!lines->files)
		lines->files = module_files_create(
			lines->root, *lines->kernel ? lines->kernel : NULL, &lines->info);
	fd = lines->files ? module_files_open(lines->files, module->name, module->build_id) : -1;
	if (fd < 0 || dwarf_lines_open_module(fd, &dwarf, NULL))
		return NULL;
	return dwarf;
}

/* One that was unloaded may have come again as another build. */
static struct module *module_of(struct module_lines *lines, const char *name, const char *build_id)
{
	struct module *module;

	for (size_t i = 0; i < lines->n; i++) {
		module = &lines->all[i];
		if (!strcmp(module->name, name) && !strcmp(module->build_id, build_id))
			return module;
	}
	if (lines->n == MAX_MODULES)
		return NULL;
	module = &lines->all[lines->n++];
	snprintf(module->name, sizeof(module->name), "%s", name);
	snprintf(module->build_id, sizeof(module->build_id), "%s", build_id);
	module->dwarf = open_module(lines, module);
	return module;
}

size_t module_lines_find(struct module_lines *lines, const struct source_code *code,
			 struct source_frame *out)
{
	const char *begin = find_module(code->function);
	const size_t length = begin ? strlen(begin) - 1 : 0;
	char name[MAX_NAME], function[512];
	struct module *module;
	uint64_t address;

	if (!length || length >= sizeof(name) || strlen(code->build_id) > MAX_ID ||
	    code->address - code->start >= code->size)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)length, begin);
	snprintf(function, sizeof(function), "%.*s", (int)(begin - code->function - 2),
		 code->function);
	module = module_of(lines, name, code->build_id);
	if (!module || !module->dwarf ||
	    !dwarf_lines_function(module->dwarf, function, code->address - code->start, code->size,
				  &address))
		return 0;
	return dwarf_lines_find(module->dwarf, address, out);
}

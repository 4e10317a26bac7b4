/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places in the source, for the call sites of a trace. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "guest-symbols/cmd.h"
#include "guest-symbols/dwarf/debug-file.h"
#include "guest-symbols/dwarf/dwarf-lines.h"
#include "guest-symbols/dwarf/module-lines.h"

struct kernel_lines {
	struct source_lines base;
	struct dwarf_lines *dwarf;
	struct module_lines *modules;
	uint64_t slide;
};

static size_t find(struct source_lines *base, const struct source_code *code,
		   struct source_frame *out)
{
	struct kernel_lines *lines = (struct kernel_lines *)base;

	return module_lines_are_of(code->function)
		       ? module_lines_find(lines->modules, code, out)
		       : dwarf_lines_find(lines->dwarf, code->address - lines->slide, out);
}

static void destroy(struct source_lines *base)
{
	struct kernel_lines *lines = (struct kernel_lines *)base;

	dwarf_lines_close(lines->dwarf);
	module_lines_destroy(lines->modules);
	free(lines);
}

int kernel_lines(const char *path, const struct trace_info *info, struct source_lines **out,
		 struct error *err)
{
	int fd = path ? debug_file_open(path, info, err) : debug_file_search("", info, err);
	struct kernel_lines *lines;
	int ret;

	if (fd < 0)
		return fd;
	lines = calloc(1, sizeof(*lines));
	if (lines)
		lines->modules = module_lines_create("", path, info);
	ret = lines && lines->modules ? dwarf_lines_open(fd, &lines->dwarf, err)
				      : error_set(err, ENOMEM, "out of memory");
	if (ret) {
		if (path)
			error_prefix(err, "%s: ", path);
		close(fd);
		if (lines)
			destroy(&lines->base);
		return ret;
	}
	lines->base = (struct source_lines){find, destroy};
	lines->slide = (uint64_t)info->virt_slide;
	*out = &lines->base;
	return 0;
}

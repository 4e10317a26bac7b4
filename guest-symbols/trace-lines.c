/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places in the source, for the call sites of a trace. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "guest-symbols/cmd.h"
#include "guest-symbols/dwarf/debug-file.h"
#include "guest-symbols/dwarf/dwarf-lines.h"

struct kernel_lines {
	struct source_lines base;
	struct dwarf_lines *dwarf;
	uint64_t slide;
};

/* Addresses of modules are none of the kernel's once the slide is taken off. */
static size_t find(struct source_lines *base, uint64_t address, struct source_frame *out)
{
	struct kernel_lines *lines = (struct kernel_lines *)base;

	return dwarf_lines_find(lines->dwarf, address - lines->slide, out);
}

static void destroy(struct source_lines *base)
{
	struct kernel_lines *lines = (struct kernel_lines *)base;

	dwarf_lines_close(lines->dwarf);
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
	ret = lines ? dwarf_lines_open(fd, &lines->dwarf, err)
		    : error_set(err, ENOMEM, "out of memory");
	if (ret) {
		if (path)
			error_prefix(err, "%s: ", path);
		close(fd);
		free(lines);
		return ret;
	}
	lines->base = (struct source_lines){find, destroy};
	lines->slide = (uint64_t)info->virt_slide;
	*out = &lines->base;
	return 0;
}

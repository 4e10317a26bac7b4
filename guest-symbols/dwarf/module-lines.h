/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DWARF_MODULE_LINES_H
#define SONDE_GUEST_SYMBOLS_DWARF_MODULE_LINES_H

#include <stdbool.h>
#include "formats/source/source-lines.h"

/*
 * Places in the source of modules. A trace says where in a function code is, and the file of the
 * module has that function: so nothing has to be known of where the module was. A file is
 * opened when it is needed, and stays open.
 */
struct module_lines;

/* `root` and `kernel` as of module_files_create(), which looks for files when the first is needed.
 * `kernel` and `info` are copied. NULL without memory. */
struct module_lines *module_lines_create(const char *root, const char *kernel,
					 const struct trace_info *info);
/* NULL-safe. */
void module_lines_destroy(struct module_lines *lines);

/* Whether a function's name is one of a module: "ext4_read [ext4]". */
bool module_lines_are_of(const char *function);
/* As source_lines.find, for code in such a function. */
size_t module_lines_find(struct module_lines *lines, const struct source_code *code,
			 struct source_frame *out);

#endif

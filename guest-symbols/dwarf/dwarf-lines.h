/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DWARF_DWARF_LINES_H
#define SONDE_GUEST_SYMBOLS_DWARF_DWARF_LINES_H

#include <stdbool.h>
#include "formats/source/source-lines.h"

/* Places in the source, with inlined functions, out of the DWARF of an ELF file. */
struct dwarf_lines;

/* Takes `fd` on success. -EINVAL: it is no ELF file with DWARF of any code; -ENOMEM. */
int dwarf_lines_open(int fd, struct dwarf_lines **out, struct error *err);

/* The same of a module's file, which is relocatable: its sections get addresses of their own.
 * Closes `fd` in any case. */
int dwarf_lines_open_module(int fd, struct dwarf_lines **out, struct error *err);

/*
 * Where such a file has the code at `offset` in a function: an address for dwarf_lines_find().
 * `size` is the distance to the next function. False: it has no function of this name, or several
 * that may be meant.
 */
bool dwarf_lines_function(const struct dwarf_lines *lines, const char *name, uint64_t offset,
			  uint64_t size, uint64_t *address);

/* NULL-safe. */
void dwarf_lines_close(struct dwarf_lines *lines);

/* As source_lines.find, for an address that the file was linked for. */
size_t dwarf_lines_find(struct dwarf_lines *lines, uint64_t address, struct source_frame *out);

#endif

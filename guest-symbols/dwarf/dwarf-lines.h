/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DWARF_DWARF_LINES_H
#define SONDE_GUEST_SYMBOLS_DWARF_DWARF_LINES_H

#include "formats/source/source-lines.h"

/* Places in the source, with inlined functions, out of the DWARF of an ELF file. */
struct dwarf_lines;

/* Takes `fd` on success. -EINVAL: it is no ELF file with DWARF of any code; -ENOMEM. */
int dwarf_lines_open(int fd, struct dwarf_lines **out, struct error *err);
/* NULL-safe. */
void dwarf_lines_close(struct dwarf_lines *lines);

/* As source_lines.find, for an address that the file was linked for. */
size_t dwarf_lines_find(struct dwarf_lines *lines, uint64_t address, struct source_frame *out);

#endif

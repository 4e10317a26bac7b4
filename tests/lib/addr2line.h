/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_ADDR2LINE_H
#define SONDE_TESTS_LIB_ADDR2LINE_H

#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/dwarf/dwarf-lines.h"

/*
 * Let binutils' addr2line and dwarf_lines_find() say where the addresses are in the source of
 * `path`, an ELF file, which may be followed by options of addr2line. `bias` is how much greater
 * than addr2line's the addresses of `lines` are. Returns how many of the n differ, the first ones
 * as diagnostics, or -1 if addr2line fails. *known is how many addresses have a line. `folder` is
 * where the file was compiled.
 */
int addr2line_compare(const char *path, const char *folder, struct dwarf_lines *lines,
		      uint64_t bias, const uint64_t *addresses, size_t n, size_t *known);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DWARF_DEBUG_FILE_H
#define SONDE_GUEST_SYMBOLS_DWARF_DEBUG_FILE_H

#include "formats/base/error.h"
#include "formats/event/trace-info.h"

/* Which file has the debug information of a kernel. The build id decides; names are only hints. */

/*
 * Open the file `path`. Returns a descriptor; -EINVAL: it is no ELF file with the trace's build id,
 * or the trace has none; -errno of open().
 */
int debug_file_open(const char *path, const struct trace_info *info, struct error *err);

/*
 * Search below `root` ("" is the system's own) where distributions install debug information of
 * kernels, then ask the servers of DEBUGINFOD_URLS, if that is set. Returns a descriptor, or
 * -ENOENT with a text that says what to do.
 */
int debug_file_search(const char *root, const struct trace_info *info, struct error *err);

#endif

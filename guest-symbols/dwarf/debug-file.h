/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DWARF_DEBUG_FILE_H
#define SONDE_GUEST_SYMBOLS_DWARF_DEBUG_FILE_H

#include <stdbool.h>
#include <stddef.h>
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

/* "6.1.0-56-cloud-amd64", out of the trace's banner. False for what is no name of a folder. */
enum { DEBUG_RELEASE_ROOM = 128 };
bool debug_file_release(const struct trace_info *info, char out[DEBUG_RELEASE_ROOM]);

/* A file with this build id (in hex; "": any): descriptor, or -EINVAL if it is another one's,
 * -errno of open(). */
int debug_file_open_id(const char *path, const char *id);

/* That one below `root` which is named after its build id, or else of the servers: descriptor, or
 * -ENOENT. */
int debug_file_search_id(const char *root, const char *id);

/* --- module-files.c -------------------------------------------------------------------------- */

/* The files of a kernel's modules, which debug packages and kernel builds name after them:
 * "ext4.ko", "ext4.ko.debug". Found once, by name. */
struct module_files;

/* Those of the trace's kernel below `root`, where distributions install them, and before these
 * below the folder of the file `kernel` (or NULL). NULL without memory. */
struct module_files *module_files_create(const char *root, const char *kernel,
					 const struct trace_info *info);
/* NULL-safe. */
void module_files_destroy(struct module_files *files);

/* The file of a module: descriptor, or -ENOENT. If the build id is known (in hex; "": it is not),
 * it is the one with this id, wherever. */
int module_files_open(const struct module_files *files, const char *module, const char *id);

#endif

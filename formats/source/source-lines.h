/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_SOURCE_SOURCE_LINES_H
#define SONDE_FORMATS_SOURCE_SOURCE_LINES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/base/text.h"
#include "formats/event/trace-info.h"

/* Where code is in the kernel's source, out of debug information that formats/ cannot read. */

enum { SOURCE_MAX_FRAMES = 32 };

/* A function that has the code in it, and the place in it. Strings are printable ASCII. */
struct source_frame {
	const char *function; /* "" if unknown */
	const char *file;     /* "fs/inode.c"; "" if unknown */
	unsigned int line;    /* from 1; 0 if unknown */
};

/* Debug information at work. Its own data begins with it. */
struct source_lines {
	/*
	 * Where the instruction at a run-time address is, not behind it. Fills in up to
	 * SOURCE_MAX_FRAMES frames and returns how many, 0 if nothing is known: the outermost
	 * first, which is the function that the symbol table names; the others were inlined. The
	 * strings live as long as the lines.
	 */
	size_t (*find)(struct source_lines *lines, uint64_t address, struct source_frame *out);
	void (*destroy)(struct source_lines *lines);
};

/* NULL-safe. */
void source_lines_destroy(struct source_lines *lines);

/*
 * Open the debug information of the kernel that a trace with this info is of: of the file `path`,
 * or with NULL from where this system keeps it. *out is for source_lines_destroy(). -ENOENT: it is
 * not there; -EINVAL: it is another kernel's, or none.
 */
typedef int source_lines_open_fn(const char *path, const struct trace_info *info,
				 struct source_lines **out, struct error *err);

/*
 * Frames as text: "fs/inode.c:263", and for each function inlined there " > NAME
 * include/linux/fs.h:3278", which calls lead to; "" without frames.
 */
struct text source_text(const struct source_frame *frames, size_t n);
/* As an array of objects with function, file and line. NULL: no memory. */
json_t *source_json(const struct source_frame *frames, size_t n);

#endif

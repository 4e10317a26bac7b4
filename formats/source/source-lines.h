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

/* An instruction at run time, not behind it, and what is known of the function that has it. */
struct source_code {
	uint64_t address;
	const char *function; /* "vfs_read", "ext4_read [ext4]"; "" if unknown */
	uint64_t start, size; /* of it */
	const char *build_id; /* of its module, in hex; "" if unknown */
};

/* Debug information at work. Its own data begins with it. */
struct source_lines {
	/*
	 * Where the code is. Fills in up to
	 * SOURCE_MAX_FRAMES frames and returns how many, 0 if nothing is known: the outermost
	 * first, which is the function that the symbol table names; the others were inlined. The
	 * strings live as long as the lines.
	 */
	size_t (*find)(struct source_lines *lines, const struct source_code *code,
		       struct source_frame *out);
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

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_PATTERNS_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>
#include "formats/base/error.h"

/*
 * Which functions a user means: a list of patterns as ftrace's set_ftrace_filter takes them
 * (Documentation/trace/ftrace.rst, "dynamic ftrace" and "mod"):
 *
 *	[!]NAME[:mod:[!]MODULE]
 *
 * NAME and MODULE are names or globs (formats/base/glob.h). An empty NAME is *. A suffix of a NAME
 * that is no glob is left out if the symbols lack it, too (symbol_clean_name()). Without a module
 * the pattern holds for the kernel and all modules. MODULE matches no function of the kernel
 * itself, !MODULE all of them. A leading ! takes the functions out.
 *
 * The last pattern of the list that matches a function decides. A function that none matches is
 * wanted if the list is empty, or begins with a pattern that takes functions out.
 */
struct function_pattern {
	char *text;         /* as the user has it, with the ! */
	char *name;         /* a clean name, or a glob */
	const char *module; /* within `name`'s memory; NULL: any, and the kernel itself */
	bool negated, module_negated;
	char *where; /* "FILE:LINE", NULL if not from a file */
	/* Of the caller, all may be left out: where it stands in the user's text, from 1; what may
	 * have been meant there instead of a function, NULL-terminated; whether it is a word that
	 * cannot be there. */
	unsigned int column;
	const char *const *words;
	bool is_foreign_word;
};

struct function_patterns {
	struct function_pattern *v;
	size_t n, room;
};

enum {
	FUNCTION_PATTERN_MAX = 512, /* characters: KSYM_NAME_LEN since 6.1 */
	FUNCTION_PATTERNS_MAX = 1 << 16,
	FUNCTION_FILE_MAX = 4 << 20, /* bytes */
};

/*
 * Append the pattern text[0..length). -EINVAL with the column in `text` if it is malformed, -E2BIG
 * if there are too many, -ENOMEM.
 */
int function_patterns_add(struct function_patterns *patterns, const char *text, size_t length,
			  struct error *err);

/*
 * Append the patterns of a file's text, one per line. Blank lines, and all from a # on, are left
 * out. A line may also be as available_filter_functions has them: "NAME [MODULE]". `name` is the
 * file's, for messages. Errors as above, with file and line in the text and without a column.
 */
int function_patterns_add_lines(struct function_patterns *patterns, const char *name,
				const char *text, size_t size, struct error *err);
/* The same of a regular file, which lists at least one. -errno if it cannot be read, -E2BIG. */
int function_patterns_add_file(struct function_patterns *patterns, const char *path,
			       struct error *err);

/* Leaves an empty list. */
void function_patterns_deinit(struct function_patterns *patterns);

#endif

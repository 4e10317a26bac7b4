/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_TEXT_H
#define SONDE_FORMATS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"

/* Numbers as users read them. All functions return a struct by value, for use within printf(). */
struct text {
	char s[640];
};

/* "1,234,567" */
struct text text_count(uint64_t number);

/* "1 object", "2,000 objects" */
struct text text_number(uint64_t number, const char *noun);

/* "999 B", "1.2 MiB": three digits or four, binary prefixes. */
struct text text_bytes(uint64_t bytes);
/* The same of a difference or rate: "+1.2 MiB", "-3 B", "0 B" */
struct text text_signed_bytes(double bytes);

/* "12.345678901 s" from the trace clock's zero. */
struct text text_time(int64_t ns);

/* "1,234 ms", below 10 ms "1.234 ms" */
struct text text_ms(uint64_t ns);

/* "callsite, cache, size or pointer": words, NULL-terminated. */
struct text text_words(const char *const *words);

/* The whole part of a sum or rate, 0 to UINT64_MAX: those of damaged traces may be beyond. */
uint64_t whole_number(double value);

/* A decimal number, digits only. Returns 0, or -EINVAL, or -ERANGE if it is above max. */
int text_parse_u64(const char *text, uint64_t max, uint64_t *out);

/* Whether the first `length` characters of a text are one of these names, which end with NULL. */
bool text_begins_as(const char *text, size_t length, const char *const *names);

/* Of `names` (NULL-terminated), the one nearest to `word` by edit distance, or NULL if none is
 * near. */
const char *text_nearest(const char *word, const char *const *names);

/*
 * Copy a string of foreign origin, cut to size - 1 bytes. All that is not printable ASCII
 * becomes '?': terminals obey control characters, also those of UTF-8, and a cut must not leave
 * invalid UTF-8.
 */
void clean_text(char *out, size_t size, const char *in);

/*
 * Make a string printable as one line, in place: control characters, also those of UTF-8, and
 * its separators of lines become '?'. Letters of all scripts stay, as names of files and domains
 * have them.
 */
void clean_line(char *text);

/* Print a word of a command as a user can paste it into a shell: in quotes, if it needs them. */
void text_print_word(FILE *out, const char *word);

/* Close a stream of open_memstream(). -ENOMEM: the text, which is to be freed in any case, lacks
 * some of what was printed. */
int text_stream_close(FILE *out);

/* Two lower-case digits for each byte, the first byte first, and a NUL. Returns the number of
 * digits. */
size_t hex_encode(char *out, const void *bytes, size_t size);

/*
 * Decode such digits, in either case. Returns false if one of the first 2 * size characters is
 * no digit.
 */
bool hex_decode(void *out, const char *hex, size_t size);

/*
 * Of an array of *n items that begin with their name, an array of characters: keep those of this
 * name, which --name gave, and have `deinit` free what the others own. -ENOENT: there is none, and
 * *err has the names that there are.
 */
int named_keep(void *items, size_t *n, size_t item_size, void (*deinit)(void *item),
	       const char *name, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers --------------------------------------------------------------------------------- */

struct text text_count(uint64_t number)
{
	struct text digits, out;
	size_t n, used = 0;

	snprintf(digits.s, sizeof(digits.s), "%" PRIu64, number);
	n = strlen(digits.s);
	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			out.s[used++] = ',';
		out.s[used++] = digits.s[i];
	}
	out.s[used] = '\0';
	return out;
}

struct text text_number(uint64_t number, const char *noun)
{
	struct text out;

	snprintf(out.s, sizeof(out.s), "%.32s %s%s", text_count(number).s, noun,
		 number == 1 ? "" : "s");
	return out;
}

struct text text_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	struct text out;
	size_t unit = 0;

	while (value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	if (unit)
		snprintf(out.s, sizeof(out.s), "%.1f %s", value, units[unit]);
	else
		snprintf(out.s, sizeof(out.s), "%" PRIu64 " B", bytes);
	return out;
}

struct text text_signed_bytes(double bytes)
{
	const uint64_t magnitude = whole_number(bytes < 0 ? -bytes : bytes);
	const char *sign = !magnitude ? "" : bytes < 0 ? "-" : "+";
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%.32s", sign, text_bytes(magnitude).s);
	return out;
}

struct text text_time(int64_t ns)
{
	uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%" PRIu64 ".%09" PRIu64 " s", ns < 0 ? "-" : "",
		 magnitude / 1000000000, magnitude % 1000000000);
	return out;
}

struct text text_ms(uint64_t ns)
{
	const uint64_t ns_per_ms = 1000000;
	struct text out;

	if (ns >= 10 * ns_per_ms)
		snprintf(out.s, sizeof(out.s), "%.32s ms", text_count(ns / ns_per_ms).s);
	else
		snprintf(out.s, sizeof(out.s), "%.3f ms", (double)ns / (double)ns_per_ms);
	return out;
}

struct text text_words(const char *const *words)
{
	struct text out = {""};
	size_t used = 0;

	for (size_t i = 0; words[i] && used < sizeof(out.s); i++)
		used += (size_t)snprintf(out.s + used, sizeof(out.s) - used, "%s%s",
					 !i             ? ""
					 : words[i + 1] ? ", "
							: " or ",
					 words[i]);
	return out;
}

uint64_t whole_number(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

bool text_begins_as(const char *text, size_t length, const char *const *names)
{
	for (; *names; names++)
		if (**names == *text && !strncmp(text, *names, length) && !(*names)[length])
			return true;
	return false;
}

int text_parse_u64(const char *text, uint64_t max, uint64_t *out)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno == ERANGE || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

/* --- text of foreign origin ------------------------------------------------------------------ */

void clean_text(char *out, size_t size, const char *in)
{
	size_t n;

	for (n = 0; in[n] && n + 1 < size; n++)
		out[n] = (char)(in[n] >= ' ' && in[n] <= '~' ? in[n] : '?');
	out[n] = '\0';
}

void clean_line(char *text)
{
	unsigned char *at = (unsigned char *)text;

	for (; *at; at++) {
		if (*at < ' ' || *at == 0x7f)
			*at = '?';
		/* U+0080 to U+009F (Unicode, C1 controls) */
		if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = '?';
		/* U+2028, U+2029: separators of lines and paragraphs */
		if (at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9))
			at[0] = at[1] = at[2] = '?';
	}
}

void text_print_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-+:,@%=";
	const bool quote = !*word || word[strspn(word, plain)] || *word == '-';

	if (quote)
		fputc('\'', out);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", out);
		else
			fputc(*word, out);
	}
	if (quote)
		fputc('\'', out);
}

int text_stream_close(FILE *out)
{
	const bool whole = !ferror(out);

	return fclose(out) || !whole ? -ENOMEM : 0;
}

/* --- bytes as digits ------------------------------------------------------------------------- */

size_t hex_encode(char *out, const void *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *from = bytes;

	for (size_t i = 0; i < size; i++) {
		out[2 * i] = digits[from[i] >> 4];
		out[2 * i + 1] = digits[from[i] & 15];
	}
	out[2 * size] = '\0';
	return 2 * size;
}

static int value_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(void *out, const char *hex, size_t size)
{
	uint8_t *to = out;

	for (size_t i = 0; i < size; i++) {
		int high = value_of(hex[2 * i]);
		int low = high < 0 ? -1 : value_of(hex[2 * i + 1]);

		if (low < 0)
			return false;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

enum { WORD_MAX = 32 }; /* bytes of a word that is compared */

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein distance; words longer than WORD_MAX are infinitely far. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > WORD_MAX || lb > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[lb];
}

/* Words that begin alike are nearer to each other than their edit distance says. */
static size_t unlikeness(const char *a, const char *b, size_t distance)
{
	size_t alike = 0;

	while (a[alike] && a[alike] == b[alike])
		alike++;
	return distance == SIZE_MAX ? distance : distance > alike ? distance - alike : 0;
}

const char *text_nearest(const char *word, const char *const *names)
{
	/* The first one must be nearer than this. */
	size_t best = strlen(word) / 2 + 1, best_distance = 0;
	const char *nearest = NULL;

	for (; *names; names++) {
		size_t distance = edit_distance(word, *names);
		size_t unlike = unlikeness(word, *names, distance);

		if (unlike < best || (unlike == best && distance < best_distance)) {
			best = unlike;
			best_distance = distance;
			nearest = *names;
		}
	}
	return nearest;
}

/* --- names ----------------------------------------------------------------------------------- */

/* Of more names than this, an error has the first. */
enum { MAX_NAMES = 64 };

int named_keep(void *items, size_t *n, size_t item_size, void (*deinit)(void *item),
	       const char *name, struct error *err)
{
	const char *names[MAX_NAMES + 1] = {NULL};
	const size_t before = *n;
	struct text words;
	char *all = items;

	for (size_t i = 0; i < before && i < MAX_NAMES; i++)
		names[i] = all + i * item_size;
	words = text_words(names);
	*n = 0;
	for (size_t i = 0; i < before; i++) {
		char *item = all + i * item_size;

		if (strcmp(item, name) != 0)
			deinit(item);
		else
			memmove(all + (*n)++ * item_size, item, item_size);
	}
	if (*n)
		return 0;
	return error_set(err, ENOENT, "--name takes %s, not '%s'", before ? words.s : "nothing",
			 name);
}

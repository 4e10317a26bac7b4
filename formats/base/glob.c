/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/glob.h"

#include <string.h>

/*
 * The end of the class that begins at `glob`, behind its ']'. NULL if it has none. A ']' that comes
 * first is a member. *found is whether `c` is in the class.
 */
static const char *read_class(const char *glob, unsigned char c, bool *found)
{
	bool inverted = glob[1] == '!' || glob[1] == '^', member = false;
	const char *at = glob + 1 + inverted;

	do {
		unsigned char low, high;

		if (*at == '\\')
			at++;
		if (!*at)
			return NULL;
		low = high = (unsigned char)*at++;
		if (at[0] == '-' && at[1] && at[1] != ']') {
			high = (unsigned char)at[1];
			at += 2;
		}
		member = member || (c >= low && c <= high);
	} while (*at && *at != ']');
	*found = member != inverted;
	return *at ? at + 1 : NULL;
}

/* Behind the part of the glob that matches `c`; NULL if it does not. */
static const char *match_one(const char *glob, unsigned char c)
{
	const char *end;
	bool found;

	switch (*glob) {
	case '\0':
		return NULL;
	case '?':
		return glob + 1;
	case '[':
		end = read_class(glob, c, &found);
		if (end)
			return found ? end : NULL;
		break;
	case '\\':
		glob += glob[1] != '\0';
		break;
	}
	return (unsigned char)*glob == c ? glob + 1 : NULL;
}

/* The first place from `text` on where what follows a '*' could begin. */
static const char *skip_to(const char *glob, const char *text)
{
	const char *found = text;

	if (*glob && !strchr("*?[\\", *glob))
		found = strchr(text, *glob);
	return found ? found : text + strlen(text);
}

/* At a mismatch only the last '*' needs to take one more character: what the ones before it have
 * taken leaves the most to match for those behind. */
bool glob_matches(const char *glob, const char *text)
{
	const char *after_star = NULL, *taken = NULL, *next;

	while (*text) {
		if (*glob == '*') {
			after_star = ++glob;
			taken = text = skip_to(glob, text);
			continue;
		}
		next = match_one(glob, (unsigned char)*text);
		if (next) {
			glob = next;
			text++;
		} else if (after_star) {
			glob = after_star;
			taken = text = skip_to(glob, taken + 1);
		} else {
			return false;
		}
	}
	return !glob[strspn(glob, "*")];
}

const char *glob_fault(const char *glob)
{
	while (*glob) {
		const char *from = glob;
		bool found;

		if (*glob == '\\' && !glob[1])
			return from;
		if (*glob == '\\')
			glob += 2;
		else if (*glob == '[')
			glob = read_class(glob, 0, &found);
		else
			glob++;
		if (!glob)
			return from;
	}
	return NULL;
}

size_t glob_prefix(const char *glob)
{
	return strcspn(glob, "*?[\\");
}

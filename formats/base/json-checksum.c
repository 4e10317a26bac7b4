/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts of JSON objects whose last member is a checksum of all that is before it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/crc32c.h"
#include "formats/base/json.h"

#define KEY "crc32c"

enum { END_SIZE = sizeof("\"" KEY "\": \"01234567\"}") };

struct end {
	char text[END_SIZE];
};

static struct end end_of(const char *text, size_t size)
{
	struct end end;

	snprintf(end.text, sizeof(end.text), "\"" KEY "\": \"%08x\"}", crc32c(0, text, size));
	return end;
}

char *json_dump_with_checksum(const json_t *object, size_t flags)
{
	char *text = object ? json_dumps(object, flags) : NULL, *sealed = NULL;
	size_t size = text ? strlen(text) : 0;
	const bool has_lines = size > 1 && text[size - 2] == '\n';

	if (size > 2) {
		text[size - 1 - has_lines] = '\0';
		if (asprintf(&sealed, "%s%s%s", text, has_lines ? ",\n " : ", ",
			     "\"" KEY "\": \"01234567\"}") < 0)
			sealed = NULL;
	}
	free(text);
	if (sealed) {
		size = strlen(sealed) - (END_SIZE - 1);
		memcpy(sealed + size, end_of(sealed, size).text, END_SIZE);
	}
	return sealed;
}

bool json_print_checksum(FILE *out, char *const *text, const size_t *size)
{
	/* without memory, there is no text */
	return !fflush(out) && fputs(end_of(*text, *size).text, out) >= 0;
}

static bool is_whole(const char *text, size_t size)
{
	const size_t before = size < END_SIZE - 1 ? 0 : size - (END_SIZE - 1);

	return before && !memcmp(text + before, end_of(text, before).text, END_SIZE - 1);
}

bool json_take_checksum(json_t *object, const char *text, size_t size)
{
	const bool has_one =
		json_object_get(object, JSON_CHECKSUM_MARK) || json_object_get(object, KEY);

	json_object_del(object, JSON_CHECKSUM_MARK);
	json_object_del(object, KEY);
	return !has_one || is_whole(text, size);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/named.h"

#include <errno.h>
#include <string.h>
#include "formats/base/text.h"

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

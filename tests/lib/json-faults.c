/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/json-faults.h"

#include <stdbool.h>
#include <stdlib.h>

enum { NONE = -1 };

static int left = NONE; /* allocations before the one that fails */

static void *allocate(size_t size)
{
	if (left >= 0 && !left--)
		return NULL;
	return malloc(size);
}

unsigned int json_faults(json_t *(*make)(const void *arg), const void *arg)
{
	unsigned int wrong = 0;
	json_t *whole, *document;
	bool failed = true;

	json_set_alloc_funcs(allocate, free);
	whole = make(arg);
	for (int n = 0; failed; n++) {
		left = n;
		document = make(arg);
		failed = left == NONE;
		left = NONE;
		wrong += document && !json_equal(document, whole);
		json_decref(document);
	}
	json_decref(whole);
	json_set_alloc_funcs(malloc, free);
	return wrong;
}

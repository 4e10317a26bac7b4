/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/allocators/model.h"

#include <stddef.h>
#include <string.h>

static const char messages[] = "msg_msg", copies_of_user[] = "memdup_user";

static bool is_of(const char *cache, const char *set)
{
	const size_t length = strlen(set);

	return !strncmp(cache, set, length) && cache[length] == '-' && cache[length + 1] >= '0' &&
	       cache[length + 1] <= '9';
}

const char *buckets_of_cache(const char *cache)
{
	if (is_of(cache, messages))
		return messages;
	return is_of(cache, copies_of_user) ? copies_of_user : NULL;
}

/* The compiler adds suffixes: "alloc_msg.isra.0". */
static bool is_function(const char *name, const char *function)
{
	const size_t length = strlen(function);

	return !strncmp(name, function, length) && (!name[length] || name[length] == '.');
}

const char *buckets_of_call(const char *function, bool copies)
{
	/* the first is mostly inlined into the second */
	if (is_function(function, "alloc_msg") || is_function(function, "load_msg"))
		return messages;
	if (copies || is_function(function, "memdup_user") || is_function(function, "vmemdup_user"))
		return copies_of_user;
	return NULL;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/kmem.h"

#include <inttypes.h>
#include <stdio.h>

const char *const kmem_type_names[] = {[KMEM_TYPE_KMALLOC] = "kmalloc",
				       [KMEM_TYPE_CACHE] = "cache",
				       [KMEM_TYPE_PAGES] = "pages",
				       [KMEM_TYPE_COUNT] = NULL};

const char *kmem_type_name(unsigned int type)
{
	return type < KMEM_TYPE_COUNT ? kmem_type_names[type] : "?";
}

static size_t add(char *out, size_t size, size_t used, const char *text)
{
	int n;

	if (used >= size)
		return used;
	n = snprintf(out + used, size - used, "%s%s", used ? "|" : "", text);
	return n < 0 ? size : used + (size_t)n;
}

void gfp_flags_text(const struct gfp_name *names, size_t nr_names, uint64_t flags, char *out,
		    size_t size)
{
	char rest[24];
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < nr_names; i++) {
		const struct gfp_name *name = &names[i];

		if (!name->mask || (flags & name->mask) != name->mask)
			continue;
		used = add(out, size, used, name->name);
		flags &= ~name->mask;
	}
	snprintf(rest, sizeof(rest), "0x%" PRIx64, flags);
	if (flags)
		add(out, size, used, rest);
	else if (!used)
		add(out, size, used, "none");
}

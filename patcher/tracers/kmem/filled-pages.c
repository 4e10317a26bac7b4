/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"

/* Pages of calls whose return is never seen stay. A page that is allocated anew is noted for
 * another call, or not at all. */
enum { MAX_PAGES = 1 << 20 };

struct filled_pages {
	struct u64_map calls; /* struct page -> number of the call */
	uint64_t last;        /* of these numbers */
};

int filled_pages_create(struct budget *budget, struct filled_pages **out, struct error *err)
{
	struct filled_pages *filled = calloc(1, sizeof(*filled));

	if (!filled)
		return error_set(err, ENOMEM, "out of memory");
	u64_map_init(&filled->calls, sizeof(uint64_t));
	u64_map_set_budget(&filled->calls, budget);
	*out = filled;
	return 0;
}

void filled_pages_destroy(struct filled_pages *filled)
{
	if (!filled)
		return;
	u64_map_deinit(&filled->calls);
	free(filled);
}

bool filled_pages_note(struct filled_pages *filled, uint64_t *call, const uint64_t *pages, size_t n)
{
	if (n && !*call)
		*call = ++filled->last;
	for (size_t i = 0; i < n; i++) {
		uint64_t *slot = NULL;

		if (filled->calls.count < MAX_PAGES)
			slot = u64_map_insert(&filled->calls, pages[i], NULL);
		if (!slot)
			return false;
		*slot = *call;
	}
	return true;
}

void filled_pages_clear(struct filled_pages *filled)
{
	u64_map_deinit(&filled->calls);
}

bool filled_pages_take(struct filled_pages *filled, uint64_t call, uint64_t page)
{
	const uint64_t *of = filled->calls.count ? u64_map_find(&filled->calls, page) : NULL;
	bool noted = of && *of == call;

	if (of)
		u64_map_remove(&filled->calls, page);
	return noted;
}

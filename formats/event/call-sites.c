/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/call-sites.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CALL_SITES = 1 << 18 }; /* a kernel has fewer; a hostile guest does not */

void call_sites_init(struct call_sites *sites, struct budget *budget)
{
	*sites = (struct call_sites){.budget = budget};
	pthread_mutex_init(&sites->lock, NULL);
	u64_map_init(&sites->known, 0);
	u64_map_set_budget(&sites->known, budget);
}

void call_sites_deinit(struct call_sites *sites)
{
	u64_map_deinit(&sites->known);
	budget_free(sites->budget, sites->all, sites->room * sizeof(*sites->all));
	pthread_mutex_destroy(&sites->lock);
}

static bool make_room(struct call_sites *sites)
{
	return sites->count < MAX_CALL_SITES &&
	       budget_grow(sites->budget, &sites->all, sizeof(*sites->all), sites->count,
			   &sites->room);
}

void call_sites_note(struct call_sites *sites, uint64_t call_site)
{
	bool is_new;

	pthread_mutex_lock(&sites->lock);
	if (!u64_map_find(&sites->known, call_site) && make_room(sites) &&
	    u64_map_insert(&sites->known, call_site, &is_new))
		sites->all[sites->count++] = call_site;
	pthread_mutex_unlock(&sites->lock);
}

size_t call_sites_get(struct call_sites *sites, size_t from, uint64_t *out, size_t max)
{
	size_t n;

	pthread_mutex_lock(&sites->lock);
	n = sites->count - from < max ? sites->count - from : max;
	if (n)
		memcpy(out, sites->all + from, n * sizeof(*out));
	pthread_mutex_unlock(&sites->lock);
	return n;
}

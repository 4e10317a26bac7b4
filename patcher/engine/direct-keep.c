/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probes come and go, and the direct lane records what it did: only their own sites are looked at.
 */
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/text/site.h"

/* The live code that a patch leads to, if that is the direct lane's. */
static struct direct_piece *piece_at(const struct direct_lane *lane, const struct patch *patch)
{
	int32_t distance;
	uint64_t target;

	memcpy(&distance, patch->new_bytes + 1, sizeof(distance));
	target = patch->gva + SITE_SIZE + (uint64_t)(int64_t)distance;
	for (size_t i = 0; i < lane->nr_pieces; i++)
		if (lane->pieces[i]->state == DIRECT_LIVE && lane->pieces[i]->gva == target)
			return lane->pieces[i];
	return NULL;
}

/* Who of the direct lane records this site now. */
static uint32_t mask_of(const struct ring_engine *x, const struct patch *entry)
{
	const struct patch *patch =
		entry->off ? patch_set_at(&x->config.plan->shared, entry->gva) : entry;
	const struct direct_piece *piece = patch ? piece_at(&x->direct, patch) : NULL;

	return piece ? piece->mask : 0;
}

/* A site of the direct lane that a probe takes over; else it stays as it is. */
static int add_now(struct ring_engine *x, const struct patch *shared, struct direct_texts *texts,
		   struct error *err)
{
	const struct patch_set *entries = &x->config.plan->entries;
	size_t i = patch_set_find(entries, shared->gva);

	if (i == entries->n || entries->v[i].gva != shared->gva || direct_will_be_off(x, i))
		return patch_set_add(&x->direct.next, shared, err);
	return patch_is_out(shared) ? 0 : patch_set_add(&texts->from, shared, err);
}

static int come(struct ring_engine *x, size_t entry, struct direct_texts *texts, struct error *err)
{
	uint32_t mask = mask_of(x, &x->config.plan->entries.v[entry]);

	return direct_add_private(x, entry, mask, texts, err);
}

static int go(struct ring_engine *x, size_t entry, struct direct_texts *texts, struct error *err)
{
	const struct patch *now = &x->config.plan->entries.v[entry];
	struct direct_piece *piece = piece_at(&x->direct, now);
	struct shared_site site = {.patch = *now, .entry = entry};
	int ret = direct_add_private(x, entry, 0, texts, err);

	if (ret || !piece)
		return ret;
	piece->used = false;
	ret = direct_add_shared(x, &site, piece->mask, DIRECT_NO_PLACE, err);
	if (ret || now->yielded)
		return ret;
	return patch_set_add(&texts->to, &x->direct.next.v[x->direct.next.n - 1], err);
}

int direct_keep(struct ring_engine *x, struct direct_texts *texts, struct error *err)
{
	const struct patch_plan *plan = x->config.plan;
	int ret = 0;

	direct_mark_used(&x->direct, true);
	for (size_t i = 0; !ret && i < plan->shared.n; i++)
		ret = add_now(x, &plan->shared.v[i], texts, err);
	for (size_t i = 0; !ret && i < plan->entries.n; i++) {
		const bool off = direct_will_be_off(x, i);

		if (off != plan->entries.v[i].off)
			ret = off ? go(x, i, texts, err) : come(x, i, texts, err);
	}
	if (!ret)
		ret = direct_add_returns(x, texts, err);
	if (!ret)
		ret = patch_set_sort(&texts->from, err);
	if (!ret)
		ret = patch_set_sort(&texts->to, err);
	return ret ? ret : patch_set_sort(&x->direct.next, err);
}

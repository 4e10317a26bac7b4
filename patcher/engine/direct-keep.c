/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probes come and go, and the direct lane records what it did: only their own places are looked at.
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

/* The direct lane's own patches of the kind of a plan's patch. */
static const struct patch_set *shared_of(const struct ring_engine *x, size_t number)
{
	const struct patch_plan *plan = x->config.plan;

	return number < plan->entries.n ? &plan->shared : &plan->slots;
}

/* Who of the direct lane records this place now. */
static uint32_t mask_of(const struct ring_engine *x, size_t number)
{
	const struct patch *now = direct_patch(x, number);
	const struct patch *patch = now->off ? patch_set_at(shared_of(x, number), now->gva) : now;
	const struct direct_piece *piece = patch ? piece_at(&x->direct, patch) : NULL;

	return piece ? piece->use.mask : 0;
}

/* Patches of the direct lane go on, but for those that a probe takes over. `first` is the number of
 * the first of `probes`. */
static int add_now(struct ring_engine *x, const struct patch_set *shared,
		   const struct patch_set *probes, size_t first, struct patch_set *next,
		   struct direct_texts *texts, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < shared->n; i++) {
		const struct patch *patch = &shared->v[i];
		size_t k = patch_set_find(probes, patch->gva);

		if (k == probes->n || probes->v[k].gva != patch->gva ||
		    direct_will_be_off(x, first + k))
			ret = patch_set_add(next, patch, err);
		else if (!patch_is_out(patch))
			ret = patch_set_add(&texts->from, patch, err);
	}
	return ret;
}

static int come(struct ring_engine *x, size_t number, struct direct_texts *texts, struct error *err)
{
	return direct_add_private(x, number, mask_of(x, number), texts, err);
}

/* To code of the next view. */
static int turn(struct ring_engine *x, size_t number, struct direct_texts *texts, struct error *err)
{
	struct direct_piece *piece = piece_at(&x->direct, direct_patch(x, number));

	if (piece)
		piece->used = false;
	return come(x, number, texts, err);
}

static int go(struct ring_engine *x, size_t number, struct direct_texts *texts, struct error *err)
{
	const bool is_entry = number < x->config.plan->entries.n;
	struct patch_set *next = is_entry ? &x->direct.next : &x->direct.next_slots;
	const struct patch *now = direct_patch(x, number);
	struct direct_piece *piece = piece_at(&x->direct, now);
	int ret = direct_add_private(x, number, 0, texts, err);

	if (ret || !piece)
		return ret;
	piece->used = false;
	if (!piece->use.mask)
		return 0;
	ret = is_entry ? direct_add_shared(x, now, piece->use.mask, DIRECT_NO_PLACE, err)
		       : direct_add_slot(x, now, piece->use.mask, x->set.places[number].next, err);
	if (ret || now->yielded)
		return ret;
	return patch_set_add(&texts->to, &next->v[next->n - 1], err);
}

int direct_keep(struct ring_engine *x, struct direct_texts *texts, struct error *err)
{
	const struct patch_plan *plan = x->config.plan;
	struct direct_lane *lane = &x->direct;
	int ret;

	direct_mark_used(lane, true);
	ret = add_now(x, &plan->shared, &plan->entries, 0, &lane->next, texts, err);
	if (!ret)
		ret = add_now(x, &plan->slots, &plan->returns, plan->entries.n, &lane->next_slots,
			      texts, err);
	if (!ret)
		ret = patch_set_add_all(&lane->next_inside, &plan->inside, err);
	for (size_t i = 0; !ret && i < plan->entries.n + plan->returns.n; i++) {
		const bool off = direct_will_be_off(x, i);

		if (off != direct_patch(x, i)->off)
			ret = off ? go(x, i, texts, err) : come(x, i, texts, err);
		else if (!off && lane->next_view_index != lane->view_index)
			ret = turn(x, i, texts, err);
	}
	return ret;
}

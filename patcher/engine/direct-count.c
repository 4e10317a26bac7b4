/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Wants whose calls are counted: their counts have the memory of a set of rings. */
#include "patcher/engine/ring-internal.h"
#include "patcher/text/site.h"

static struct profile_memory memory_of(const struct ring_engine *x, unsigned int group)
{
	const struct direct_lane *lane = &x->direct;
	const uint64_t rings =
		lane->offset + (uint64_t)group * x->nr_vcpus * ring_stride(lane->ring_bytes);

	return (struct profile_memory){
		.data = (uint8_t *)x->scratch.hva + rings + RING_HEADER_BYTES,
		.data_bytes = lane->ring_bytes,
		.stride = ring_stride(lane->ring_bytes),
		.nr_cpus = x->nr_vcpus,
		.clock = x->vcpus[0].clock,
	};
}

static struct hist_memory hist_memory_of(const struct ring_engine *x, unsigned int group)
{
	const struct profile_memory m = memory_of(x, group);

	return (struct hist_memory){m.data, m.data_bytes, m.stride, m.nr_cpus};
}

static bool counts_with(const struct direct_slot *slot, const struct direct_want *want)
{
	return slot->want.profile == want->profile && slot->want.hist == want->hist;
}

/* The group that the wants with the same counts are in. */
static unsigned int group_of(struct direct_lane *lane, const struct direct_want *want)
{
	unsigned int group = 0;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE &&
		    lane->slots[id].state != DIRECT_DRAINING && counts_with(&lane->slots[id], want))
			group = lane->slots[id].group;
	pthread_mutex_unlock(&lane->lock);
	return group;
}

static int add_functions(const struct direct_change *change, size_t want, struct error *err)
{
	const struct direct_want *w = &change->wants[want];
	int ret = 0;

	for (size_t i = 0; !ret && i < change->sites->n; i++) {
		const struct shared_site *site = &change->sites->v[i];

		if (!site->refusal && site->mask & UINT32_C(1) << want)
			ret = profile_add(w->profile, site->patch.gva + SITE_SIZE, site->patch.gva,
					  site->patch.function, w->action != COUNT_HIT, err);
	}
	return ret;
}

static int add_counts(struct ring_engine *x, const struct direct_change *change, size_t i,
		      struct error *err)
{
	const struct direct_want *want = &change->wants[i];
	const unsigned int group = group_of(&x->direct, want);
	const struct profile_memory memory = memory_of(x, group);
	const struct hist_memory hist_memory = hist_memory_of(x, group);
	int ret;

	if (want->hist)
		return hist_attach(want->hist, &hist_memory, err);
	ret = profile_attach(want->profile, &memory, err);
	return ret ? ret : add_functions(change, i, err);
}

int direct_add_counts(struct ring_engine *x, const struct direct_change *change, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < change->nr_wants; i++) {
		const struct direct_want *want = &change->wants[i];

		if (direct_counts(want) && (want->hist || want->action != COUNT_STOP))
			ret = add_counts(x, change, i, err);
	}
	return ret;
}

struct count_spec direct_count_spec(const struct ring_engine *x, const struct direct_want *want,
				    const struct direct_use *use)
{
	struct count_spec spec = {.action = want->action, .layout = profile_layout(want->profile)};

	if (use->place >= 0 && want->action != COUNT_STOP)
		spec.offset =
			profile_offset(want->profile, direct_patch(x, (size_t)use->place)->gva);
	return spec;
}

static void detach(const struct direct_want *want)
{
	if (want->hist)
		hist_detach(want->hist);
	else
		profile_detach(want->profile);
}

void direct_leave_counts(struct direct_lane *lane, const struct direct_want *want)
{
	if (!direct_counts(want))
		return;
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE && counts_with(&lane->slots[id], want))
			return;
	detach(want);
}

void direct_keep_counts(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE && direct_counts(&lane->slots[id].want))
			detach(&lane->slots[id].want);
	pthread_mutex_unlock(&lane->lock);
}

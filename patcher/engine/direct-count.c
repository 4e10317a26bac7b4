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

/* The group that a profile's wants are in. */
static unsigned int group_of(struct direct_lane *lane, const struct profile *profile)
{
	unsigned int group = 0;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE &&
		    lane->slots[id].state != DIRECT_DRAINING &&
		    lane->slots[id].want.profile == profile)
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
					  site->patch.function, w->action == COUNT_START, err);
	}
	return ret;
}

int direct_add_counts(struct ring_engine *x, const struct direct_change *change, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < change->nr_wants; i++) {
		const struct direct_want *want = &change->wants[i];
		struct profile_memory memory;

		if (!want->profile || want->action == COUNT_STOP)
			continue;
		memory = memory_of(x, group_of(&x->direct, want->profile));
		ret = profile_attach(want->profile, &memory, err);
		if (!ret)
			ret = add_functions(change, i, err);
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

void direct_leave_counts(struct direct_lane *lane, const struct direct_want *want)
{
	if (!want->profile)
		return;
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE &&
		    lane->slots[id].want.profile == want->profile)
			return;
	profile_detach(want->profile);
}

void direct_keep_counts(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE && lane->slots[id].want.profile)
			profile_detach(lane->slots[id].want.profile);
	pthread_mutex_unlock(&lane->lock);
}

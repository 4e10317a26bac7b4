/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code and slots of the direct lane that are being left. */
#include "patcher/engine/ring-internal.h"

/* The lowest and the highest address of code that is being left. */
static void retiring_range(const struct direct_lane *lane, uint64_t *gva, uint64_t *size)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < lane->nr_pieces; i++) {
		const struct direct_piece *p = lane->pieces[i];

		if (p->state != DIRECT_DRAINING)
			continue;
		low = p->gva < low ? p->gva : low;
		high = p->gva + p->size > high ? p->gva + p->size : high;
	}
	*gva = low;
	*size = high > low ? high - low : 0;
}

void direct_begin_retiring(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;
	struct quiesce_policy policy = {.tasks = &x->tasks};
	bool any = false;

	if (lane->retiring)
		return;
	for (size_t i = 0; i < lane->nr_pieces; i++) {
		struct direct_piece *p = lane->pieces[i];

		if (p->state != DIRECT_LEAVING)
			continue;
		p->state = DIRECT_DRAINING;
		any = true;
	}
	if (!any)
		return;
	retiring_range(lane, &policy.gva, &policy.size);
	/* cannot fail: a merge takes fewer rings than this has room for */
	quiesce_begin(&lane->quiesce, x->guest, &policy, NULL);
	lane->retiring = true;
}

static uint32_t written_slots(const struct direct_lane *lane)
{
	uint32_t slots = 0;

	for (size_t i = 0; i < lane->nr_pieces; i++)
		slots |= lane->pieces[i]->use.mask;
	return slots;
}

void direct_drain_slots(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;
	const uint32_t written = written_slots(lane);
	bool any = false;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		if (lane->slots[id].state != DIRECT_LEAVING || written & UINT32_C(1) << id)
			continue;
		lane->slots[id].state = DIRECT_DRAINING;
		any = true;
	}
	for (unsigned int i = 0; any && i < lane->nr_rings; i++)
		lane->marks[i] = __atomic_load_n(&lane->rings[i].header->reserve, __ATOMIC_ACQUIRE);
	pthread_mutex_unlock(&lane->lock);
}

bool direct_is_retiring(struct ring_engine *x)
{
	return x->direct.retiring;
}

/* A change that is being prepared comes first: the thread tries again. */
void direct_retire(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;

	if (pthread_mutex_trylock(&lane->change))
		return;
	for (size_t i = lane->nr_pieces; i-- > 0;) {
		if (lane->pieces[i]->state != DIRECT_DRAINING)
			continue;
		direct_forget_traps(lane, lane->pieces[i]);
		direct_drop_piece(lane, i);
	}
	lane->retiring = false;
	direct_drain_slots(x);
	direct_begin_retiring(x);
	pthread_mutex_unlock(&lane->change);
}

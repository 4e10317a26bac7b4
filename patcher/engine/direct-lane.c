/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The direct lane's slots and rings. */
#include <errno.h>
#include <stdlib.h>
#include "patcher/engine/ring-internal.h"

enum {
	FREED_TRIES = 1000, /* how long a change waits for code and slots that are being left ... */
	FREED_TRIES_HELD = 20, /* ... with the guest stopped */
	FREED_WAIT_MS = 5,
};

/* --- life ------------------------------------------------------------------------------------ */

void direct_init(struct ring_engine *x)
{
	pthread_mutex_init(&x->direct.change, NULL);
	pthread_mutex_init(&x->direct.lock, NULL);
	u64_map_init(&x->direct.by_trap, sizeof(struct direct_slow));
}

void direct_deinit(struct ring_engine *x)
{
	direct_end(x);
	u64_map_deinit(&x->direct.by_trap);
	pthread_mutex_destroy(&x->direct.lock);
	pthread_mutex_destroy(&x->direct.change);
}

void direct_begin(struct ring_engine *x)
{
	uint64_t used = x->set.code_bytes + x->asks.code_bytes;

	used = (used + CODE_ARENA_ALIGN - 1) & ~(CODE_ARENA_ALIGN - 1ull);
	code_arena_init(&x->direct.arena, x->mapping.gva + used, x->scratch.hva + used,
			(uint32_t)(x->code_bytes - used));
	x->direct.task_fields = 0;
	x->direct.view_index = 0;
	x->direct.guarded = false;
}

void direct_end(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;

	direct_discard(&x->engine);
	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE)
			direct_close_slot(x, id);
	for (unsigned int i = 0; i < lane->nr_rings; i++)
		ring_deinit(&lane->rings[i]);
	free(lane->rings);
	free(lane->marks);
	lane->rings = NULL;
	lane->marks = NULL;
	lane->nr_rings = 0;
	for (unsigned int g = 0; g < DIRECT_GROUPS; g++)
		lane->losses[g] = atomic_load(&x->skipped[g + 1]);
	lane->retiring = false;
	pthread_mutex_unlock(&lane->lock);
	direct_forget_code(lane);
	if (!x->config.plan->shared.applied)
		patch_set_deinit(&x->config.plan->shared);
	if (!x->config.plan->slots.applied)
		patch_set_deinit(&x->config.plan->slots);
	if (!x->config.plan->inside.applied)
		patch_set_deinit(&x->config.plan->inside);
	atomic_store(&x->config.plan->has_others,
		     x->config.plan->slots.n + x->config.plan->inside.n > 0);
}

/* --- slots ----------------------------------------------------------------------------------- */

static bool serves(const struct direct_slot *slot, const struct direct_want *want)
{
	return slot->state == DIRECT_LIVE && slot->want.owner == want->owner &&
	       slot->want.point == want->point && slot->want.class == want->class &&
	       slot->want.fields == want->fields && slot->want.gate == want->gate &&
	       slot->want.fetch == want->fetch && slot->want.program == want->program;
}

enum { ALL_USERS = DIRECT_MAX + 1 };

/* Instances share a group only if there are more of them than groups; counts never share one.
 * DIRECT_GROUPS: there is none. */
static unsigned int least_used_group(const struct direct_lane *lane, bool alone)
{
	unsigned int users[DIRECT_GROUPS + 1] = {[DIRECT_GROUPS] = alone ? 1 : ALL_USERS};
	unsigned int best = DIRECT_GROUPS;

	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state != DIRECT_FREE)
			users[lane->slots[id].group] +=
				direct_counts(&lane->slots[id].want) ? ALL_USERS : 1;
	for (unsigned int g = lane->nr_groups; g-- > 0;)
		if (users[g] < users[best] || (users[g] == users[best] && best != DIRECT_GROUPS))
			best = g;
	return best;
}

/* All wants of an owner are in one group. */
static unsigned int choose_group(const struct direct_lane *lane, const struct direct_want *want)
{
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		const struct direct_slot *slot = &lane->slots[id];

		if ((slot->state == DIRECT_NEW || slot->state == DIRECT_LIVE) &&
		    slot->want.owner == want->owner)
			return slot->group;
	}
	return least_used_group(lane, direct_counts(want));
}

static int no_group(const struct direct_lane *lane, const struct direct_want *want,
		    struct error *err)
{
	if (direct_counts(want))
		return error_set(err, ENOSPC,
				 "no memory for counts: each profile or histogram takes a set of "
				 "rings that no other instance has, and the sets are %u",
				 lane->nr_groups);
	return error_set(err, ENOSPC,
			 "no rings: each profile or histogram takes a set of them, and the sets "
			 "are %u",
			 lane->nr_groups);
}

static struct ring_shape shape_of(const struct direct_want *want,
				  const struct direct_layout *layout)
{
	struct ring_shape shape = {.size = layout->size};

	if (direct_counts(want))
		return (struct ring_shape){0};
	if (want->fetch && want->fetch->nr_long_strings) {
		shape.items = (uint16_t)(fetch_long_bytes(want->fetch) / sizeof(uint64_t));
		shape.items_at = (uint16_t)(layout->values + fetch_words_at(want->fetch));
	}
	return shape;
}

static int check_size(const struct direct_lane *lane, const struct direct_want *want,
		      struct error *err)
{
	const struct direct_layout layout = direct_layout_of(want->fields, want->fetch);
	const struct ring_shape shape = shape_of(want, &layout);
	const size_t most = shape.size + shape.items * sizeof(uint64_t);

	if (want->fields & DIRECT_STACK && ring_engine_check_chains(lane->ring_bytes, err))
		return -ENOSPC;
	if (!want->fetch || most <= ring_max_record(lane->ring_bytes))
		return 0;
	return error_set(
		err, ENOSPC,
		"a record of %zu bytes, most of them for strings or arrays, is too large for rings "
		"of %u KiB per vCPU",
		most, lane->ring_bytes >> 10);
}

static int find_slot(struct direct_lane *lane, const struct direct_want *want, unsigned int *out,
		     struct error *err)
{
	unsigned int vacant = DIRECT_MAX, group;

	for (*out = 0; *out < DIRECT_MAX; (*out)++) {
		if (serves(&lane->slots[*out], want))
			return 0;
		if (vacant == DIRECT_MAX && lane->slots[*out].state == DIRECT_FREE)
			vacant = *out;
	}
	*out = vacant;
	if (vacant == DIRECT_MAX)
		return error_set(err, ENOSPC, "more than %d traced instances", DIRECT_MAX);
	if (check_size(lane, want, err))
		return -ENOSPC;
	group = choose_group(lane, want);
	if (group == DIRECT_GROUPS)
		return no_group(lane, want, err);
	lane->slots[vacant] =
		(struct direct_slot){.want = *want,
				     .layout = direct_layout_of(want->fields, want->fetch),
				     .group = group};
	lane->slots[vacant].state = DIRECT_NEW;
	direct_plan_make(&lane->slots[vacant].plan, want, &lane->slots[vacant].layout);
	return 0;
}

/* From now on there are records with its id. Until then one is damage: whose slot it is may go
 * before the record is an event. */
void direct_open_slot(struct direct_lane *lane, unsigned int id)
{
	struct direct_slot *slot = &lane->slots[id];

	slot->state = DIRECT_LIVE;
	lane->shapes[id] = shape_of(&slot->want, &slot->layout);
}

/* Under the lane's lock. */
static void free_slot(struct direct_lane *lane, unsigned int id)
{
	lane->slots[id].state = DIRECT_FREE;
	lane->shapes[id] = (struct ring_shape){0};
	direct_leave_counts(lane, &lane->slots[id].want);
}

void direct_drop_new_slots(struct direct_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state == DIRECT_NEW)
			free_slot(lane, id);
	pthread_mutex_unlock(&lane->lock);
}

static bool is_freeing(struct direct_lane *lane)
{
	bool freeing = lane->retiring;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		freeing |= lane->slots[id].state == DIRECT_DRAINING;
	pthread_mutex_unlock(&lane->lock);
	return freeing;
}

/* With `change` held: let the thread free what is being left. False: nothing is, or for too long. A
 * guest that is held stopped does not leave its code, and is not held up for long. */
bool direct_wait_freed(struct ring_engine *x, unsigned int *tries)
{
	struct direct_lane *lane = &x->direct;

	if (!is_freeing(lane) || ++*tries > (lane->next_held ? FREED_TRIES_HELD : FREED_TRIES))
		return false;
	pthread_mutex_unlock(&lane->change);
	ring_engine_wake(x);
	clock_wait_ms(FREED_WAIT_MS);
	pthread_mutex_lock(&lane->change);
	return true;
}

static int find_slot_locked(struct direct_lane *lane, const struct direct_want *want,
			    unsigned int *out, struct error *err)
{
	int ret;

	pthread_mutex_lock(&lane->lock);
	ret = find_slot(lane, want, out, err);
	pthread_mutex_unlock(&lane->lock);
	return ret;
}

static int find_slots_of(struct ring_engine *x, const struct direct_change *change, bool counting,
			 unsigned int *ids, struct error *err)
{
	unsigned int tries = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < change->nr_wants; i++) {
		if (direct_counts(&change->wants[i]) != counting)
			continue;
		do
			ret = find_slot_locked(&x->direct, &change->wants[i], &ids[i], err);
		while (ret && direct_wait_freed(x, &tries));
	}
	return ret;
}

/* The others can share what those that count leave. */
int direct_find_slots(struct ring_engine *x, const struct direct_change *change, unsigned int *ids,
		      struct error *err)
{
	int ret = find_slots_of(x, change, true, ids, err);

	return ret ? ret : find_slots_of(x, change, false, ids, err);
}

void direct_close_slot(struct ring_engine *x, unsigned int id)
{
	free_slot(&x->direct, id);
}

bool direct_uses(struct engine *engine, const void *owner)
{
	struct direct_lane *lane = &ring_engine_of(engine)->direct;
	bool used = false;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		used |= lane->slots[id].state != DIRECT_FREE && lane->slots[id].want.owner == owner;
	pthread_mutex_unlock(&lane->lock);
	return used;
}

/* --- rings ----------------------------------------------------------------------------------- */

static int init_ring(struct ring_engine *x, unsigned int i, struct error *err)
{
	struct direct_lane *lane = &x->direct;
	const struct ring_config config = {
		.data_bytes = lane->ring_bytes, .shapes = lane->shapes, .nr_shapes = DIRECT_MAX};
	uint64_t offset = lane->offset + (uint64_t)i * ring_stride(lane->ring_bytes);

	return ring_init(&lane->rings[i], x->scratch.hva + offset, &config, err);
}

static int make_group(struct ring_engine *x, struct error *err)
{
	struct direct_lane *lane = &x->direct;
	unsigned int most = lane->nr_groups * x->nr_vcpus, end = lane->nr_rings + x->nr_vcpus;
	int ret = 0;

	if (!lane->rings) {
		lane->rings = calloc(most, sizeof(*lane->rings));
		lane->marks = calloc(most, sizeof(*lane->marks));
	}
	if (!lane->rings || !lane->marks)
		return error_set(err, ENOMEM, "out of memory");
	for (unsigned int i = lane->nr_rings; !ret && i < end; i++)
		ret = init_ring(x, i, err);
	if (!ret)
		lane->nr_rings = end;
	return ret;
}

/* Groups are taken in order. */
int direct_make_groups(struct ring_engine *x, struct error *err)
{
	struct direct_lane *lane = &x->direct;
	int ret = 0;

	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; !ret && id < DIRECT_MAX; id++)
		while (!ret && lane->slots[id].state == DIRECT_NEW &&
		       lane->nr_rings <= lane->slots[id].group * x->nr_vcpus)
			ret = make_group(x, err);
	pthread_mutex_unlock(&lane->lock);
	return ret;
}

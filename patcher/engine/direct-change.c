/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The direct lane's instances change while the guest runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/text/site.h"

enum {
	CALL = 0xe8,
	JMP = 0xe9,
	NOP = 0x90,
	INT3 = 0xcc,
};

/* --- patches --------------------------------------------------------------------------------- */

static void set_branch(struct patch *patch, uint8_t opcode, uint64_t target)
{
	int32_t distance = (int32_t)(target - (patch->gva + SITE_SIZE));

	patch->new_bytes[0] = opcode;
	memcpy(patch->new_bytes + 1, &distance, sizeof(distance));
}

static uint32_t slots_of(uint32_t wants, const unsigned int *ids)
{
	uint32_t slots = 0;

	for (; wants; wants &= wants - 1)
		slots |= UINT32_C(1) << ids[__builtin_ctz(wants)];
	return slots;
}

/* The code of a place, whose function an error names if the instances want too much there. */
static int find_code(struct ring_engine *x, const struct patch *place, const struct direct_use *use,
		     const struct direct_piece **out, struct error *err)
{
	int ret = direct_find_piece(x, use, out, err);

	if (ret == -ENOSPC && !use->mask)
		error_prefix(err, "%s, for what is recorded of tasks: ", place->function);
	else if (ret == -ENOSPC)
		error_prefix(err, "%s, which %d instances want: ", place->function,
			     __builtin_popcount(use->mask));
	return ret;
}

static int add_jump_to(struct ring_engine *x, const struct patch *place, uint8_t opcode,
		       const struct direct_use *use, struct patch_set *to, struct error *err)
{
	const struct direct_piece *piece;
	struct patch patch = *place;
	int ret = find_code(x, place, use, &piece, err);

	if (ret)
		return ret;
	if (llabs((int64_t)(piece->gva - patch.gva)) > INT32_MAX - TRAMPOLINE_MAX)
		return error_set_at(err, ERANGE, patch.gva, "%s is too far from the code",
				    patch.function);
	set_branch(&patch, opcode, piece->gva);
	return patch_set_add(to, &patch, err);
}

int direct_add_shared(struct ring_engine *x, const struct patch *site, uint32_t mask, int place,
		      struct error *err)
{
	const struct direct_use use = {.mask = mask, .place = place};

	return add_jump_to(x, site, CALL, &use, &x->direct.next, err);
}

int direct_add_slot(struct ring_engine *x, const struct patch *slot, uint32_t mask, uint64_t next,
		    struct error *err)
{
	const struct direct_use use = {.mask = mask, .place = DIRECT_SLOT, .next = next};
	struct patch patch = *slot;

	memset(patch.new_bytes, INT3, patch.size); /* behind the jump, as the guest has it */
	return add_jump_to(x, &patch, JMP, &use, &x->direct.next_slots, err);
}

/* What the jump leaves of a longer instruction becomes NOPs: the guest decodes its functions. */
static int add_inside(struct ring_engine *x, const struct inside_place *place, uint32_t mask,
		      struct error *err)
{
	const struct direct_use use = {.mask = mask, .place = DIRECT_INSIDE, .insn = place->insn};
	struct patch patch = place->patch;

	memset(patch.new_bytes, NOP, patch.size);
	return add_jump_to(x, &patch, JMP, &use, &x->direct.next_inside, err);
}

struct patch *direct_patch(const struct ring_engine *x, size_t number)
{
	struct patch_plan *plan = x->config.plan;

	return number < plan->entries.n ? &plan->entries.v[number]
					: &plan->returns.v[number - plan->entries.n];
}

bool direct_will_be_off(const struct ring_engine *x, size_t number)
{
	return x->direct.off ? x->direct.off[number] : direct_patch(x, number)->off;
}

/* A patch of the plan, as it is and as it is to be. */
static int add_pair(struct direct_texts *texts, const struct patch *now, const struct patch *next,
		    struct error *err)
{
	int ret = patch_is_out(now) ? 0 : patch_set_add(&texts->from, now, err);

	return ret || patch_is_out(next) ? ret : patch_set_add(&texts->to, next, err);
}

/* Where a patch without a trampoline keeps its trap, the direct lane records nothing. */
int direct_add_private(struct ring_engine *x, size_t number, uint32_t mask,
		       struct direct_texts *texts, struct error *err)
{
	const struct trampoline_place *place = &x->set.places[number];
	struct direct_lane *lane = &x->direct;
	const struct direct_use use = {
		.mask = mask, .place = (int)number, .view_index = lane->next_view_index};
	const struct patch *now = direct_patch(x, number);
	const struct direct_piece *piece;
	const bool extends = mask || lane->next_view_index;
	struct patch patch = *now;
	int ret;

	patch.off = direct_will_be_off(x, number);
	if (patch.off || !place->made)
		return add_pair(texts, now, &patch, err);
	ret = extends ? find_code(x, now, &use, &piece, err) : 0;
	if (ret)
		return ret;
	set_branch(&patch, JMP, extends ? piece->gva : place->gva);
	if (memcmp(patch.new_bytes, now->new_bytes, SITE_SIZE)) {
		lane->jumps[lane->nr_jumps].number = number;
		memcpy(lane->jumps[lane->nr_jumps++].bytes, patch.new_bytes, SITE_SIZE);
	}
	return add_pair(texts, now, &patch, err);
}

static int check_records(const struct patch *place, uint32_t mask, struct error *err)
{
	if (__builtin_popcount(mask) <= DIRECT_MAX_RECORDS)
		return 0;
	return error_set_at(err, ENOSPC, place->gva,
			    "%d instances want %s: %d can record one function",
			    __builtin_popcount(mask), place->function, DIRECT_MAX_RECORDS);
}

/* masks[i]: what the direct lane wants of the plan's patch i. */
static int add_sites(struct ring_engine *x, const struct direct_change *change,
		     const unsigned int *ids, uint32_t *masks, struct error *err)
{
	const struct shared_sites *sites = change->sites;
	int ret = 0;

	for (size_t i = 0; !ret && i < sites->n; i++) {
		const struct shared_site *site = &sites->v[i];
		uint32_t mask = site->refusal ? 0 : slots_of(site->mask, ids);
		bool bell = !site->refusal && site->patch.gva == change->bell;

		ret = check_records(&site->patch, mask, err);
		if (!ret && site->entry != SHARED_NO_ENTRY && !direct_will_be_off(x, site->entry))
			masks[site->entry] = mask;
		else if (!ret && (mask || bell))
			ret = direct_add_shared(x, &site->patch, mask,
						bell ? DIRECT_BELL : DIRECT_NO_PLACE, err);
	}
	return ret;
}

static int add_slots(struct ring_engine *x, const struct shared_slots *slots,
		     const unsigned int *ids, uint32_t *masks, struct error *err)
{
	const size_t first = x->config.plan->entries.n; /* of the returns */
	int ret = 0;

	for (size_t i = 0; !ret && i < slots->n; i++) {
		const struct shared_slot *slot = &slots->v[i];
		uint32_t mask = slot->usable ? slots_of(slot->mask, ids) : 0;

		ret = check_records(&slot->patch, mask, err);
		if (!ret && slot->exit != SHARED_NO_RETURN &&
		    !direct_will_be_off(x, first + slot->exit))
			masks[first + slot->exit] = mask;
		else if (!ret && mask)
			ret = direct_add_slot(x, &slot->patch, mask, slot->next, err);
	}
	return ret;
}

static int add_insides(struct ring_engine *x, const struct inside_places *places,
		       const unsigned int *ids, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < places->n; i++) {
		const struct inside_place *place = &places->v[i];
		uint32_t mask = inside_place_is_refused(place) ? 0 : slots_of(place->mask, ids);

		ret = check_records(&place->patch, mask, err);
		if (!ret && mask)
			ret = add_inside(x, place, mask, err);
	}
	return ret;
}

static size_t nr_patches(const struct ring_engine *x)
{
	return x->config.plan->entries.n + x->config.plan->returns.n;
}

static bool keeps_text(const struct direct_change *change)
{
	return change->kept.begin < change->kept.end;
}

static int make_texts(struct ring_engine *x, const struct direct_change *change,
		      const unsigned int *ids, uint32_t *masks, struct direct_texts *texts,
		      struct error *err)
{
	int ret = add_sites(x, change, ids, masks, err);

	if (!ret && change->slots)
		ret = add_slots(x, change->slots, ids, masks, err);
	if (!ret && change->inside)
		ret = add_insides(x, change->inside, ids, err);
	/* probes are in text that is kept, if any is */
	for (size_t i = 0; !ret && !keeps_text(change) && i < nr_patches(x); i++)
		ret = direct_add_private(x, i, masks[i], texts, err);
	if (!ret)
		ret = patch_set_add_all(&texts->from, &change->sites->present, err);
	if (!ret && change->slots)
		ret = patch_set_add_all(&texts->from, &change->slots->present, err);
	if (!ret && change->inside)
		ret = patch_set_add_all(&texts->from, &change->inside->present, err);
	if (!ret)
		ret = patch_set_add_all(&texts->to, &x->direct.next, err);
	if (!ret)
		ret = patch_set_add_all(&texts->to, &x->direct.next_slots, err);
	return ret ? ret : patch_set_add_all(&texts->to, &x->direct.next_inside, err);
}

/* What the change leads from, and to. */
static int sort_texts(struct ring_engine *x, struct direct_texts *texts, struct error *err)
{
	struct patch_set *const sets[] = {&texts->from, &texts->to, &x->direct.next,
					  &x->direct.next_slots, &x->direct.next_inside};
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(sets) / sizeof(sets[0]); i++)
		ret = patch_set_sort(sets[i], err);
	return ret ? ret
		   : patch_set_difference(&texts->from, &texts->to, &x->direct.difference, err);
}

/* Patches of the text that is kept come first, in front of those of modules, which lie behind it.
 */
static int keep_in(struct patch_set *next, const struct patch_set *now,
		   const struct direct_kept *text, struct error *err)
{
	struct patch_set all = {0};
	int ret = patch_set_add_range(&all, now, text->begin, text->end, err);

	if (!ret)
		ret = patch_set_add_all(&all, next, err);
	if (!ret)
		ret = patch_set_sort(&all, err);
	if (ret) {
		patch_set_deinit(&all);
		return ret;
	}
	patch_set_deinit(next);
	*next = all;
	return 0;
}

static int keep_text(struct ring_engine *x, const struct direct_kept *text, struct error *err)
{
	const struct patch_plan *plan = x->config.plan;
	struct direct_lane *lane = &x->direct;
	int ret = keep_in(&lane->next, &plan->shared, text, err);

	if (!ret)
		ret = keep_in(&lane->next_slots, &plan->slots, text, err);
	return ret ? ret : keep_in(&lane->next_inside, &plan->inside, text, err);
}

static int find_unseen(struct ring_engine *x, const struct shared_sites *sites, struct error *err)
{
	struct patch_set *unseen = &x->direct.unseen;
	int ret = 0;

	for (size_t i = 0; !ret && i < sites->n; i++) {
		const uint64_t gva = sites->v[i].patch.gva;
		const struct patch *patch = patch_set_at(&x->config.plan->shared, gva);

		if (patch && !patch_set_at(&sites->present, gva))
			ret = patch_set_add(unseen, patch, err);
	}
	return ret ? ret : patch_set_sort(unseen, err);
}

/* What to remember for the commit. */
static int make_room(struct ring_engine *x, const struct direct_change *change, struct error *err)
{
	const size_t patches = nr_patches(x);
	struct direct_lane *lane = &x->direct;

	lane->jumps = calloc(patches + 1, sizeof(*lane->jumps));
	if (change->off)
		lane->off = calloc(patches + 1, sizeof(*lane->off));
	if (!lane->jumps || (change->off && !lane->off))
		return error_set(err, ENOMEM, "out of memory");
	if (change->off)
		memcpy(lane->off, change->off, patches * sizeof(*lane->off));
	return 0;
}

static int make_patches(struct ring_engine *x, const struct direct_change *change,
			const unsigned int *ids, struct error *err)
{
	uint32_t *masks = calloc(nr_patches(x) + 1, sizeof(*masks));
	struct direct_texts texts = {0};
	int ret = masks ? make_room(x, change, err) : error_set(err, ENOMEM, "out of memory");

	if (!ret && change->sites) {
		/* which code the text that is kept leads to is not looked at: all of it stays */
		direct_mark_used(&x->direct, keeps_text(change));
		ret = make_texts(x, change, ids, masks, &texts, err);
		if (!ret)
			ret = find_unseen(x, change->sites, err);
	} else if (!ret) {
		ret = direct_keep(x, &texts, err);
	}
	if (!ret)
		ret = sort_texts(x, &texts, err);
	if (!ret && keeps_text(change))
		ret = keep_text(x, &change->kept, err);
	patch_set_deinit(&texts.from);
	patch_set_deinit(&texts.to);
	free(masks);
	return ret;
}

/* --- a change -------------------------------------------------------------------------------- */

/* Whether code has to know which calls are those of a fetch. */
static bool will_be_guarded(const struct direct_lane *lane, const struct direct_change *change)
{
	bool fetches = false;

	if (!change->sites || keeps_text(change))
		return lane->guarded;
	for (size_t i = 0; i < change->nr_wants; i++)
		fetches |= change->wants[i].fetch && change->wants[i].fetch->has_faults;
	return fetches;
}

/* Places for the view that is to be captured. */
static int prepare_view(struct ring_engine *x, const struct probe_view *view, struct error *err)
{
	struct direct_lane *lane = &x->direct;
	size_t *const index = &lane->next_view_index;
	int ret = 0;

	*index = lane->view_index;
	if (!view)
		return 0;
	if (direct_view_task_fields(x, view) & EVENT_TASK_STACK)
		ret = ring_engine_check_chains(x->ring_bytes, err);
	if (!ret)
		ret = trampoline_set_add_view(&x->set, x->config.plan, view, index, err);
	if (!ret && !x->set.views[*index].open)
		ring_engine_find_takers(x, *index);
	return ret;
}

static int prepare(struct ring_engine *x, const struct direct_change *change, struct error *err)
{
	unsigned int ids[DIRECT_MAX];
	int ret;

	if (change->nr_wants > DIRECT_MAX)
		return error_set(err, ENOSPC, "more than %d traced instances", DIRECT_MAX);
	if (change->nr_wants && !x->direct.nr_groups)
		return error_set(err, ENOSPC,
				 "no memory for rings of the direct lane beside those of %u vCPUs",
				 x->nr_vcpus);
	x->direct.next_held = change->held;
	ret = prepare_view(x, change->view, err);
	if (!ret)
		ret = direct_find_slots(x, change, ids, err);
	if (!ret)
		ret = direct_make_groups(x, err);
	if (!ret)
		ret = direct_add_counts(x, change, err);
	return ret ? ret : make_patches(x, change, ids, err);
}

static void discard(struct direct_lane *lane)
{
	direct_drop_new_slots(lane);
	for (size_t i = lane->nr_pieces; i-- > 0;)
		if (lane->pieces[i]->state == DIRECT_NEW)
			direct_drop_piece(lane, i);
	patch_set_deinit(&lane->next);
	patch_set_deinit(&lane->next_slots);
	patch_set_deinit(&lane->next_inside);
	patch_set_deinit(&lane->difference);
	patch_set_deinit(&lane->unseen);
	free(lane->jumps);
	free(lane->off);
	lane->jumps = NULL;
	lane->off = NULL;
	lane->nr_jumps = 0;
}

static int prepare_or_discard(struct ring_engine *x, const struct direct_change *change,
			      bool guarded, struct error *err)
{
	int ret;

	x->direct.next_guarded = guarded;
	ret = prepare(x, change, err);
	if (ret)
		discard(&x->direct);
	return ret;
}

int direct_prepare(struct engine *engine, const struct direct_change *change, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	bool guarded;
	int ret = direct_find_tasks(x, change, err);

	if (ret)
		return ret;
	pthread_mutex_lock(&x->direct.change);
	guarded = will_be_guarded(&x->direct, change);
	ret = prepare_or_discard(x, change, guarded, err);
	/* code that is guarded does without a fetch, too: there may be no room for other code */
	if (ret == -ENOSPC && x->direct.guarded && !guarded)
		ret = prepare_or_discard(x, change, true, err);
	pthread_mutex_unlock(&x->direct.change);
	return ret;
}

void direct_discard(struct engine *engine)
{
	struct direct_lane *lane = &ring_engine_of(engine)->direct;

	pthread_mutex_lock(&lane->change);
	discard(lane);
	pthread_mutex_unlock(&lane->change);
}

/* The text leads to the new code. */
static void turn_over(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;
	const uint32_t used = direct_used_slots(lane);

	for (size_t i = 0; i < lane->nr_pieces; i++) {
		struct direct_piece *p = lane->pieces[i];

		if (p->state == DIRECT_NEW)
			p->state = DIRECT_LIVE;
		else if (p->state == DIRECT_LIVE && !p->used)
			p->state = DIRECT_LEAVING;
	}
	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		struct direct_slot *slot = &lane->slots[id];

		if (slot->state == DIRECT_NEW)
			direct_open_slot(lane, id);
		if (slot->state == DIRECT_LIVE && !(used & UINT32_C(1) << id))
			slot->state = DIRECT_LEAVING;
	}
	pthread_mutex_unlock(&lane->lock);
}

static void keep_set(struct patch_set *to, struct patch_set *next)
{
	next->applied = next->n > 0;
	patch_set_deinit(to);
	*to = *next;
	*next = (struct patch_set){0};
}

static void keep_patches(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;
	struct patch_plan *plan = x->config.plan;

	for (size_t i = 0; i < lane->nr_jumps; i++)
		memcpy(direct_patch(x, lane->jumps[i].number)->new_bytes, lane->jumps[i].bytes,
		       SITE_SIZE);
	if (lane->off)
		patch_plan_set_off(plan, lane->off);
	atomic_store(&plan->has_others, lane->next_slots.n + lane->next_inside.n > 0);
	keep_set(&plan->shared, &lane->next);
	keep_set(&plan->slots, &lane->next_slots);
	keep_set(&plan->inside, &lane->next_inside);
}

static int note_standing(void *arg, struct patch *patch, const uint8_t *now, struct error *err)
{
	bool *standing = arg;

	(void)err;
	*standing |= now && !memcmp(now, patch->new_bytes, patch->size);
	return 0;
}

/* A patch that has come back since the change was prepared would be forgotten, with the guest's
 * text still leading to its code. */
static int check_unseen(struct ring_engine *x, struct error *err)
{
	bool standing = false;

	patch_set_read(&x->direct.unseen, x->kernel, note_standing, &standing, NULL);
	return standing ? error_set(err, ESTALE, "sites have been patched again") : 0;
}

int direct_commit(struct engine *engine, size_t *switched, struct error *err)
{
	struct ring_engine *x = ring_engine_of(engine);
	struct direct_lane *lane = &x->direct;
	int ret;

	pthread_mutex_lock(&lane->change);
	ret = check_unseen(x, err);
	if (!ret)
		ret = direct_renew_code(x, err);
	if (!ret)
		ret = direct_publish_traps(lane, err);
	if (!ret) {
		trampoline_set_open_view(&x->set, lane->next_view_index);
		ret = patch_set_apply(&lane->difference, x->kernel, err);
	}
	if (ret) {
		direct_forget_new_traps(lane);
	} else {
		*switched = lane->difference.n;
		lane->guarded = lane->next_guarded;
		lane->view_index = lane->next_view_index;
		turn_over(x);
		keep_patches(x);
		direct_drain_slots(x);
		direct_begin_retiring(x);
	}
	discard(lane);
	pthread_mutex_unlock(&lane->change);
	ring_engine_wake(x);
	return ret;
}

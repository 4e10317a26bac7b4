/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/shared-slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/function.h"

struct maker {
	struct shared_slots *slots;
	const struct kernel *kernel;
	const struct patch_plan *plan;
	uint64_t init_begin, init_end; /* of the kernel's init text */
	uint64_t thunk;                /* by which functions return now */
	size_t next;                   /* slot, ours, exit: where the search goes on */
	size_t ours, exit;
};

/* The patch at exactly this address, at *i or behind; NULL: none. *i follows. */
static const struct patch *advance(const struct patch_set *set, size_t *i, uint64_t gva)
{
	while (*i < set->n && set->v[*i].gva < gva)
		(*i)++;
	return *i < set->n && set->v[*i].gva == gva ? &set->v[*i] : NULL;
}

/* The kernel's own list is in its file, a module's is in the guest's memory. */
static void classify(const struct maker *m, struct shared_slot *slot, const uint8_t *bytes)
{
	const struct slot found = slot_classify(bytes, slot->patch.size, slot->patch.gva);

	slot->usable = found.size >= SITE_SIZE;
	if (slot->patch.transient && found.state == SLOT_JMP_THUNK)
		slot->usable = function_is_return_thunk(m->kernel, m->thunk, found.target);
	slot->next = found.state == SLOT_JMP_THUNK ? found.target : 0;
}

/* What a slot has beyond the bytes that are read of all. */
static void read_rest(const struct maker *m, struct patch *patch)
{
	const size_t size = slot_bytes(patch->old_bytes);

	if (size > SITE_SIZE && !kernel_read(m->kernel, patch->gva + SITE_SIZE,
					     patch->old_bytes + SITE_SIZE, size - SITE_SIZE, NULL))
		patch->size = (uint8_t)size;
}

static int look_at(struct maker *m, struct shared_slot *slot, const uint8_t *now, struct error *err)
{
	const uint64_t gva = slot->patch.gva;
	const struct patch *ours = advance(&m->plan->slots, &m->ours, gva);
	const struct patch *exit = advance(&m->plan->returns, &m->exit, gva);

	slot->exit = exit ? m->exit : SHARED_NO_RETURN;
	if (!now || gva - m->init_begin < m->init_end - m->init_begin)
		return 0;
	if (ours && !ours->yielded && !memcmp(now, ours->new_bytes, SITE_SIZE)) {
		slot->patch = *ours;
		classify(m, slot, ours->old_bytes);
		return patch_set_add(&m->slots->present, ours, err);
	}
	if (exit && !exit->off) {
		slot->usable = !exit->yielded && exit->size >= SITE_SIZE;
		return 0;
	}
	memcpy(slot->patch.old_bytes, now, SITE_SIZE);
	read_rest(m, &slot->patch);
	classify(m, slot, slot->patch.old_bytes);
	return 0;
}

/* The set has been sorted, and may have lost doubles: these are not usable. */
static int look(void *arg, struct patch *patch, const uint8_t *now, struct error *err)
{
	struct maker *m = arg;

	while (m->slots->v[m->next].patch.gva < patch->gva)
		m->next++;
	return look_at(m, &m->slots->v[m->next++], now, err);
}

static uint64_t slot_link(const struct kernel_image *image, const struct module_exits *modules,
			  size_t i)
{
	return i < image->nr_return_sites ? image->return_sites[i]
					  : modules->slots.v[i - image->nr_return_sites];
}

int shared_slots_make(struct shared_slots *slots, const struct kernel *kernel,
		      const struct module_exits *modules, const struct patch_plan *plan,
		      bool no_image, struct error *err)
{
	const struct kernel_image *image = kernel->image;
	struct maker maker = {.slots = slots,
			      .kernel = kernel,
			      .plan = plan,
			      .init_begin = kernel_symbol(kernel, "_sinittext"),
			      .init_end = kernel_symbol(kernel, "_einittext"),
			      .thunk = function_return_thunk(kernel)};
	struct patch_set all = {0};
	int ret = 0;

	*slots = (struct shared_slots){.first = no_image ? image->nr_return_sites : 0};
	slots->n = image->nr_return_sites + modules->slots.n - slots->first;
	slots->budget = kernel->guest->budget;
	slots->v = budget_calloc(slots->budget, slots->n + 1, sizeof(*slots->v));
	if (!slots->v)
		return error_set(err, ENOMEM, "no memory for the patches of %zu slots", slots->n);
	for (size_t i = 0; !ret && i < slots->n; i++) {
		const size_t number = slots->first + i;

		slots->v[i] = (struct shared_slot){
			.patch = {.gva = kernel_gva(kernel, slot_link(image, modules, number)),
				  .size = SITE_SIZE,
				  .transient = number >= image->nr_return_sites,
				  .function = "a return"},
			.exit = SHARED_NO_RETURN};
		ret = patch_set_add(&all, &slots->v[i].patch, err);
	}
	if (!ret)
		ret = patch_set_sort(&all, err);
	if (!ret && all.n) {
		maker.ours = patch_set_find(&plan->slots, all.v[0].gva);
		maker.exit = patch_set_find(&plan->returns, all.v[0].gva);
		ret = patch_set_read(&all, kernel, look, &maker, err);
	}
	if (!ret)
		ret = patch_set_sort(&slots->present, err);
	patch_set_deinit(&all);
	return ret;
}

void shared_slots_deinit(struct shared_slots *slots)
{
	patch_set_deinit(&slots->present);
	budget_free(slots->budget, slots->v, (slots->n + 1) * sizeof(*slots->v));
	*slots = (struct shared_slots){0};
}

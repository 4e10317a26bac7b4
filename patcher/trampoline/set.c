/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/trampoline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/slab/slab.h"
#include "patcher/text/site.h"

enum {
	JMP_SIZE = 5,
	CODE_ALIGN = 16,
	INT3 = 0xcc,
};

struct maker {
	struct trampoline_set *set;
	struct decoder *decoder;
	const struct trampoline_room *room;
};

static void index_fields(struct trampoline_place *place)
{
	uint32_t left = place->capture.fields & ~CAPTURE(FIELD_STACK);

	place->fields = left & ~CAPTURE(FIELD_CHAIN);
	for (; left; left &= left - 1) {
		int field = __builtin_ctz(left);
		size_t bytes = place->layout.offset[field] - sizeof(struct ring_record);

		place->index[field] = (uint8_t)(bytes / sizeof(uint64_t));
	}
}

/* Whether its words are where those of RING_RETURN are. */
static bool is_plain_return(const struct trampoline_place *place)
{
	const uint8_t cache = place->index[FIELD_SLAB_CACHE];

	return !place->layout.offset[FIELD_STACK] &&
	       place->index[FIELD_RESULT] == RING_RETURN_RESULT &&
	       (!cache || cache == RING_RETURN_CACHE);
}

/* What its records may be to others in the same ring: those with a stack, too, as that is read
 * where it lies. `probe` is NULL at returns. */
static enum ring_role role_of(const struct trampoline_place *place, const struct probe *probe)
{
	if (place->layout.offset[FIELD_KEY] != sizeof(struct ring_record))
		return RING_OTHER;
	if (place->layout.items || place->layout.offset[FIELD_CHAIN])
		return RING_KEYED;
	if (place->capture.point == POINT_RETURN)
		return is_plain_return(place) ? RING_RETURN : RING_KEYED;
	if (!probe->in_runs)
		return RING_KEYED;
	return probe->wants_return ? RING_CALL : RING_WHOLE;
}

/* What is known of its records without the code. `probe` is as it captures here; NULL at returns.
 */
static void describe(struct trampoline_set *set, uint32_t number, const struct probe *probe)
{
	struct trampoline_place *place = &set->places[number];

	place->made = true;
	place->has_words = place->layout.items || place->layout.offset[FIELD_STACK];
	place->hit.fields = place->capture.fields;
	index_fields(place);
	place->shape = (struct ring_shape){
		.size = (uint16_t)place->layout.size,
		.items = place->layout.items ? CAPTURE_MAX_ITEMS : 0,
		.role = role_of(place, probe),
	};
	set->writers[number] = (struct probe_writer){.ref = place->ref, .index = place->index};
	if (probe) {
		set->writers[number].plan = probe->plan;
		set->writers[number].family = probe->family;
	}
}

static struct trampoline_spec spec_of(const struct trampoline_set *set, uint32_t number,
				      uint64_t gva)
{
	const struct trampoline_place *place = &set->places[number];

	return (struct trampoline_spec){.gva = gva,
					.capture = place->capture,
					.id = number,
					.rings = set->room.rings,
					.kernel = &set->kernel,
					.saved_arrays = set->room.saved_arrays,
					.pids = set->room.pids,
					.next = place->next,
					.epilogue = &place->epilogue,
					.full = set->room.full};
}

/* What has no room is counted all the same: an error says how many bytes all of it takes. */
static void put_code(const struct maker *m, const struct trampoline *code)
{
	const size_t at = m->set->code_bytes;

	if (at <= m->room->size && code->size <= m->room->size - at)
		memcpy(m->room->bytes + at, code->bytes, code->size);
	m->set->code_bytes += (code->size + CODE_ALIGN - 1) & ~(size_t)(CODE_ALIGN - 1);
}

/* Writes the code of one place, of which capture and `next` are known. */
static int add_code(const struct maker *m, uint32_t number, struct error *err)
{
	struct trampoline_place *place = &m->set->places[number];
	struct trampoline_spec spec = spec_of(m->set, number, m->room->gva + m->set->code_bytes);
	struct trampoline code;
	uint32_t *slot;
	int ret = trampoline_generate(&spec, m->decoder, &code, err);

	if (ret)
		return ret;
	slot = u64_map_insert(&m->set->by_trap, spec.gva + code.slow.trap, NULL);
	if (!slot)
		return error_set(err, ENOMEM, "out of memory");
	*slot = number;
	put_code(m, &code);
	place->gva = spec.gva;
	place->retry = spec.gva + code.slow.retry;
	place->skip = spec.gva + code.slow.skip;
	place->layout = code.layout;
	describe(m->set, number, place->ref ? place->ref->probe : NULL);
	m->set->shapes[number] = place->shape;
	m->set->made++;
	return 0;
}

static void set_jump(struct patch *patch, uint64_t target)
{
	int32_t distance = (int32_t)(target - (patch->gva + JMP_SIZE));

	patch->trap = false;
	patch->new_bytes[0] = 0xe9;
	memcpy(patch->new_bytes + 1, &distance, sizeof(distance));
}

static int make_entry(const struct maker *m, uint32_t number, const struct probe_ref *ref,
		      struct patch *patch, struct error *err)
{
	struct trampoline_place *place = &m->set->places[number];
	int ret;

	*place = (struct trampoline_place){
		.ref = ref, .capture = ref->probe->entry, .next = patch->gva + SITE_SIZE};
	ret = add_code(m, number, err);
	if (!ret)
		set_jump(patch, place->gva);
	return ret;
}

static int make_return(const struct maker *m, uint32_t number, const struct trap *trap,
		       struct patch *patch, struct error *err)
{
	struct trampoline_place *place = &m->set->places[number];
	int ret;

	if (patch->size < JMP_SIZE)
		return 0;
	*place = (struct trampoline_place){
		.capture = trap->capture, .next = trap->thunk, .epilogue = trap->epilogue};
	ret = add_code(m, number, err);
	if (!ret)
		set_jump(patch, place->gva);
	return ret;
}

static int make_all(const struct maker *m, struct patch_plan *plan, const struct trap_table *traps,
		    struct error *err)
{
	uint32_t number = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < plan->entries.n; i++) {
		const struct trap *trap = trap_table_find(traps, plan->entries.v[i].gva);

		ret = make_entry(m, number++, trap->ref, &plan->entries.v[i], err);
	}
	for (size_t i = 0; !ret && i < plan->returns.n; i++)
		ret = make_return(m, number++, trap_table_find(traps, plan->returns.v[i].gva),
				  &plan->returns.v[i], err);
	if (!ret && m->set->code_bytes > m->room->size)
		return error_set(err, ENOSPC, "the trampolines take %zu bytes, %zu are the most",
				 m->set->code_bytes, m->room->size);
	return ret;
}

/* All lookups of a guest give the same facts: any will do. NULL: no capture needs them. */
static const struct page_lookup *find_lookup(const struct patch_plan *plan)
{
	const struct page_lookup *found = NULL;

	for (size_t i = 0; !found && i < plan->nr_refs; i++) {
		const struct probe *probe = plan->refs[i].probe;

		found = probe->entry.pages ? probe->entry.pages : probe->ret.pages;
	}
	return found;
}

static int find_pages(const struct patch_plan *plan, struct trampoline_kernel *out,
		      struct error *err)
{
	const struct page_lookup *lookup = find_lookup(plan);
	struct slab_page_facts page;
	int ret = lookup ? lookup->facts(lookup->arg, &page, err) : 0;

	if (ret || !lookup)
		return ret;
	out->page_offset = page.page_offset;
	out->vmemmap = page.vmemmap;
	out->pages = page.pages < INT32_MAX ? page.pages : INT32_MAX;
	out->page_size = page.page_size;
	out->page_compound_head = page.compound_head;
	out->page_lowest_mask = (int32_t)page.lowest_mask;
	out->page_slab_cache = page.slab_cache;
	out->page_flags = page.flags;
	out->page_head_bit = page.head_bit;
	out->page_order = page.order_offset;
	out->slab = (struct slab_test){page.slab_offset, page.slab_mask, page.slab_value};
	return 0;
}

int trampoline_set_make(struct trampoline_set *set, struct patch_plan *plan,
			const struct trap_table *traps, struct decoder *decoder,
			const struct trampoline_room *room, struct error *err)
{
	struct maker maker = {set, decoder, room};
	size_t n = plan->entries.n + plan->returns.n, all = n * PROBE_VIEWS;
	int ret;

	*set = (struct trampoline_set){
		.n = n, .nr_views = 1, .room = *room, .kernel = *room->kernel};
	set->views[0].number = plan->view;
	set->views[0].open = true;
	if (all >= RING_COMMITTED)
		return error_set(err, E2BIG, "%zu places are too many for trampolines", n);
	u64_map_init(&set->by_trap, sizeof(uint32_t));
	set->places = calloc(all + 1, sizeof(*set->places));
	set->shapes = calloc(all + 1, sizeof(*set->shapes));
	set->writers = calloc(all + 1, sizeof(*set->writers));
	if (!set->places || !set->shapes || !set->writers) {
		trampoline_set_deinit(set);
		return error_set(err, ENOMEM, "out of memory");
	}
	memset(room->bytes, INT3, room->size);
	ret = find_pages(plan, &set->kernel, err);
	if (!ret)
		ret = make_all(&maker, plan, traps, err);
	if (ret) {
		patch_plan_use_traps(plan);
		trampoline_set_deinit(set);
	}
	return ret;
}

/* --- further views --------------------------------------------------------------------------- */

static int add_place(struct trampoline_set *set, const struct patch_plan *plan,
		     const struct probe_view *view, uint32_t first, uint32_t number,
		     struct error *err)
{
	const struct trampoline_place *base = &set->places[number];
	struct trampoline_place *place = &set->places[first + number];
	const struct probe *probe = base->ref ? view->probes[base->ref->id] : NULL;
	int ret;

	if (!base->made)
		return 0;
	*place = (struct trampoline_place){
		.ref = base->ref, .next = base->next, .epilogue = base->epilogue};
	if (probe)
		place->capture = probe->entry;
	else
		place->capture = patch_plan_return_capture(
			plan, plan->returns.v[number - plan->entries.n].gva, view->probes);
	ret = record_layout(&place->capture, &place->layout, err);
	if (!ret)
		describe(set, first + number, probe);
	return ret;
}

static size_t find_view(const struct trampoline_set *set, unsigned int number)
{
	size_t i = 0;

	while (i < set->nr_views && set->views[i].number != number)
		i++;
	return i;
}

int trampoline_set_add_view(struct trampoline_set *set, const struct patch_plan *plan,
			    const struct probe_view *view, size_t *out, struct error *err)
{
	const size_t i = find_view(set, view->number);
	int ret = 0;

	*out = i;
	if (i < set->nr_views && set->views[i].open)
		return 0;
	for (uint32_t k = 0; !ret && k < set->n; k++)
		ret = add_place(set, plan, view, (uint32_t)trampoline_set_number(set, i, 0), k,
				err);
	if (ret || i < set->nr_views)
		return ret;
	set->views[i].number = view->number;
	set->nr_views++;
	return 0;
}

void trampoline_set_open_view(struct trampoline_set *set, size_t index)
{
	if (set->views[index].open)
		return;
	for (size_t i = 0; i < set->n; i++) {
		const size_t number = trampoline_set_number(set, index, i);

		ring_shape_write(&set->shapes[number], &set->places[number].shape);
	}
	set->views[index].open = true;
}

int trampoline_set_extend(const struct trampoline_set *set, uint32_t number,
			  const struct direct_spec *records, size_t n, uint64_t gva,
			  const struct trampoline_kernel *task, struct decoder *decoder,
			  struct trampoline *out, struct error *err)
{
	struct trampoline_kernel kernel = set->kernel;
	struct trampoline_spec spec = spec_of(set, number, gva);

	kernel.current_task = task->current_task;
	kernel.task_pid = task->task_pid;
	kernel.task_tgid = task->task_tgid;
	kernel.task_comm = task->task_comm;
	memcpy(kernel.cgroup_path, task->cgroup_path, sizeof(kernel.cgroup_path));
	kernel.task_stack = task->task_stack;
	kernel.stack_bytes = task->stack_bytes;
	kernel.user_regs = task->user_regs;
	spec.kernel = &kernel;
	spec.extra = records;
	spec.nr_extra = n;
	return trampoline_generate(&spec, decoder, out, err);
}

void trampoline_set_deinit(struct trampoline_set *set)
{
	free(set->places);
	free(set->shapes);
	free(set->writers);
	u64_map_deinit(&set->by_trap);
	*set = (struct trampoline_set){0};
}

const struct trampoline_place *trampoline_set_at(const struct trampoline_set *set, uint64_t gva)
{
	const uint32_t *number = u64_map_find(&set->by_trap, gva);

	return number ? &set->places[*number] : NULL;
}

static const uint64_t *words_at(const struct ring_taken *taken, uint16_t offset)
{
	return taken->fields + (offset - sizeof(struct ring_record)) / sizeof(uint64_t);
}

static void read_words(struct trampoline_place *place, const struct ring_taken *taken)
{
	if (place->layout.offset[FIELD_STACK]) {
		place->hit.stack = words_at(taken, place->layout.offset[FIELD_STACK]);
		place->hit.nr_stack = place->capture.stack_words;
	}
	if (place->layout.items) {
		place->hit.items = words_at(taken, place->layout.items);
		place->hit.nr_items = taken->items;
	}
}

struct probe_hit *trampoline_read(struct trampoline_place *place, const struct ring_taken *taken)
{
	uint64_t *const words = &place->hit.key;

	for (uint32_t left = place->fields; left; left &= left - 1) {
		int field = __builtin_ctz(left);

		words[probe_hit_index[field]] =
			__atomic_load_n(&taken->fields[place->index[field]], __ATOMIC_RELAXED);
	}
	if (place->fields & CAPTURE(FIELD_COMM))
		place->hit.comm[1] = __atomic_load_n(&taken->fields[place->index[FIELD_COMM] + 1],
						     __ATOMIC_RELAXED);
	place->hit.key += RECORD_KEY_BIAS;
	if (place->layout.offset[FIELD_CHAIN])
		place->hit.chain =
			(struct probe_chain){.at = taken->fields + place->index[FIELD_CHAIN],
					     .words = place->capture.chain_words};
	if (place->has_words)
		read_words(place, taken);
	return &place->hit;
}

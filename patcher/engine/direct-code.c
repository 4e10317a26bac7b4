/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code of the direct lane: made for a change, found again in later ones, dropped. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/tasks/task-reader.h"
#include "patcher/engine/ring-internal.h"

enum {
	TASK_TRIES = 100, /* to find each vCPU with a task that runs ... */
	TASK_WAIT_MS = 1,
};

struct maker {
	struct ring_engine *x;
	struct direct_use use;
	struct direct_spec records[DIRECT_MAX_RECORDS];
	struct count_spec counts[DIRECT_MAX_RECORDS];
	struct hist_spec hists[DIRECT_MAX_RECORDS];
	int groups[DIRECT_MAX_RECORDS];
	size_t n;
	struct direct_piece *piece;
	const struct direct_piece *next; /* of a bell: where it leads; NULL: it returns */
	struct shared_code shared;
	struct trampoline trampoline;
};

static void add_slow(struct maker *m, uint64_t gva, const struct slow_path *slow, int group)
{
	struct direct_piece *p = m->piece;

	p->slow[p->nr_slow].trap = gva + slow->trap;
	p->slow[p->nr_slow].slow = (struct direct_slow){gva + slow->retry, gva + slow->skip, group};
	p->nr_slow++;
}

static void set_piece(struct maker *m, uint64_t gva, uint32_t size, const struct slow_path *slow)
{
	m->piece->gva = gva;
	m->piece->size = size;
	m->piece->nr_slow = 0;
	for (size_t i = 0; i < m->n; i++)
		if (!m->records[i].count && !m->records[i].hist)
			add_slow(m, gva, &slow[i], m->groups[i]);
}

static int write_shared(void *arg, uint64_t gva, uint8_t *bytes, struct error *err)
{
	struct maker *m = arg;
	const struct shared_spec spec = {.gva = gva,
					 .records = m->records,
					 .nr_records = m->n,
					 .kernel = &m->x->facts,
					 .point = m->use.place == DIRECT_SLOT ? POINT_RETURN
									      : POINT_ENTRY,
					 .next = m->use.next};
	int ret = shared_generate(&spec, m->x->config.decoder, &m->shared, err);

	if (ret)
		return ret;
	memcpy(bytes, m->shared.bytes, m->shared.size);
	set_piece(m, gva, m->shared.size, m->shared.slow);
	return m->shared.size;
}

static int write_inside(void *arg, uint64_t gva, uint8_t *bytes, struct error *err)
{
	struct maker *m = arg;
	const struct inside_spec spec = {.gva = gva,
					 .records = m->records,
					 .nr_records = m->n,
					 .kernel = &m->x->facts,
					 .insn = &m->use.insn};
	int ret = inside_generate(&spec, m->x->config.decoder, &m->shared, err);

	if (ret)
		return ret;
	memcpy(bytes, m->shared.bytes, m->shared.size);
	set_piece(m, gva, m->shared.size, m->shared.slow);
	return m->shared.size;
}

static int write_private(void *arg, uint64_t gva, uint8_t *bytes, struct error *err)
{
	struct maker *m = arg;
	struct trampoline *t = &m->trampoline;
	const struct trampoline_set *set = &m->x->set;
	const size_t number = trampoline_set_number(set, m->use.view_index, (size_t)m->use.place);
	int ret = trampoline_set_extend(set, (uint32_t)number, m->records, m->n, gva, &m->x->facts,
					m->x->config.decoder, t, err);

	if (ret)
		return ret;
	memcpy(bytes, t->bytes, t->size);
	set_piece(m, gva, t->size, t->extra);
	add_slow(m, gva, &t->slow, -1);
	return t->size;
}

/* The vCPU goes on behind the OUT. */
static int write_bell(void *arg, uint64_t gva, uint8_t *bytes, struct error *err)
{
	static const uint8_t out[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};
	enum { JMP = 0xe9, RET = 0xc3, JMP_SIZE = 5 };
	struct maker *m = arg;
	struct direct_piece *p = m->piece;
	int32_t distance = m->next ? (int32_t)(m->next->gva - (gva + sizeof(out) + JMP_SIZE)) : 0;

	(void)err;
	memcpy(bytes, out, sizeof(out));
	bytes[sizeof(out)] = m->next ? JMP : RET;
	if (m->next)
		memcpy(bytes + sizeof(out) + 1, &distance, sizeof(distance));
	p->gva = gva;
	p->size = sizeof(out) + (m->next ? JMP_SIZE : 1);
	p->slow[0].trap = gva;
	p->slow[0].slow = (struct direct_slow){gva + sizeof(out), gva + sizeof(out), DIRECT_BELL};
	p->nr_slow = 1;
	return (int)p->size;
}

/* In the rings of the first group, which are as large as all others. */
static uint64_t fetching_at(const struct ring_engine *x)
{
	return ring_engine_rings(x, 0).gva + offsetof(struct ring_header, fetching);
}

static void list_record(struct maker *m, unsigned int id)
{
	const struct direct_slot *slot = &m->x->direct.slots[id];
	struct direct_spec *record = &m->records[m->n];

	m->groups[m->n] = (int)slot->group;
	*record = (struct direct_spec){.id = id,
				       .fields = slot->want.fields,
				       .rings = ring_engine_rings(m->x, (int)slot->group),
				       .full = m->x->full,
				       .gate = slot->want.gate,
				       .fetch = slot->want.fetch,
				       .fetching = m->piece->guarded ? fetching_at(m->x) : 0};
	if (slot->want.profile) {
		m->counts[m->n] = direct_count_spec(m->x, &slot->want, &m->use);
		record->count = &m->counts[m->n];
	}
	if (slot->want.hist) {
		m->hists[m->n] =
			(struct hist_spec){slot->want.program, hist_layout_of(slot->want.hist)};
		record->hist = &m->hists[m->n];
	}
	m->n++;
}

static void list_records(struct maker *m)
{
	m->n = 0;
	for (uint32_t left = m->use.mask; left; left &= left - 1)
		list_record(m, (unsigned int)__builtin_ctz(left));
}

static int add_piece(struct direct_lane *lane, struct direct_piece **out, struct error *err)
{
	size_t room = lane->room ? 2 * lane->room : 64;
	struct direct_piece **pieces = lane->pieces;

	if (lane->nr_pieces == lane->room) {
		pieces = realloc(pieces, room * sizeof(struct direct_piece *));
		if (!pieces)
			return error_set(err, ENOMEM, "out of memory");
		lane->pieces = pieces;
		lane->room = room;
	}
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return error_set(err, ENOMEM, "out of memory");
	lane->pieces[lane->nr_pieces++] = *out;
	return 0;
}

void direct_drop_piece(struct direct_lane *lane, size_t i)
{
	struct direct_piece *p = lane->pieces[i];

	if (p->gva)
		code_arena_remove(&lane->arena, p->gva);
	free(p);
	lane->pieces[i] = lane->pieces[--lane->nr_pieces];
}

static int add_code(struct maker *m, struct error *err)
{
	struct direct_lane *lane = &m->x->direct;
	code_write_fn *write = m->use.place == DIRECT_BELL     ? write_bell
			       : m->use.place == DIRECT_INSIDE ? write_inside
			       : m->use.place < 0              ? write_shared
							       : write_private;
	unsigned int tries = 0;
	uint64_t gva;
	int ret;

	list_records(m);
	do
		ret = code_arena_add(&lane->arena, write, m, TRAMPOLINE_MAX, &gva,
				     &m->piece->reused, err);
	while (ret == -ENOSPC && direct_wait_freed(m->x, &tries));
	if (ret)
		m->piece->gva = 0;
	return ret;
}

/* What a bell leads to. */
static struct direct_use behind(const struct direct_use *bell)
{
	return (struct direct_use){.mask = bell->mask, .place = DIRECT_NO_PLACE};
}

static int make_piece(struct ring_engine *x, const struct direct_use *use,
		      const struct direct_piece **out, struct error *err)
{
	const struct direct_use next = behind(use);
	struct maker *m = calloc(1, sizeof(*m));
	int ret =
		m ? add_piece(&x->direct, &m->piece, err) : error_set(err, ENOMEM, "out of memory");

	if (!ret) {
		m->x = x;
		m->use = *use;
		*m->piece = (struct direct_piece){.use = *use,
						  .state = DIRECT_NEW,
						  .used = true,
						  .guarded = x->direct.next_guarded};
		*out = m->piece;
		if (use->place == DIRECT_BELL && use->mask)
			ret = direct_find_piece(x, &next, &m->next, err);
		if (!ret)
			ret = add_code(m, err);
	}
	free(m);
	return ret;
}

static bool is_for(const struct direct_piece *p, const struct direct_use *use, bool guarded)
{
	return (p->state == DIRECT_LIVE || p->state == DIRECT_NEW) &&
	       (p->guarded == guarded || !use->mask) && p->use.mask == use->mask &&
	       p->use.place == use->place && p->use.view_index == use->view_index &&
	       p->use.next == use->next &&
	       (use->place != DIRECT_INSIDE ||
		!memcmp(&p->use.insn, &use->insn, sizeof(use->insn)));
}

int direct_find_piece(struct ring_engine *x, const struct direct_use *use,
		      const struct direct_piece **out, struct error *err)
{
	struct direct_lane *lane = &x->direct;
	const struct direct_use next = behind(use);
	const struct direct_piece *leads_to; /* it is used as long as the bell */

	for (size_t i = 0; i < lane->nr_pieces; i++) {
		struct direct_piece *p = lane->pieces[i];

		if (!is_for(p, use, lane->next_guarded))
			continue;
		p->used = true;
		*out = p;
		return use->place == DIRECT_BELL && use->mask
			       ? direct_find_piece(x, &next, &leads_to, err)
			       : 0;
	}
	return make_piece(x, use, out, err);
}

void direct_mark_used(struct direct_lane *lane, bool used)
{
	for (size_t i = 0; i < lane->nr_pieces; i++)
		lane->pieces[i]->used = used && lane->pieces[i]->state == DIRECT_LIVE;
}

uint32_t direct_used_slots(const struct direct_lane *lane)
{
	uint32_t slots = 0;

	for (size_t i = 0; i < lane->nr_pieces; i++)
		if (lane->pieces[i]->used)
			slots |= lane->pieces[i]->use.mask;
	return slots;
}

int direct_renew_code(struct ring_engine *x, struct error *err)
{
	const struct guest_scratch_ops *scratch = x->guest->scratch;
	int ret = 0;

	for (size_t i = 0; scratch->renew && !ret && i < x->direct.nr_pieces; i++) {
		const struct direct_piece *p = x->direct.pieces[i];
		const uint64_t offset = p->gva - x->mapping.gva;
		const struct guest_region code = {.gpa = x->scratch.gpa + offset,
						  .size = p->size,
						  .hva = x->scratch.hva + offset};

		if (p->state == DIRECT_NEW && p->reused)
			ret = scratch->renew(x->guest, &code, err);
	}
	return ret;
}

/* --- slow paths ------------------------------------------------------------------------------ */

const struct direct_slow *direct_slow_at(const struct ring_engine *x, uint64_t gva)
{
	return u64_map_find(&x->direct.by_trap, gva);
}

int direct_publish_traps(struct direct_lane *lane, struct error *err)
{
	for (size_t i = 0; i < lane->nr_pieces; i++) {
		const struct direct_piece *p = lane->pieces[i];

		for (unsigned int k = 0; p->state == DIRECT_NEW && k < p->nr_slow; k++) {
			struct direct_slow *slow =
				u64_map_insert(&lane->by_trap, p->slow[k].trap, NULL);

			if (!slow)
				return error_set(err, ENOMEM, "out of memory");
			*slow = p->slow[k].slow;
		}
	}
	return 0;
}

void direct_forget_traps(struct direct_lane *lane, const struct direct_piece *p)
{
	for (unsigned int k = 0; k < p->nr_slow; k++)
		u64_map_remove(&lane->by_trap, p->slow[k].trap);
}

void direct_forget_new_traps(struct direct_lane *lane)
{
	for (size_t i = 0; i < lane->nr_pieces; i++)
		if (lane->pieces[i]->state == DIRECT_NEW)
			direct_forget_traps(lane, lane->pieces[i]);
}

void direct_forget_code(struct direct_lane *lane)
{
	for (size_t i = 0; i < lane->nr_pieces; i++)
		free(lane->pieces[i]);
	free(lane->pieces);
	lane->pieces = NULL;
	lane->nr_pieces = lane->room = 0;
	u64_map_deinit(&lane->by_trap);
	u64_map_init(&lane->by_trap, sizeof(struct direct_slow));
	code_arena_deinit(&lane->arena);
}

/* --- where code finds the task ---------------------------------------------------------------- */

_Static_assert((int)DIRECT_PID == EVENT_TASK_PID && (int)DIRECT_TGID == EVENT_TASK_TGID &&
		       (int)DIRECT_COMM == EVENT_TASK_COMM &&
		       (int)DIRECT_CGROUP == EVENT_TASK_CGROUP &&
		       (int)DIRECT_STACK == EVENT_TASK_STACK,
	       "the task's fields by their bits");

/* enum event_task_fields */
static uint32_t wanted_of_task(const struct direct_change *change)
{
	uint32_t wanted = 0;

	for (size_t i = 0; i < change->nr_wants; i++) {
		const struct direct_want *want = &change->wants[i];

		wanted |= want->fields & DIRECT_TASK_FIELDS;
		wanted |= want->gate ? gate_task_fields(want->gate) : 0;
	}
	return wanted;
}

/* All captures that have some agree. */
uint32_t direct_view_task_fields(const struct ring_engine *x, const struct probe_view *view)
{
	const struct task_places *places = NULL;

	for (size_t i = 0; view && !places && i < x->config.plan->nr_refs; i++)
		places = view->probes[i]->entry.task ? view->probes[i]->entry.task
						     : view->probes[i]->ret.task;
	return places ? places->fields : 0;
}

/* What is known by the image is checked on each vCPU. */
static int read_task(struct ring_engine *x, uint32_t fields, struct error *err)
{
	struct task_places places;
	struct percpu_task task;
	int ret = task_places_find(x->kernel, fields & ~(uint32_t)EVENT_TASK_STACK, &places, err);

	if (!ret)
		ret = x->guest->control->stop(x->guest, err);
	if (ret)
		return ret;
	ret = percpu_current_task(x->kernel, &task, err);
	x->guest->control->resume(x->guest, NULL);
	if (ret)
		return ret;
	x->facts.current_task = task.displacement;
	x->facts.task_pid = task.pid;
	x->facts.task_comm = task.comm;
	if (fields & EVENT_TASK_TGID)
		x->facts.task_tgid = places.tgid;
	if (fields & EVENT_TASK_CGROUP)
		memcpy(x->facts.cgroup_path, places.cgroup_path, sizeof(x->facts.cgroup_path));
	x->direct.task_fields |= EVENT_TASK_PID | EVENT_TASK_COMM | EVENT_TASK_STACK | fields;
	return 0;
}

/* A vCPU may be between two tasks. */
static int find_task(struct ring_engine *x, uint32_t fields, struct error *err)
{
	int ret = -EAGAIN;

	for (int i = 0; i < TASK_TRIES; i++) {
		ret = read_task(x, fields, err);
		if (ret != -EAGAIN)
			break;
		clock_wait_ms(TASK_WAIT_MS);
	}
	if (ret)
		error_prefix(err, "tasks cannot be recorded: ");
	return ret;
}

int direct_find_tasks(struct ring_engine *x, const struct direct_change *change, struct error *err)
{
	const uint32_t fields = wanted_of_task(change) | direct_view_task_fields(x, change->view);

	return fields & ~x->direct.task_fields ? find_task(x, fields, err) : 0;
}

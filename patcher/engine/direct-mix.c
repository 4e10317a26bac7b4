/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that several slots have written in turn, as a graph's entries and returns: those of one
 * sink become events at once, field by field, and go to it in their order. */
#include <string.h>
#include "patcher/engine/ring-internal.h"

enum {
	MIX_PARTS = 4, /* slots of one sink; of more the records go one by one */
	MIX_MAX_STRIDE = DIRECT_EVENTS_BYTES / DIRECT_BATCH,
};

_Static_assert((int)DIRECT_MIXED_IDS >= (int)DIRECT_MAX, "records of all slots are mixed");
_Static_assert(DIRECT_BATCH <= UINT8_MAX + 1, "a byte has a record's number");

/* Mixed records, by number. */
struct mixed {
	size_t n;
	const uint8_t *ids;
	const uint8_t *const *at;
	const int64_t *ns;
	const uint64_t *ip;
};

/* Some of them. */
struct picked {
	uint8_t ids[DIRECT_BATCH];
	const uint8_t *at[DIRECT_BATCH];
	int64_t ns[DIRECT_BATCH];
	uint64_t ip[DIRECT_BATCH];
};

/* Events that are made of them; a part is what a slot has. */
struct mix {
	size_t stride, nr_parts;
	uint8_t part_of[DIRECT_MAX];
	uint32_t ids[MIX_PARTS];
	uint8_t class_of[MIX_PARTS];
	size_t n[MIX_PARTS];
	uint8_t numbers[MIX_PARTS][DIRECT_BATCH]; /* of its records */
	uint8_t classes[DIRECT_BATCH];
	_Alignas(uint64_t) uint8_t events[DIRECT_EVENTS_BYTES];
};

static const struct direct_slot *slot_of(const struct direct_drained *d, uint32_t id)
{
	return &d->x->direct.slots[id];
}

/* --- which records go together ---------------------------------------------------------------- */

static bool have_same_sink(const struct direct_want *a, const struct direct_want *b,
			   unsigned int vcpu)
{
	return a->output == b->output && a->sinks[vcpu] == b->sinks[vcpu];
}

/* Of these slots, those whose events go where the first one's go. */
static uint32_t with_first(const struct direct_drained *d, uint32_t slots)
{
	const struct direct_want *first = &slot_of(d, (uint32_t)__builtin_ctz(slots))->want;
	uint32_t same = 0;

	for (uint32_t left = slots; left; left &= left - 1)
		if (have_same_sink(first, &slot_of(d, (uint32_t)__builtin_ctz(left))->want,
				   d->vcpu))
			same |= left & -left;
	return same;
}

static bool is_plain(const struct direct_slot *slot)
{
	const struct direct_plan *plan = &slot->plan;

	return !slot->want.filter && slot->want.output->put_mix &&
	       !(slot->want.fields & DIRECT_STACK) && !plan->nr_strings && !plan->nr_texts &&
	       plan->stride <= MIX_MAX_STRIDE;
}

static bool are_plain(const struct direct_drained *d, uint32_t slots)
{
	for (uint32_t left = slots; left; left &= left - 1)
		if (!is_plain(slot_of(d, (uint32_t)__builtin_ctz(left))))
			return false;
	return __builtin_popcount(slots) <= MIX_PARTS;
}

/* The records of these slots. */
static void pick(struct mixed *mixed, uint32_t slots, struct picked *to)
{
	size_t n = 0;

	for (size_t i = 0; i < mixed->n; i++) {
		if (!(slots >> mixed->ids[i] & 1))
			continue;
		to->ids[n] = mixed->ids[i];
		to->at[n] = mixed->at[i];
		to->ns[n] = mixed->ns[i];
		to->ip[n++] = mixed->ip[i];
	}
	*mixed = (struct mixed){n, to->ids, to->at, to->ns, to->ip};
}

/* --- at once ---------------------------------------------------------------------------------- */

static void begin_mix(struct mix *mix, const struct direct_drained *d, uint32_t slots)
{
	/* the rest is written before it is read */
	mix->stride = 0;
	mix->nr_parts = 0;
	for (uint32_t left = slots; left; left &= left - 1) {
		const uint32_t id = (uint32_t)__builtin_ctz(left);
		const struct direct_slot *slot = slot_of(d, id);

		mix->part_of[id] = (uint8_t)mix->nr_parts;
		mix->ids[mix->nr_parts] = id;
		mix->class_of[mix->nr_parts] = (uint8_t)slot->want.class;
		mix->nr_parts++;
		if (mix->stride < slot->plan.stride)
			mix->stride = slot->plan.stride;
	}
}

/* To each part the numbers of its records, to the events their classes. */
static void divide(struct mix *mix, const struct mixed *mixed)
{
	const uint8_t *const ids = mixed->ids;
	const size_t nr_records = mixed->n;
	size_t n[MIX_PARTS] = {0};

	for (size_t i = 0; i < nr_records; i++) {
		const size_t part = mix->part_of[ids[i]];

		mix->numbers[part][n[part]++] = (uint8_t)i;
		mix->classes[i] = mix->class_of[part];
	}
	memcpy(mix->n, n, sizeof(n));
}

/* The first member of a part's events. */
static void put_ips(struct mix *mix, size_t part, const struct mixed *mixed)
{
	for (size_t i = 0; i < mix->n[part]; i++) {
		const size_t number = mix->numbers[part][i];

		memcpy(mix->events + number * mix->stride, &mixed->ip[number],
		       sizeof(mixed->ip[number]));
	}
}

static void read_part(const struct direct_slot *slot, struct mix *mix, size_t part,
		      const struct mixed *mixed)
{
	const struct direct_places places = {mix->numbers[part], mix->n[part], mixed->at,
					     mix->events, mix->stride};

	/* returns have none */
	if (slot->want.point != POINT_RETURN)
		put_ips(mix, part, mixed);
	direct_read_places(&slot->plan, &places);
}

static void put_at_once(struct direct_drained *d, const struct mixed *mixed, uint32_t slots)
{
	const struct direct_want *want = &slot_of(d, (uint32_t)__builtin_ctz(slots))->want;
	struct event_mix events;
	struct mix mix;

	begin_mix(&mix, d, slots);
	divide(&mix, mixed);
	for (size_t part = 0; part < mix.nr_parts; part++) {
		read_part(slot_of(d, mix.ids[part]), &mix, part, mixed);
		direct_count(d, mix.ids[part], mix.n[part]);
	}
	events = (struct event_mix){.n = mixed->n,
				    .classes = mix.classes,
				    .ns = mixed->ns,
				    .ns_stride = sizeof(*mixed->ns),
				    .bytes = mix.events,
				    .stride = mix.stride};
	want->output->put_mix(&d->events, want->sinks[d->vcpu], &events);
}

/* --- one by one ------------------------------------------------------------------------------- */

static void put_each(struct direct_drained *d, const struct direct_run *records, uint32_t slots)
{
	for (size_t i = 0; i < records->n; i++) {
		const uint32_t id = records->ids[i];
		const struct direct_run one = {.id = id,
					       .size = d->x->direct.shapes[id].size,
					       .n = 1,
					       .first = records->at[i],
					       .ns = records->ns + i,
					       .ip = records->ip + i};

		if (slots >> id & 1)
			direct_put_run(d, &one);
	}
}

/* The order of events of different sinks means nothing. */
void direct_put_mixed(struct direct_drained *d, const struct direct_run *records)
{
	struct mixed mixed;
	struct picked picked;
	uint32_t slots;

	for (uint32_t left = records->mask; left; left &= ~slots) {
		slots = with_first(d, left);
		if (!are_plain(d, slots)) {
			put_each(d, records, slots);
			continue;
		}
		mixed = (struct mixed){records->n, records->ids, records->at, records->ns,
				       records->ip};
		if (slots != records->mask)
			pick(&mixed, slots, &picked);
		put_at_once(d, &mixed, slots);
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/probe.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { ITEMS_BYTES = 8 * CAPTURE_MAX_ITEMS };

static const uint32_t all_args = CAPTURE(FIELD_ARG0) | CAPTURE(FIELD_ARG1) | CAPTURE(FIELD_ARG2) |
				 CAPTURE(FIELD_ARG3) | CAPTURE(FIELD_ARG4) | CAPTURE(FIELD_ARG5);

/* Whether the function has this argument, or may have it. */
static bool has_argument(const struct capture *c, unsigned int number)
{
	return number < CAPTURE_ARGUMENTS && (!c->parameters || number < c->parameters);
}

static const char *point_name(const struct capture *c)
{
	return c->point == POINT_ENTRY ? "entry" : "return";
}

static int check_items(const struct capture *c, struct error *err)
{
	const struct capture_items *i = &c->items;
	bool array = i->from == ITEMS_ARRAY, counted = i->from == ITEMS_COUNTED;
	bool returned = i->from == ITEMS_RETURNED;

	if (i->from == ITEMS_NONE)
		return 0;
	if (i->from > ITEMS_RETURNED || returned != (c->point == POINT_RETURN))
		return error_set(err, EINVAL, "a function's %s has no items of kind %d",
				 point_name(c), i->from);
	if (!has_argument(c, i->pointer) || !has_argument(c, i->count))
		return error_set(err, EINVAL, "the function has no arguments %u and %u for items",
				 i->pointer, i->count);
	if ((array && i->count_size != 4 && i->count_size != 0) ||
	    (counted && i->count_size != 4 && i->count_size != 1))
		return error_set(err, EINVAL, "a count of items cannot have %u bytes",
				 i->count_size);
	if (returned && i->page_orders)
		return error_set(err, EINVAL, "a function's return has no orders of pages");
	return 0;
}

static uint32_t possible_args(const struct capture *c)
{
	uint32_t possible = 0;

	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
		if (has_argument(c, i))
			possible |= CAPTURE(FIELD_ARG0 + i);
	return possible;
}

static int check(const struct capture *c, struct error *err)
{
	uint32_t possible = CAPTURE(FIELD_COUNT) - 1;

	if (c->point == POINT_ENTRY)
		possible &= ~(CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SLAB_CACHE)) &
			    ~(all_args & ~possible_args(c));
	else if (c->point == POINT_RETURN)
		possible &= ~all_args;
	else
		return error_set(err, EINVAL, "no trampoline is for point %d of a function",
				 c->point);
	if (c->items.from != ITEMS_RETURNED)
		possible &= ~CAPTURE(FIELD_SAVED);
	if (c->items.from != ITEMS_COUNTED)
		possible &= ~CAPTURE(FIELD_OWNER);
	if (c->fields & ~possible)
		return error_set(err, EINVAL, "a function's %s has no fields %#x", point_name(c),
				 c->fields & ~possible);
	if ((c->fields & CAPTURE(FIELD_STACK)) &&
	    (!c->stack_words || c->stack_words > CAPTURE_MAX_STACK))
		return error_set(err, EINVAL, "%u words of stack are too many or none: at most %d",
				 c->stack_words, CAPTURE_MAX_STACK);
	if ((c->fields & CAPTURE(FIELD_CHAIN)) &&
	    (!c->chain_words || c->chain_words > STACK_MAX_WORDS))
		return error_set(err, EINVAL, "a chain of %u words of stack is too long or empty",
				 c->chain_words);
	return check_items(c, err);
}

/* Words of a chain that begins at this byte of its record. */
static uint16_t chain_room(size_t offset, bool has_items)
{
	const size_t before = offset + offsetof(struct direct_stack, words);
	const size_t room =
		(RING_MAX_RECORD - before - (has_items ? ITEMS_BYTES : 0)) / sizeof(uint64_t);

	return room < STACK_MAX_WORDS ? (uint16_t)room : STACK_MAX_WORDS;
}

void capture_fit_chain(struct capture *c)
{
	struct record_layout layout;

	if (!(c->fields & CAPTURE(FIELD_CHAIN)))
		return;
	c->chain_words = 1;
	if (!record_layout(c, &layout, NULL))
		c->chain_words = chain_room(layout.offset[FIELD_CHAIN], layout.items);
}

void capture_merge_return(struct capture *to, const struct capture *from)
{
	to->fields |= from->fields;
	if (from->pages)
		to->pages = from->pages;
	if (from->task)
		to->task = from->task;
	if (from->items.from != ITEMS_NONE)
		to->items = from->items;
	capture_fit_chain(to);
}

static uint32_t field_size(const struct capture *c, enum record_field field)
{
	if (field == FIELD_COMM)
		return CAPTURE_COMM_SIZE;
	if (field == FIELD_STACK)
		return c->stack_words * 8u;
	if (field == FIELD_CHAIN)
		return (uint32_t)offsetof(struct direct_stack, words) + c->chain_words * 8u;
	return 8;
}

/* COMM takes two words; RESULT, SLAB_CACHE and KEPT are not at entries, six arguments not at
 * returns. */
_Static_assert(sizeof(struct ring_record) + 8 * (FIELD_STACK + 1 - 3) + 8 * CAPTURE_MAX_STACK <=
		       RING_MAX_ORDERED,
	       "every description without items fits a record");
_Static_assert(sizeof(struct ring_record) + 8 * (FIELD_STACK + 1 - 3) + ITEMS_BYTES <=
		       RING_MAX_ORDERED,
	       "and with items, but for a large slice of the stack");
_Static_assert(CAPTURE_ITEMS_PER_CALL % CAPTURE_MAX_ITEMS == 0, "a walk ends with a full record");

/* Of a record's fields and items. */
static uint32_t most_bytes(const struct capture *c)
{
	return c->fields & CAPTURE(FIELD_CHAIN) ? RING_MAX_RECORD : RING_MAX_ORDERED;
}

int record_layout(const struct capture *capture, struct record_layout *out, struct error *err)
{
	const uint32_t most = most_bytes(capture);
	int ret = check(capture, err);

	if (ret)
		return ret;
	memset(out, 0, sizeof(*out));
	out->size = sizeof(struct ring_record);
	for (unsigned int field = 0; field < FIELD_COUNT; field++) {
		if (!(capture->fields & CAPTURE(field)))
			continue;
		out->offset[field] = (uint16_t)out->size;
		out->size += field_size(capture, field);
	}
	if (out->size > most)
		return error_set(err, EINVAL, "fields of %u bytes do not fit into a record",
				 out->size);
	if (capture->items.from == ITEMS_NONE ||
	    (capture->items.from == ITEMS_SAVED && !capture->items.skip_filled))
		return 0;
	if (out->size + ITEMS_BYTES > most)
		return error_set(err, EINVAL, "%d items do not fit behind %u bytes of fields",
				 CAPTURE_MAX_ITEMS, out->size);
	out->items = (uint16_t)out->size;
	return 0;
}

#define IN_HIT(member) ((offsetof(struct probe_hit, member) - offsetof(struct probe_hit, key)) / 8)

const uint8_t probe_hit_index[FIELD_COUNT] = {
	[FIELD_KEY] = IN_HIT(key),       [FIELD_CALL_SITE] = IN_HIT(call_site),
	[FIELD_RESULT] = IN_HIT(result), [FIELD_ARG0] = IN_HIT(args[0]),
	[FIELD_ARG1] = IN_HIT(args[1]),  [FIELD_ARG2] = IN_HIT(args[2]),
	[FIELD_ARG3] = IN_HIT(args[3]),  [FIELD_ARG4] = IN_HIT(args[4]),
	[FIELD_ARG5] = IN_HIT(args[5]),  [FIELD_SLAB_CACHE] = IN_HIT(slab_cache),
	[FIELD_SAVED] = IN_HIT(saved),   [FIELD_OWNER] = IN_HIT(owner),
	[FIELD_PID] = IN_HIT(pid),       [FIELD_TGID] = IN_HIT(tgid),
	[FIELD_COMM] = IN_HIT(comm),     [FIELD_CGROUP] = IN_HIT(cgroup),
};

struct probe_chain probe_record_chain(const struct probe_record *record)
{
	const struct probe_hit *hit;
	size_t at;

	if (!(record->fields & CAPTURE(FIELD_CHAIN)))
		return (struct probe_chain){0};
	if (record->index == probe_hit_index) {
		hit = (const void *)((const uint8_t *)record->words -
				     offsetof(struct probe_hit, key));
		return hit->chain;
	}
	at = record->index[FIELD_CHAIN];
	return (struct probe_chain){
		.at = record->words + at,
		.words = chain_room(sizeof(struct ring_record) + at * sizeof(uint64_t), false)};
}

struct event_task probe_record_task(const struct probe_record *record)
{
	const uint32_t fields = record->fields;
	struct event_task task = {0};

	if (fields & CAPTURE(FIELD_PID))
		task.pid = (uint32_t)probe_record_word(record, FIELD_PID);
	if (fields & CAPTURE(FIELD_TGID))
		task.tgid = (uint32_t)probe_record_word(record, FIELD_TGID);
	if (fields & CAPTURE(FIELD_CGROUP))
		task.cgroup = probe_record_word(record, FIELD_CGROUP);
	for (size_t i = 0; fields & CAPTURE(FIELD_COMM) && i < CAPTURE_COMM_SIZE / 8; i++) {
		const uint64_t *at = &record->words[record->index[FIELD_COMM] + i];
		uint64_t word = __atomic_load_n(at, __ATOMIC_RELAXED);

		memcpy(task.comm + i * sizeof(word), &word, sizeof(word));
	}
	return task;
}

struct probe_record probe_record_of(const struct probe_hit *hit, struct probe_cpu *cpu)
{
	static const struct tsc_quick_clock in_ns = {
		.clock = {.mult = UINT32_C(1) << 31, .shift = 1}, .whole = 1, .most = INT64_MAX};

	*cpu = (struct probe_cpu){hit->vcpu, hit->batch, in_ns};
	return (struct probe_record){cpu, hit->time_ns, &hit->key, probe_hit_index, hit->fields};
}

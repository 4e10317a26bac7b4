/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the records of the direct lane to events. */
#include <stddef.h>
#include <string.h>
#include "formats/event/graph.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/probe/chain.h"
#include "patcher/text/site.h"

_Static_assert((int)SITE_SIZE == (int)DIRECT_SITE_BYTES, "records have the addresses of calls");

static void add(struct direct_plan *plan, enum direct_copy copy, size_t from, size_t to,
		int64_t bias)
{
	plan->columns[plan->nr_columns++] = (struct direct_column){
		.copy = copy, .from = (uint16_t)from, .to = (uint16_t)to, .bias = bias};
}

static void add_words(struct direct_plan *plan, size_t from, size_t to, size_t bytes)
{
	add(plan, DIRECT_COPY_WORDS, from, to, 0);
	plan->columns[plan->nr_columns - 1].words = (uint16_t)(bytes / sizeof(uint64_t));
}

/* Without a call chain, which is behind all others. */
static size_t event_size(const struct direct_want *want)
{
	if (want->fetch)
		return sizeof(struct function_event) + want->fetch->bytes +
		       (size_t)(want->fetch->nr_long_strings + want->fetch->nr_long_texts) *
			       FETCH_LONG_STRING;
	return want->fields & (DIRECT_FRAME | DIRECT_RESULT) ? sizeof(struct syscall_event)
							     : sizeof(struct function_event);
}

static size_t stack_size(const struct direct_want *want)
{
	return want->fields & DIRECT_STACK ? EVENT_STACK_WORDS * sizeof(uint64_t) : 0;
}

static void add_task(struct direct_plan *plan, uint32_t fields, const struct direct_layout *layout)
{
	if (fields & DIRECT_PID)
		add(plan, DIRECT_COPY_INT, layout->pid, offsetof(struct function_event, pid), 0);
	if (fields & DIRECT_TGID)
		add(plan, DIRECT_COPY_INT, layout->tgid, offsetof(struct function_event, tgid), 0);
	if (fields & DIRECT_COMM)
		add_words(plan, layout->comm, offsetof(struct function_event, comm),
			  DIRECT_COMM_SIZE);
	if (fields & DIRECT_CGROUP)
		add(plan, DIRECT_COPY_WORD, layout->cgroup, offsetof(struct function_event, cgroup),
		    0);
}

/* The class of the events has them behind all other values. */
static void add_strings(struct direct_plan *plan, const struct fetch_program *fetch,
			const struct direct_layout *layout)
{
	size_t to = sizeof(struct function_event) + fetch->bytes;

	plan->strings_at = layout->size;
	for (size_t i = 0; i < fetch->nr_args; i++) {
		const struct fetch_arg *arg = &fetch->args[i];
		const uint16_t from = (uint16_t)(layout->values + fetch_place(fetch, arg));

		if (fetch_is_long(arg))
			plan->strings[plan->nr_strings++] =
				(struct direct_string){from, (uint16_t)to};
		else if (fetch_is_long_text(arg))
			plan->texts[plan->nr_texts++] =
				(struct direct_text){from, (uint16_t)to, arg->count};
		else
			continue;
		to += FETCH_LONG_STRING;
	}
}

void direct_plan_make(struct direct_plan *plan, const struct direct_want *want,
		      const struct direct_layout *layout)
{
	const bool is_bare = !want->fields && !want->fetch;
	const size_t size = is_bare ? sizeof(uint64_t) : event_size(want);

	*plan = (struct direct_plan){.stride = (uint16_t)(size + stack_size(want)),
				     .stack = (uint16_t)size,
				     .is_bare = is_bare};
	plan->most = (uint16_t)(DIRECT_EVENTS_BYTES / plan->stride);
	if (want->fields & DIRECT_PARENT)
		add(plan, DIRECT_COPY_TEXT, layout->parent,
		    offsetof(struct function_event, parent_ip), 0);
	add_task(plan, want->fields, layout);
	if (want->fields & DIRECT_FRAME)
		add(plan, DIRECT_COPY_WORD, layout->frame, offsetof(struct graph_event, frame),
		    DIRECT_FRAME_BIAS);
	if (want->fields & DIRECT_RESULT)
		add(plan, DIRECT_COPY_WORD, layout->result, offsetof(struct graph_event, result),
		    0);
	if (want->fields & DIRECT_SYSCALL)
		add_words(plan, layout->syscall, offsetof(struct syscall_event, args),
			  sizeof(((struct syscall_event *)0)->args));
	if (want->fetch)
		add_words(plan, layout->values, sizeof(struct function_event), want->fetch->bytes);
	if (want->fetch)
		add_strings(plan, want->fetch, layout);
}

/* --- a field of a record; `from` is the guest's memory, read once -------------------------------
 */

static inline void copy_text(const uint8_t *from, uint8_t *to)
{
	int32_t low;
	int64_t address;

	memcpy(&low, from, sizeof(low));
	address = low;
	memcpy(to, &address, sizeof(address));
}

static inline void copy_int(const uint8_t *from, uint8_t *to)
{
	memcpy(to, from, sizeof(uint32_t));
}

static inline void copy_word(const uint8_t *from, uint8_t *to, int64_t bias)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	word += (uint64_t)bias;
	memcpy(to, &word, sizeof(word));
}

static inline void copy_words(const uint8_t *from, uint8_t *to, size_t n)
{
	for (size_t at = 0; at < n * sizeof(uint64_t); at += sizeof(uint64_t))
		memcpy(to + at, from + at, sizeof(uint64_t));
}

/* --- a column of a run ------------------------------------------------------------------------ */

/* Of `n` records, `size` bytes each. All are constants of the loop, which the events are not. */
static inline __attribute__((always_inline)) void copy_column(const struct direct_column *c,
							      const uint8_t *from, size_t n,
							      size_t size, uint8_t *to,
							      size_t stride)
{
	const enum direct_copy copy = c->copy;
	const size_t words = c->words;
	const int64_t bias = c->bias;

	if (copy == DIRECT_COPY_TEXT) {
		for (size_t i = 0; i < n; i++)
			copy_text(from + i * size, to + i * stride);
	} else if (copy == DIRECT_COPY_WORD) {
		for (size_t i = 0; i < n; i++)
			copy_word(from + i * size, to + i * stride, bias);
	} else if (copy == DIRECT_COPY_INT) {
		for (size_t i = 0; i < n; i++)
			copy_int(from + i * size, to + i * stride);
	} else {
		for (size_t i = 0; i < n; i++)
			copy_words(from + i * size, to + i * stride, words);
	}
}

static uint32_t read_once(const uint8_t *at)
{
	return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
}

/* One behind the other, in whole words. Lengths are the guest's. */
static void copy_strings(const struct direct_plan *plan, const struct direct_run *run,
			 uint8_t *event)
{
	const uint8_t *from = run->first + plan->strings_at;
	size_t left = run->size - plan->strings_at;

	for (size_t i = 0; i < plan->nr_strings; i++) {
		const struct direct_string *string = &plan->strings[i];
		size_t words, length;
		uint32_t said = read_once(run->first + string->length);

		length = said < FETCH_LONG_STRING ? said : FETCH_LONG_STRING;
		length = length < left ? length : left;
		memcpy(event + string->to, from, length);
		memset(event + string->to + length, 0, FETCH_LONG_STRING - length);
		words = (length + sizeof(uint64_t) - 1) / sizeof(uint64_t);
		from += words * sizeof(uint64_t);
		left -= words * sizeof(uint64_t);
	}
}

/* What is behind a NUL in them is no part of a string: encoders stop there. */
static void copy_texts(const struct direct_plan *plan, const struct direct_run *run,
		       uint8_t *events)
{
	for (size_t i = 0; i < plan->nr_texts; i++) {
		const struct direct_text *text = &plan->texts[i];
		const uint8_t *from = run->first + text->from;
		uint8_t *to = events + text->to;

		for (size_t k = 0; k < run->n; k++, from += run->size, to += plan->stride) {
			memcpy(to, from, text->size);
			memset(to + text->size, 0, FETCH_LONG_STRING - text->size);
		}
	}
}

/* The first member of each event. */
static void put_ips(const struct direct_run *run, uint8_t *events, size_t stride)
{
	for (size_t i = 0; i < run->n; i++)
		memcpy(events + i * stride, &run->ip[i], sizeof(run->ip[i]));
}

void direct_read(const struct direct_plan *plan, const struct direct_run *run, uint8_t *events)
{
	const struct direct_column *c = plan->columns, *const end = c + plan->nr_columns;
	const size_t n = run->n;

	put_ips(run, events, plan->stride);
	/* those with strings, or mixed ones that do not go together: without loops */
	if (n == 1) {
		for (; c < end; c++)
			copy_column(c, run->first + c->from, 1, 0, events + c->to, 0);
		if (plan->nr_strings)
			copy_strings(plan, run, events);
	} else {
		for (; c < end; c++)
			copy_column(c, run->first + c->from, n, run->size, events + c->to,
				    plan->stride);
	}
	if (plan->nr_texts)
		copy_texts(plan, run, events);
}

/* --- mixed records ---------------------------------------------------------------------------- */

/* Of the records that places say. As copy_column(), but that none is behind another. */
static inline __attribute__((always_inline)) void copy_places(const struct direct_column *column,
							      const struct direct_places *places)
{
	const struct direct_column c = *column;
	const uint8_t *const *const at = places->at;
	const uint8_t *const numbers = places->numbers, *const end = numbers + places->n;
	const size_t stride = places->stride;
	uint8_t *const to = places->events + c.to;

#define EACH(copy)                                       \
	for (const uint8_t *i = numbers; i < end; i++) { \
		copy(at[*i] + c.from, to + *i * stride); \
	}
#define COPY_WORD(source, target) copy_word(source, target, c.bias)
#define COPY_WORDS(source, target) copy_words(source, target, c.words)
	if (c.copy == DIRECT_COPY_TEXT)
		EACH(copy_text)
	else if (c.copy == DIRECT_COPY_WORD)
		EACH(COPY_WORD)
	else if (c.copy == DIRECT_COPY_INT)
		EACH(copy_int)
	else
		EACH(COPY_WORDS)
#undef EACH
#undef COPY_WORD
#undef COPY_WORDS
}

void direct_read_places(const struct direct_plan *plan, const struct direct_places *places)
{
	for (size_t i = 0; i < plan->nr_columns; i++)
		copy_places(&plan->columns[i], places);
}

/* --- from slices of the guest's stacks to call chains -------------------------------------------
 */

/* Its address is the first word of the event. */
static uint64_t instruction_of(const struct direct_slot *slot, const uint8_t *event)
{
	uint64_t ip;

	if (slot->want.point != POINT_INSIDE)
		return 0;
	memcpy(&ip, event, sizeof(ip));
	return ip;
}

void direct_read_stacks(const struct ring_engine *x, const struct direct_slot *slot,
			const struct direct_run *run, uint8_t *events)
{
	const uint8_t *from = run->first + slot->layout.stack;
	uint64_t frames[EVENT_STACK_WORDS];

	for (size_t i = 0; i < run->n; i++, from += run->size, events += slot->plan.stride) {
		const struct probe_chain chain = {(const uint64_t *)(const void *)from,
						  slot->layout.stack_words,
						  instruction_of(slot, events)};

		chain_unwind(x->kernel, x->facts.stack_bytes, &chain, frames);
		memcpy(events + slot->plan.stack, frames, sizeof(frames));
	}
}

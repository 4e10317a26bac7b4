/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the records of the direct lane to events. */
#include <stddef.h>
#include <string.h>
#include "formats/event/graph.h"
#include "patcher/engine/direct.h"
#include "patcher/text/site.h"

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

static size_t event_size(const struct direct_want *want)
{
	if (want->fetch)
		return sizeof(struct function_event) + want->fetch->bytes;
	return want->fields & (DIRECT_FRAME | DIRECT_RESULT) ? sizeof(struct syscall_event)
							     : sizeof(struct function_event);
}

void direct_plan_make(struct direct_plan *plan, const struct direct_want *want,
		      const struct direct_layout *layout)
{
	*plan = (struct direct_plan){.stride = (uint16_t)event_size(want)};
	add(plan, DIRECT_COPY_TEXT, offsetof(struct direct_record, ip),
	    offsetof(struct function_event, ip), -SITE_SIZE);
	if (want->fields & DIRECT_PARENT)
		add(plan, DIRECT_COPY_TEXT, layout->parent,
		    offsetof(struct function_event, parent_ip), 0);
	if (want->fields & DIRECT_PID)
		add(plan, DIRECT_COPY_INT, layout->pid, offsetof(struct function_event, pid), 0);
	if (want->fields & DIRECT_COMM)
		add_words(plan, layout->comm, offsetof(struct function_event, comm),
			  DIRECT_COMM_SIZE);
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
}

/* --- a column of a run; `from` is the guest's memory, read once --------------------------------
 */

static void copy_text(const struct direct_column *c, const struct direct_run *run, uint8_t *to,
		      size_t stride)
{
	const uint8_t *from = run->first + c->from;
	const size_t n = run->n, size = run->size;
	const int64_t bias = c->bias;
	int32_t low;
	int64_t address;

	for (size_t i = 0; i < n; i++, from += size, to += stride) {
		memcpy(&low, from, sizeof(low));
		address = low + bias;
		memcpy(to, &address, sizeof(address));
	}
}

static void copy_int(const struct direct_column *c, const struct direct_run *run, uint8_t *to,
		     size_t stride)
{
	const uint8_t *from = run->first + c->from;
	const size_t n = run->n, size = run->size;

	for (size_t i = 0; i < n; i++, from += size, to += stride)
		memcpy(to, from, sizeof(uint32_t));
}

static void copy_word(const struct direct_column *c, const struct direct_run *run, uint8_t *to,
		      size_t stride)
{
	const uint8_t *from = run->first + c->from;
	const size_t n = run->n, size = run->size;
	const uint64_t bias = (uint64_t)c->bias;
	uint64_t word;

	for (size_t i = 0; i < n; i++, from += size, to += stride) {
		memcpy(&word, from, sizeof(word));
		word += bias;
		memcpy(to, &word, sizeof(word));
	}
}

static void copy_words(const struct direct_column *c, const struct direct_run *run, uint8_t *to,
		       size_t stride)
{
	const uint8_t *from = run->first + c->from;

	for (size_t i = 0; i < run->n; i++, from += run->size, to += stride)
		for (size_t at = 0; at < c->words * sizeof(uint64_t); at += sizeof(uint64_t))
			memcpy(to + at, from + at, sizeof(uint64_t));
}

void direct_read(const struct direct_plan *plan, const struct direct_run *run, uint8_t *events)
{
	for (size_t i = 0; i < plan->nr_columns; i++) {
		const struct direct_column *c = &plan->columns[i];
		uint8_t *to = events + c->to;

		switch (c->copy) {
		case DIRECT_COPY_TEXT:
			copy_text(c, run, to, plan->stride);
			break;
		case DIRECT_COPY_INT:
			copy_int(c, run, to, plan->stride);
			break;
		case DIRECT_COPY_WORD:
			copy_word(c, run, to, plan->stride);
			break;
		case DIRECT_COPY_WORDS:
			copy_words(c, run, to, plan->stride);
			break;
		}
	}
}

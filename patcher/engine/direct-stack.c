/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From slices of the guest's stacks to call chains. */
#include <stddef.h>
#include <string.h>
#include "formats/event/function.h"
#include "guest-symbols/orc/orc-table.h"
#include "patcher/engine/ring-internal.h"

/* Its words are the guest's memory, which may change: each is believed as it was copied. */
static void read_stack(const struct orc_text *text, uint32_t stack_bytes, const uint8_t *from,
		       uint8_t *to)
{
	uint64_t frames[EVENT_STACK_WORDS] = {0};
	struct direct_stack copy;
	struct stack_slice slice;
	size_t n;

	memcpy(&copy, from, sizeof(copy));
	slice = (struct stack_slice){.sp = copy.sp,
				     .bp = copy.bp,
				     .words = copy.words,
				     .n = direct_stack_words(&copy, stack_bytes)};
	if (direct_stack_is_task(&copy, stack_bytes))
		slice.top = copy.task + stack_bytes;
	if (!stack_unwind(text, &slice, frames, EVENT_STACK_FRAMES, &n))
		frames[n] = EVENT_STACK_CUT;
	memcpy(to, frames, sizeof(frames));
}

void direct_read_stacks(const struct ring_engine *x, const struct direct_slot *slot,
			const struct direct_run *run, uint8_t *events)
{
	const struct kernel *kernel = x->kernel;
	const struct orc_text text = {.table = &kernel->known.orc,
				      .start = kernel->image->text,
				      .end = kernel->image->end,
				      .slide = kernel->virt_slide};
	const uint8_t *from = run->first + slot->layout.stack;
	uint8_t *to = events + offsetof(struct function_stack_event, stack);

	for (size_t i = 0; i < run->n; i++, from += run->size, to += slot->plan.stride)
		read_stack(&text, x->facts.stack_bytes, from, to);
}

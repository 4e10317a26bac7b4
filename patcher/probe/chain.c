/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/chain.h"

#include <errno.h>
#include <string.h>
#include "guest-symbols/orc/orc-table.h"
#include "introspect/kernel/module-orc.h"

int chain_check(const struct kernel *kernel, struct error *err)
{
	struct orc_table table;

	orc_table_init(kernel->image, &table);
	if (orc_table_is_usable(&table)) {
		if (kernel->module_orcs)
			module_orcs_want(kernel->module_orcs);
		return 0;
	}
	if (!table.n && image_has_frame_pointers(kernel->image))
		return 0;
	return error_set(
		err, ENOTSUP,
		"stacks cannot be recorded: the kernel has neither ORC tables that its BTF "
		"describes (CONFIG_UNWINDER_ORC) nor frame pointers");
}

static struct orc_text text_of(const struct kernel *kernel)
{
	return (struct orc_text){.table = &kernel->known.orc,
				 .start = kernel->image->text,
				 .end = kernel->image->end,
				 .slide = kernel->virt_slide,
				 .find_other = kernel->module_orcs ? module_orcs_find : NULL,
				 .other = kernel->module_orcs,
				 .frame_pointers = kernel->known.frame_pointers,
				 .return_hooks = kernel->known.return_hooks};
}

/* What was copied, at most `words` words. Its words are the guest's memory, which may change: each
 * is believed as it was copied here. */
static struct stack_slice copy_slice(const struct probe_chain *chain, uint32_t stack_bytes,
				     struct direct_stack *copy)
{
	const uint32_t most =
		chain->words < STACK_MAX_WORDS ? (uint32_t)chain->words : STACK_MAX_WORDS;
	const size_t head = offsetof(struct direct_stack, words);
	const uint8_t *from;
	struct stack_slice slice;

	memcpy(copy, chain->at, head);
	slice = (struct stack_slice){.ip = chain->ip,
				     .sp = copy->sp,
				     .bp = copy->bp,
				     .words = copy->words,
				     .n = direct_stack_words(copy, stack_bytes, most)};
	from = (const uint8_t *)chain->at + head;
	memcpy(copy->words, from, slice.n * sizeof(uint64_t));
	slice.rest = direct_stack_rest(copy, stack_bytes, (uint32_t)slice.n, most);
	if (slice.rest) {
		slice.rest_sp = copy->words[slice.n - 1];
		memcpy(copy->words + slice.n, from + slice.n * sizeof(uint64_t),
		       slice.rest * sizeof(uint64_t));
	}
	if (slice.rest || direct_stack_is_task(copy, stack_bytes))
		slice.top = copy->task + stack_bytes;
	return slice;
}

void chain_unwind(const struct kernel *kernel, uint32_t stack_bytes,
		  const struct probe_chain *chain, uint64_t frames[EVENT_STACK_WORDS])
{
	const struct orc_text text = text_of(kernel);
	struct direct_stack copy;
	struct stack_slice slice;
	bool whole = false;
	size_t n = 0;

	memset(frames, 0, EVENT_STACK_WORDS * sizeof(*frames));
	if (chain->at) {
		slice = copy_slice(chain, stack_bytes, &copy);
		whole = stack_unwind(&text, &slice, frames, EVENT_STACK_FRAMES, &n);
	}
	if (!whole)
		frames[n] = EVENT_STACK_CUT;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_KMEM_PAGE_CALLER_H
#define SONDE_PATCHER_TRACERS_KMEM_PAGE_CALLER_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * Who asked for (or gave back) pages. The page allocator is traced at its innermost function, whose
 * caller is nearly always a wrapper like alloc_pages(); this looks through the wrappers.
 */
struct page_callers;

/* `kernel` must live as long. -ENOMEM. */
int page_callers_create(const struct kernel *kernel, struct page_callers **out, struct error *err);
void page_callers_destroy(struct page_callers *callers);

/*
 * The first return address that is in no wrapper, starting from `call_site`; `stack` has the `n`
 * words that lay behind it on the stack. Where they end, or the unwind tables do not help, it is
 * the last one found. How many words that takes was counted on Debian's kernels while they did all
 * kinds of work: allocations 8 to 19, a few 31, frees of one page none, those of many 10 to 20.
 */
enum {
	PAGE_CALLER_STACK = 31,
	PAGE_CALLER_STACK_FREE = 6,
	PAGE_CALLER_STACK_WITH_ITEMS = 20,
};
uint64_t page_callers_resolve(const struct page_callers *callers, uint64_t call_site,
			      const uint64_t *stack, size_t n);

#endif

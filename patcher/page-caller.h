/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PAGE_CALLER_H
#define SONDE_PATCHER_PAGE_CALLER_H

#include <stdint.h>
#include "formats/error.h"
#include "introspect/kernel.h"

/*
 * Who asked for (or gave back) pages. The page allocator is traced at its innermost function, whose
 * caller is nearly always a wrapper like alloc_pages(); this looks through the wrappers.
 */
struct page_callers;

int page_callers_create(const struct kernel *kernel, struct page_callers **out, struct error *err);
void page_callers_destroy(struct page_callers *callers);

/*
 * The first return address that is in no wrapper: starting from `call_site`, whose place on the
 * stack is `key`. Where the unwind tables do not help it is the last one found.
 */
uint64_t page_callers_resolve(const struct page_callers *callers, uint64_t call_site, uint64_t key);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who allocates pages in real Debian kernels: what calls a wrapper, also where the compiler has
 * split that. Needs tests/testbed/fetch-kernel to have run.
 */
#include <stdlib.h>
#include "patcher/tracers/kmem/kmem.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { WORDS = 64 };

/* All words of the stack are the caller's address, so that it is found wherever the frame ends. */
static void test_wrapper(const struct kernel *kernel, const struct page_callers *callers,
			 const char *version, const char *name)
{
	const struct symbol *s = symbols_find(kernel->image->symbols, name);
	const uint64_t caller =
		kernel_gva(kernel, symbols_address(kernel->image->symbols, "vfs_read"));
	uint64_t stack[WORDS];

	if (!s)
		return;
	for (size_t i = 0; i < WORDS; i++)
		stack[i] = caller;
	ok(page_callers_resolve(callers,
				kernel_gva(kernel, fetched_kernel_behind_call(kernel->image, s)),
				stack, WORDS) == caller,
	   "%s: pages that %s() allocates are its caller's", version, name);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	static const char *const wrappers[] = {"__get_free_pages", "get_free_pages_noprof",
					       "__page_cache_alloc.part.0",
					       "filemap_alloc_folio_noprof.part.0"};
	struct page_callers *callers = NULL;
	struct fetched_guest guest;

	fetched_guest_init(&guest, image);
	if (page_callers_create(&guest.kernel, &callers, NULL))
		abort();
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		test_wrapper(&guest.kernel, callers, version, wrappers[i]);
	page_callers_destroy(callers);
	fetched_guest_deinit(&guest);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}

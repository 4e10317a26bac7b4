/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every allocator entry point of real Debian kernels, as the image has it, can be traced. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory.
 */
#include <stdlib.h>
#include "guest-symbols/kmem/allocators.h"
#include "patcher/text/function.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static bool is_allocation(const struct alloc_entry *entry)
{
	return entry->action == ALLOC_ACTION_ALLOC || entry->action == ALLOC_ACTION_ALLOC_BULK;
}

static void test_point(const struct kernel *kernel, struct decoder *decoder,
		       const struct alloc_point *p)
{
	struct function function;
	struct error err = {0};

	ok(p->site && !function_check_site(kernel, decoder, p->address, p->size, p->site, &err),
	   "%s: the mcount site at +%llu can be patched", p->entry.name,
	   (unsigned long long)(p->site - p->address));
	if (err.code)
		tap_diag("%s at %llx", err.text, (unsigned long long)err.address);
	if (!is_allocation(&p->entry))
		return;
	err.code = function_find_exits(kernel, decoder, p->address, p->size, true, &function, &err);
	ok(!err.code && function.nr_exits, "%s: %u parts and %u exits are found", p->entry.name,
	   function.nr_parts, function.nr_exits);
	if (err.code)
		tap_diag("%s at %llx", err.text, (unsigned long long)err.address);
	for (unsigned int i = 1; i < function.nr_parts; i++)
		tap_diag("+ %s",
			 symbols_covering(kernel->image->symbols, function.parts[i].gva)->name);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	const struct alloc_points *points;
	struct decoder *decoder = NULL;
	struct fetched_guest guest;

	if (decoder_create(&decoder, NULL) || alloc_points_of(image, &points, NULL))
		abort();
	tap_diag("%s", version);
	fetched_guest_init(&guest, image);
	for (size_t i = 0; i < points->n; i++)
		test_point(&guest.kernel, decoder, &points->v[i]);
	fetched_guest_deinit(&guest);
	decoder_destroy(decoder);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}

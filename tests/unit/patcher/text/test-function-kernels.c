/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every allocator entry point of real Debian kernels, as the image has it, can be traced. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "introspect/guest/dump.h"
#include "patcher/text/insn.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { PHYS_TEXT = 16 << 20 };

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
	err.code = function_find_exits(kernel, decoder, p->address, p->size, &function, &err);
	ok(!err.code && function.nr_exits, "%s: %u parts and %u exits are found", p->entry.name,
	   function.nr_parts, function.nr_exits);
	if (err.code)
		tap_diag("%s at %llx", err.text, (unsigned long long)err.address);
	for (unsigned int i = 1; i < function.nr_parts; i++)
		tap_diag("+ %s",
			 symbols_covering(kernel->image->symbols, function.parts[i].gva)->name);
}

static void test_image(const struct kernel_image *image, struct decoder *decoder)
{
	const struct alloc_points *points;
	struct dump_guest *dump;
	struct kernel kernel;

	if (dump_guest_create(1, &dump, NULL) || alloc_points_of(image, &points, NULL))
		abort();
	if (!dump_guest_add_buffer(dump, PHYS_TEXT, image->init_bytes, image->init_size,
				   DUMP_MAPPED, NULL)) {
		kernel_at(&kernel, dump_guest(dump), image, 0, PHYS_TEXT);
		for (size_t i = 0; i < points->n; i++)
			test_point(&kernel, decoder, &points->v[i]);
	}
	dump_guest_destroy(dump);
}

static void test_kernel(const char *version)
{
	struct kernel_file *file = NULL;
	struct kernel_image *image = NULL;
	struct decoder *decoder = NULL;
	struct error err = {0};
	char path[FETCHED_KERNEL_PATH];

	fetched_kernel_path(path, version);
	if (kernel_file_open(path, &file, &err) == -ENOENT) {
		tap_skip(version, "not fetched");
		return;
	}
	ok(file && !kernel_image_load(file, &image, &err) && !decoder_create(&decoder, &err),
	   "%s: the image is analysed (%s)", version, err.code ? err.text : "analysed");
	if (image && decoder)
		test_image(image, decoder);
	decoder_destroy(decoder);
	kernel_image_destroy(image);
	kernel_file_close(file);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		test_kernel(versions[i]);
	return tap_done();
}

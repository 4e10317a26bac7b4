/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fetched-kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"

const char *fetched_kernel_path(char path[FETCHED_KERNEL_PATH], const char *version)
{
	const char *dir = getenv("KERNELS_DIR");

	snprintf(path, FETCHED_KERNEL_PATH, "%s/%s/vmlinuz", dir ? dir : "build/kernels", version);
	return path;
}

struct kernel_image *fetched_kernel_image(const char *version)
{
	char path[FETCHED_KERNEL_PATH];
	struct kernel_file *file;
	struct kernel_image *image = NULL;
	struct error err = {0};
	int ret = kernel_file_open(fetched_kernel_path(path, version), &file, &err);

	if (ret == -ENOENT)
		return NULL;
	if (ret || kernel_image_load(file, NULL, &image, &err)) {
		tap_diag("%s: %s", path, err.text);
		abort();
	}
	kernel_file_close(file);
	return image;
}

int fetched_kernels_test(const char *const *versions, fetched_kernel_fn *fn)
{
	for (; *versions; versions++) {
		struct kernel_image *image = fetched_kernel_image(*versions);

		if (image)
			fn(image, *versions);
		else
			tap_skip(*versions, "not fetched: run tests/testbed/fetch-kernel");
		kernel_image_destroy(image);
	}
	return tap_done();
}

void fetched_guest_init(struct fetched_guest *guest, const struct kernel_image *image)
{
	guest->decoder = NULL;
	if (decoder_create(&guest->decoder, NULL) || dump_guest_create(1, &guest->dump, NULL) ||
	    dump_guest_add_buffer(guest->dump, FETCHED_PHYS_TEXT, image->init_bytes,
				  image->init_size, DUMP_MAPPED, NULL))
		abort();
	kernel_at(&guest->kernel, dump_guest(guest->dump), image, 0, FETCHED_PHYS_TEXT);
}

void fetched_guest_deinit(struct fetched_guest *guest)
{
	dump_guest_destroy(guest->dump);
	decoder_destroy(guest->decoder);
}

enum { CALL_SIZE = 5 };

uint64_t fetched_kernel_behind_call(const struct kernel_image *image, const struct symbol *s)
{
	const uint8_t *bytes = kernel_image_bytes(image, s->address, s->size);

	for (size_t i = 0; bytes && i + CALL_SIZE < s->size; i++) {
		const uint64_t behind = s->address + i + CALL_SIZE;
		const struct symbol *callee;
		int32_t distance;
		uint64_t target;

		memcpy(&distance, bytes + i + 1, sizeof(distance));
		target = behind + (uint64_t)(int64_t)distance;
		callee = bytes[i] == 0xe8 ? symbols_covering(image->symbols, target) : NULL;
		/* not its own mcount site's */
		if (callee && callee->address == target && strcmp(callee->name, "__fentry__"))
			return behind;
	}
	return 0;
}

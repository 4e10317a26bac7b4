/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fetched-kernel.h"

#include <stdio.h>
#include <stdlib.h>

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
	struct kernel_image *image;

	if (kernel_file_open(fetched_kernel_path(path, version), &file, NULL))
		return NULL;
	if (kernel_image_load(file, &image, NULL))
		abort();
	kernel_file_close(file);
	return image;
}

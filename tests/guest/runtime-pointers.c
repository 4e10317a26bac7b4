/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * runtime-pointers KERNEL
 *
 * Since 6.11 the kernel writes some pointers into its text as constants while it boots
 * (include/asm-generic/runtime-const.h). Their values depend on its memory randomisation and differ
 * from boot to boot. Print the offset of each from _stext, one per line; each has 8 bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/cli/cli.h"
#include "guest-symbols/image/kernel-image.h"

#define START "__start_runtime_ptr_"
#define STOP "__stop_runtime_ptr_"

static uint64_t stop_of(const struct kernel_image *image, const struct symbol *start)
{
	char name[256];

	snprintf(name, sizeof(name), STOP "%s", start->name + strlen(START));
	return symbols_address(image->symbols, name);
}

/* A table of 32-bit offsets, each relative to itself. */
static void print_table(const struct kernel_image *image, uint64_t start, uint64_t stop)
{
	for (uint64_t at = start; at < stop; at += sizeof(int32_t)) {
		const uint8_t *entry = kernel_image_bytes(image, at, sizeof(int32_t));
		int32_t offset;

		if (!entry)
			return;
		memcpy(&offset, entry, sizeof(offset));
		printf("%" PRIu64 "\n", at + (uint64_t)(int64_t)offset - image->stext);
	}
}

int main(int argc, char **argv)
{
	struct kernel_file *file;
	struct kernel_image *image;
	struct error err;

	if (argc != 2)
		return cli_usage("runtime-pointers", "usage: runtime-pointers KERNEL");
	if (kernel_file_open(argv[1], &file, &err) || kernel_image_load(file, NULL, &image, &err))
		return cli_error("runtime-pointers", &err);
	for (size_t i = 0; i < symbols_count(image->symbols); i++) {
		const struct symbol *s = symbols_at(image->symbols, i);

		if (!strncmp(s->name, START, strlen(START)))
			print_table(image, s->address, stop_of(image, s));
	}
	kernel_image_destroy(image);
	kernel_file_close(file);
	return 0;
}

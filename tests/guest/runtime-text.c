/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * runtime-text KERNEL
 *
 * Print what the kernel writes into its text by itself, one place per line, as offsets from _stext:
 *
 *   pointer AT       since 6.11, some pointers as constants of 8 bytes (include/asm-generic/
 *                    runtime-const.h). They depend on its memory randomisation.
 *   label AT TARGET  jump labels (include/linux/jump_label.h): a NOP, or a jump to TARGET, of 5
 *                    bytes or 2.
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

static int64_t offset_at(const uint8_t *entry, uint64_t at, const struct kernel_image *image)
{
	int32_t offset;

	memcpy(&offset, entry, sizeof(offset));
	return (int64_t)(at + (uint64_t)(int64_t)offset - image->stext);
}

/* A table of 32-bit offsets, each relative to itself. */
static void print_table(const struct kernel_image *image, uint64_t start, uint64_t stop)
{
	for (uint64_t at = start; at < stop; at += sizeof(int32_t)) {
		const uint8_t *entry = kernel_image_bytes(image, at, sizeof(int32_t));

		if (!entry)
			return;
		printf("pointer %" PRId64 "\n", offset_at(entry, at, image));
	}
}

/* struct jump_entry: s32 code, s32 target, each relative to itself, and a key. */
static void print_labels(const struct kernel_image *image)
{
	uint64_t start = symbols_address(image->symbols, "__start___jump_table");
	uint64_t stop = symbols_address(image->symbols, "__stop___jump_table");

	for (uint64_t at = start; at < stop; at += 16) {
		const uint8_t *entry = kernel_image_bytes(image, at, 16);

		if (!entry)
			return;
		printf("label %" PRId64 " %" PRId64 "\n", offset_at(entry, at, image),
		       offset_at(entry + 4, at + 4, image));
	}
}

int main(int argc, char **argv)
{
	struct kernel_file *file;
	struct kernel_image *image;
	struct error err;

	if (argc != 2)
		return cli_usage("runtime-text", "usage: runtime-text KERNEL");
	if (kernel_file_open(argv[1], &file, &err) || kernel_image_load(file, NULL, &image, &err))
		return cli_error("runtime-text", &err);
	for (size_t i = 0; i < symbols_count(image->symbols); i++) {
		const struct symbol *s = symbols_at(image->symbols, i);

		if (!strncmp(s->name, START, strlen(START)))
			print_table(image, s->address, stop_of(image, s));
	}
	print_labels(image);
	kernel_image_destroy(image);
	kernel_file_close(file);
	return 0;
}

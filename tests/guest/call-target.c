/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * call-target KERNEL SLIDE < ADDRESSES
 *
 * For each return address (hex, one per line, in a guest whose kernel has the slide SLIDE) print
 * the target of the call before it and the function that contains it: "ADDRESS NAME CALLER". NAME
 * is "?" if the call is not direct.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/cli/cli.h"
#include "guest-symbols/image/kernel-image.h"

enum { CALL_SIZE = 5, OPCODE_CALL = 0xe8 };

static const char *name_of(const struct kernel_image *image, uint64_t address)
{
	const struct symbol *symbol = symbols_covering(image->symbols, address);

	return symbol ? symbol->name : "?";
}

static const char *call_target(const struct kernel_image *image, uint64_t return_address)
{
	const uint8_t *call = kernel_image_bytes(image, return_address - CALL_SIZE, CALL_SIZE);
	int32_t displacement;

	if (!call || call[0] != OPCODE_CALL)
		return "?";
	memcpy(&displacement, call + 1, sizeof(displacement));
	return name_of(image, return_address + (uint64_t)(int64_t)displacement);
}

int main(int argc, char **argv)
{
	struct kernel_file *file;
	struct kernel_image *image;
	struct error err;
	uint64_t slide;
	char line[64];

	if (argc != 3)
		return cli_usage("call-target", "usage: call-target KERNEL SLIDE");
	slide = strtoull(argv[2], NULL, 0);
	if (kernel_file_open(argv[1], &file, &err) || kernel_image_load(file, NULL, &image, &err))
		return cli_error("call-target", &err);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t address = strtoull(line, NULL, 16), link = address - slide;

		printf("%" PRIx64 " %s %s\n", address, call_target(image, link),
		       name_of(image, link - 1));
	}
	kernel_image_destroy(image);
	kernel_file_close(file);
	return 0;
}

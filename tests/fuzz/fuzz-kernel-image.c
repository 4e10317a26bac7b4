/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "tests/lib/fake-elf.h"

/*
 * First byte even: the rest is a kernel file as somebody might hand it to us. Odd: it is a list of
 * bits to flip {offset u16, mask u8} in a sound ELF kernel with a System.map, so that what comes
 * after the symbols is reached too.
 */
enum { MAX_OUTPUT = 1 << 20, IMAGE = 4096, ROOM = 8192 };
#define TEXT 0xffffffff81000000

static const char map[] =
	"ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 T __kmalloc\n"
	"ffffffff81000140 T kfree\nffffffff81000180 T kmem_cache_alloc\n"
	"ffffffff810001c0 T kmem_cache_free\nffffffff81000200 T __alloc_pages\n"
	"ffffffff81000240 T free_unref_page\nffffffff81000280 T __free_pages_ok\n"
	"ffffffff810002c0 T _etext\nffffffff81000400 D linux_banner\n"
	"ffffffff81000800 D __start_mcount_loc\nffffffff81000840 D __stop_mcount_loc\n"
	"ffffffff81000840 D __return_sites\nffffffff81000860 D __return_sites_end\n"
	"ffffffff81000880 D __start_BTF\nffffffff81000900 D __stop_BTF\nffffffff81001000 B _end\n";

static void use(const struct kernel_file *file, struct symbol_table *symbols)
{
	struct kernel_image *image;
	uint8_t *memory = calloc(1, IMAGE);

	kernel_file_relocate(file, memory, IMAGE, TEXT, 0x200000, NULL);
	free(memory);
	if (kernel_image_load_with(file, symbols, &image, NULL))
		return;
	if (!kernel_image_bytes(image, image->text, image->init_size))
		abort();
	kernel_image_destroy(image);
}

/* Mapping a large output takes too long to be worth it. */
static bool too_large(const uint8_t *data, size_t size)
{
	uint32_t length, payload, output;
	size_t end;

	if (size < 0x250)
		return false;
	memcpy(&payload, data + 0x248, sizeof(payload));
	memcpy(&length, data + 0x24c, sizeof(length));
	end = (data[0x1f1] ? data[0x1f1] + 1u : 5u) * 512 + (size_t)payload + length;
	if (end > size || end < sizeof(output))
		return false;
	memcpy(&output, data + end - sizeof(output), sizeof(output));
	return output > MAX_OUTPUT;
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	struct kernel_file *file;

	if (too_large(data, size) || kernel_file_from_memory(data, size, &file, NULL))
		return;
	use(file, NULL);
	kernel_file_close(file);
}

static size_t make_kernel(uint8_t *elf)
{
	uint8_t image[IMAGE] = {0};

	strcpy((char *)image + 0x400, "Linux version 6.1.0 (fuzz)\n");
	for (uint64_t i = 0; i < 8; i++)
		memcpy(image + 0x800 + i * 8, &(uint64_t){TEXT + 0x100 + i * 0x40}, 8);
	memcpy(image + 0x880, &(uint32_t[]){0x1eb9f, 24, 0, 16, 16, 8}, 24);
	memcpy(image + 0x898, &(uint32_t[]){1, 1 << 24, 4, 32}, 16);
	memcpy(image + 0x8a8, "\0kfree", 8);
	return fake_elf(TEXT, image, IMAGE, NULL, elf, ROOM);
}

static void fuzz_changed(const uint8_t *data, size_t size)
{
	uint8_t elf[ROOM];
	size_t elf_size = make_kernel(elf);
	struct symbol_table *symbols;
	struct kernel_file *file;
	uint16_t offset;

	for (; size >= 3; data += 3, size -= 3) {
		memcpy(&offset, data, sizeof(offset));
		if (offset < elf_size)
			elf[offset] ^= data[2];
	}
	if (kernel_file_from_memory(elf, elf_size, &file, NULL))
		return;
	if (!symbols_from_system_map(map, sizeof(map) - 1, &symbols, NULL))
		use(file, symbols);
	kernel_file_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (*data & 1)
		fuzz_changed(data + 1, size - 1);
	else
		fuzz_file(data + 1, size - 1);
	return 0;
}

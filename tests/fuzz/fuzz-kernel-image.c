/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/functions/syscalls.h"
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/fake-elf.h"

/*
 * First byte even: the rest is a kernel file. Odd: the rest is a list of bits to flip {offset u16,
 * mask u8} in a sound ELF kernel with a System.map, so that the code behind the symbols is reached.
 * Then its types are also given, as if they came from another file.
 */
enum { MAX_OUTPUT = 1 << 20, IMAGE = 4096, ROOM = 8192, BTF = 0x880, BTF_ROOM = 0x380 };
#define TEXT 0xffffffff81000000

static const char map[] =
	"ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 T __kmalloc\n"
	"ffffffff81000140 T kfree\nffffffff81000180 T kmem_cache_alloc\n"
	"ffffffff810001c0 T kmem_cache_free\nffffffff81000200 T __alloc_pages\n"
	"ffffffff81000240 T free_unref_page\nffffffff81000280 T __free_pages_ok\n"
	"ffffffff810002c0 T _etext\nffffffff81000400 D linux_banner\n"
	"ffffffff81000800 D __start_mcount_loc\nffffffff81000840 D __stop_mcount_loc\n"
	"ffffffff81000840 D __return_sites\nffffffff81000860 D __return_sites_end\n"
	"ffffffff81000880 D __start_BTF\nffffffff81000c00 D __stop_BTF\n"
	"ffffffff81000c00 D __start___jump_table\nffffffff81000c40 D __stop___jump_table\n"
	"ffffffff81000c40 D __tracepoint_kfree\nffffffff81000ca0 D __tracepoint_mm_page_free\n"
	"ffffffff81000140 T __x64_sys_one\nffffffff81000d80 d __start_syscalls_metadata\n"
	"ffffffff81000d90 d __stop_syscalls_metadata\n"
	"ffffffff81000d00 D gfpflag_names\nffffffff81000e00 D init_task\n"
	"ffffffff81000e80 D init_uts_ns\nffffffff81001000 B _end\n";

static void use(const struct kernel_file *file, const struct kernel_given *given)
{
	static struct trace_info info;
	const struct image_syscalls *calls;
	const struct alloc_points *points;
	struct kernel_image *image;
	uint8_t *memory = calloc(1, IMAGE);

	kernel_file_relocate(file, memory, IMAGE, TEXT, 0x200000, NULL);
	free(memory);
	if (kernel_image_load(file, given, &image, NULL))
		return;
	if (!kernel_image_bytes(image, image->text, image->init_size))
		abort();
	gfp_names_read(image, &info);
	alloc_points_of(image, &points, NULL);
	image_syscalls_of(image, SYSCALL_64, &calls, NULL);
	image_syscalls_of(image, SYSCALL_IA32, &calls, NULL);
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
	struct btf_types *types;

	if (!given_types_parse(data, size, &types, NULL))
		btf_destroy(types);
	if (too_large(data, size) || kernel_file_from_memory(data, size, &file, NULL))
		return;
	use(file, NULL);
	kernel_file_close(file);
}

/* A static branch at `code` on the key of the tracepoint at `tracepoint`. */
static void put_jump(uint8_t *image, uint32_t at, uint32_t code, uint32_t tracepoint)
{
	memcpy(image + at, &(uint32_t){code - at}, 4);
	memcpy(image + at + 8, &(uint64_t){(uint64_t)tracepoint + 8 - (at + 8)}, 8);
}

static void put_btf(uint8_t *to, size_t room)
{
	static const struct fake_struct structs[] = {
		{"task_struct", 64, {{.name = "comm", .offset = 16, .size = 8}}},
		{"uts_namespace", 64, {{.name = "name", .offset = 8, .size = 0}}},
		{"new_utsname", 32, {{.name = "release", .offset = 8, .size = 8}}},
		{.name = NULL},
	};
	static const struct fake_enumerator no_enumerators[] = {{NULL, 0}};
	static const char *const prototypes[] = {
		"void *__kmalloc(size_t size, gfp_t flags)", "void kfree(const void *object)",
		"void free_unref_page(struct page *page, unsigned int order)", NULL};

	if (!fake_btf_functions(structs, no_enumerators, prototypes, to, room))
		abort();
}

/* A struct syscall_metadata, to which a list leads: one(int fd). */
static void put_syscall(uint8_t *image)
{
	const uint64_t list = TEXT + 0xda0, type = TEXT + 0xdc8, name = TEXT + 0xdd0;

	memcpy(image + 0xd80, &list, sizeof(list));
	memcpy(image + 0xda0, &(uint64_t){TEXT + 0xdd8}, sizeof(uint64_t));
	memcpy(image + 0xdac, &(uint32_t){1}, sizeof(uint32_t));
	memcpy(image + 0xdb0, &(uint64_t){TEXT + 0xdf0}, sizeof(uint64_t));
	memcpy(image + 0xdb8, &(uint64_t){TEXT + 0xdf8}, sizeof(uint64_t));
	memcpy(image + 0xdf0, &type, sizeof(type));
	memcpy(image + 0xdf8, &name, sizeof(name));
	memcpy(image + 0xdc8, "int\0\0\0\0\0fd\0\0\0\0\0\0sys_one", 24);
}

static size_t make_kernel(uint8_t *elf)
{
	uint8_t image[IMAGE] = {0};

	strcpy((char *)image + 0x400, "Linux version 6.1.0 (fuzz)\n");
	strcpy((char *)image + 0xe10, "swapper");
	strcpy((char *)image + 0xe90, "6.1.0");
	for (uint64_t i = 0; i < 8; i++)
		memcpy(image + 0x800 + i * 8, &(uint64_t){TEXT + 0x100 + i * 0x40}, 8);
	put_btf(image + BTF, BTF_ROOM);
	put_syscall(image);
	put_jump(image, 0xc00, 0x150, 0xc40);
	put_jump(image, 0xc10, 0x290, 0xca0);
	memcpy(image + 0x250, "\xe8\x2b\0\0\0", 5); /* free_unref_page() calls __free_pages_ok() */
	return fake_elf(TEXT, image, IMAGE, NULL, elf, ROOM);
}

static void fuzz_changed(const uint8_t *data, size_t size)
{
	uint8_t elf[ROOM];
	size_t elf_size = make_kernel(elf);
	struct kernel_given given = {.system_map = {"map", (const uint8_t *)map, sizeof(map) - 1}};
	struct kernel_file *file;
	uint16_t offset;

	for (; size >= 3; data += 3, size -= 3) {
		memcpy(&offset, data, sizeof(offset));
		if (offset < elf_size)
			elf[offset] ^= data[2];
	}
	if (kernel_file_from_memory(elf, elf_size, &file, NULL))
		return;
	use(file, &given);
	if (!given_types_parse(elf + FAKE_ELF_IMAGE_OFFSET + BTF, BTF_ROOM, &given.btf.types,
			       NULL)) {
		given.btf.path = "btf";
		use(file, &given);
		btf_destroy(given.btf.types);
	}
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

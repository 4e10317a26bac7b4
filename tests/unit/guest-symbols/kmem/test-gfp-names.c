/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of GFP flags, read from images, and the spelling of a value with them. */
#include <stdlib.h>
#include <string.h>
#include "formats/event/kmem.h"
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { BASE = 0x1000, TABLE = 0x100, NAMES = 0x400, SIZE = 0x800 };

static uint8_t bytes[SIZE];

static void put_entry(unsigned int i, uint64_t mask, uint64_t name)
{
	memcpy(bytes + TABLE + i * 16, &mask, sizeof(mask));
	memcpy(bytes + TABLE + i * 16 + 8, &name, sizeof(name));
}

/* Read the table at `address` of an image of the bytes above. */
static struct trace_info read_at(uint64_t address)
{
	struct kernel_image image = {.text = BASE, .init_bytes = bytes, .init_size = SIZE};
	struct trace_info info = {0};
	char map[64];

	snprintf(map, sizeof(map), "%016llx D gfpflag_names\n", (unsigned long long)address);
	if (symbols_from_system_map(map, strlen(map), &image.symbols, NULL))
		abort();
	gfp_names_read(&image, &info);
	symbols_destroy(image.symbols);
	return info;
}

static void test_table(void)
{
	struct trace_info info;

	memset(bytes, 'x', sizeof(bytes));
	strcpy((char *)bytes + NAMES, "GFP_KERNEL");
	strcpy((char *)bytes + NAMES + 16, "__GFP_\033");
	put_entry(0, 0xcc0, BASE + NAMES);
	put_entry(1, 0x40, BASE + NAMES + 16);
	put_entry(2, 0, 0);
	info = read_at(BASE + TABLE);
	is_u64(info.nr_gfp_names, 2, "the table ends at the mask of 0");
	is_u64(info.gfp_names[0].mask, 0xcc0, "an entry has its mask");
	is_str(info.gfp_names[0].name, "GFP_KERNEL", "an entry has its name");
	is_str(info.gfp_names[1].name, "__GFP_?", "a control character in a name is replaced");
	put_entry(2, 1, BASE + NAMES + 64);
	info = read_at(BASE + TABLE);
	is_u64(strlen(info.gfp_names[2].name), sizeof(info.gfp_names[2].name) - 1,
	       "a name without an end is cut");
	is_u64(info.nr_gfp_names, 3, "an entry that points out of the image ends the table");
	put_entry(1, 0x40, UINT64_MAX - 1);
	is_u64(read_at(BASE + TABLE).nr_gfp_names, 1,
	       "so does one at the end of the address space");
	is_u64(read_at(BASE + SIZE - 8).nr_gfp_names, 0,
	       "half an entry at the end of the image is none");
	is_u64(read_at(UINT64_MAX - 7).nr_gfp_names, 0, "a table outside of the image is empty");
	for (unsigned int i = 0; i < SIZE / 16; i++)
		put_entry(i % ((SIZE - TABLE) / 16), 1, BASE + NAMES % 16);
	is_u64(read_at(BASE + TABLE).nr_gfp_names, GFP_NAMES_MAX,
	       "no more names are read than fit");
}

static void test_text(void)
{
	const struct trace_info info = {
		.gfp_names = {{0xcc0, "GFP_KERNEL"}, {0xc00, "RECLAIM"}, {0x40, "__GFP_IO"}},
		.nr_gfp_names = 3,
	};
	char text[64], small[12];

	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0xcc0, text, sizeof(text));
	is_str(text, "GFP_KERNEL", "a combination has its own name");
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0xc40, text, sizeof(text));
	is_str(text, "RECLAIM|__GFP_IO", "several names are joined");
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0x100000cc0, text, sizeof(text));
	is_str(text, "GFP_KERNEL|0x100000000", "bits without a name are a number");
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0x80, text, sizeof(text));
	is_str(text, "0x80", "a value without any name is a number");
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0, text, sizeof(text));
	is_str(text, "none", "no flags are called none");
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0x100000cc0, small, sizeof(small));
	is_str(small, "GFP_KERNEL|", "a text too long is cut");
}

/* What all supported kernels have; 0x8000 has moved between versions. */
static void test_kernel(const char *version)
{
	struct kernel_file *file = NULL;
	struct kernel_image *image = NULL;
	struct trace_info info = {0};
	char path[FETCHED_KERNEL_PATH], text[256];
	struct error err;

	fetched_kernel_path(path, version);
	if (kernel_file_open(path, &file, &err) || kernel_image_load(file, NULL, &image, &err)) {
		tap_skip(version, err.text);
		kernel_file_close(file);
		return;
	}
	gfp_names_read(image, &info);
	ok(info.nr_gfp_names > 20, "%s has %zu names", version, info.nr_gfp_names);
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0xdc0, text, sizeof(text));
	is_str(text, "GFP_KERNEL|__GFP_ZERO", "GFP_KERNEL is one name");
	gfp_flags_text(info.gfp_names, info.nr_gfp_names, 0x400cc0, text, sizeof(text));
	is_str(text, "GFP_KERNEL_ACCOUNT", "GFP_KERNEL_ACCOUNT is another");
	kernel_image_destroy(image);
	kernel_file_close(file);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};

	test_table();
	test_text();
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		test_kernel(versions[i]);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/boot/boot.h"

#include <asm/bootparam.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "tests/lib/tiny-kernel.h"
#include "vmm/boot/image.h"

enum { MIB = 0x100000, GIB = 0x40000000 };

static const uint8_t code[] = {0xf4, 0xde, 0xad, 0xbe, 0xef};
static const struct tiny_kernel kernel = {.code = code, .size = sizeof(code)};

struct machine {
	struct guest_memory memory;
	struct boot_entry entry;
	struct error err;
	const struct boot_params *params;
	int ret;
};

static void boot(struct machine *machine, const struct tiny_kernel *tiny, uint64_t mib,
		 const struct boot_config *like)
{
	struct boot_config config = *like;
	char path[64];

	memset(machine, 0, sizeof(*machine));
	if (tiny_kernel_write(tiny, path) < 0)
		abort();
	config.kernel = path;
	if (!config.cmdline)
		config.cmdline = "console=ttyS0";
	if (guest_memory_init(&machine->memory, mib * MIB, &machine->err) < 0)
		abort();
	machine->ret = boot_load(&config, 2, &machine->memory, &machine->entry, &machine->err);
	machine->params = guest_memory_at(&machine->memory, BOOT_PARAMS_GPA, 4096);
	unlink(path);
}

static void test_slots(void)
{
	is_u64(boot_slots(0x1000000, 0x1000000, 1), 0,
	       "a range too small for the kernel has no slot");
	is_u64(boot_slots(0x1000000, 0x0800000, 1), 0,
	       "a range that ends before it begins has no slot");
	is_u64(boot_slots(0x1000000, 0x1200000, 0x200000), 1,
	       "a range of the kernel's size has one slot");
	is_u64(boot_slots(0x1000000, 0x1400000, 0x200000), 2,
	       "room for one more alignment step gives two slots");
	is_u64(boot_slots(0x1000000, 0x13fffff, 0x200000), 1,
	       "one byte less than that gives one slot");
	is_u64(boot_slots(0, 0x1000, UINT64_MAX), 0, "a size of UINT64_MAX does not wrap around");
}

static uint64_t usable(const struct boot_params *params)
{
	uint64_t sum = 0;

	for (int i = 0; i < params->e820_entries; i++) {
		if (params->e820_table[i].type == 1)
			sum += params->e820_table[i].size;
	}
	return sum;
}

static bool map_is_sane(const struct boot_params *params)
{
	uint64_t end[2] = {0, 0};

	for (int i = 0; i < params->e820_entries; i++) {
		const struct boot_e820_entry *e = &params->e820_table[i];
		bool is_ram = e->type == 1;

		if (e->addr < end[is_ram] || e->addr + e->size < e->addr)
			return false;
		end[is_ram] = e->addr + e->size;
		if (is_ram && e->addr < 4ull * GIB && end[1] > 3ull * GIB)
			return false;
	}
	return true;
}

static void test_memory_map(void)
{
	static const uint64_t sizes[] = {64, 512, 3072, 3073, 5000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct machine m;
		uint64_t missing;

		boot(&m, &kernel, sizes[i], &(struct boot_config){0});
		missing = sizes[i] * MIB - usable(m.params);
		ok(m.ret == 0 && map_is_sane(m.params),
		   "%d MiB: the memory map is sorted and leaves the hole free", (int)sizes[i]);
		is_u64(missing, MIB - 0x9fc00, "all RAM is usable but the end of the first MiB");
		is_u64(m.memory.nr_regions, sizes[i] > 3072 ? 2 : 1,
		       "RAM beyond 3 GiB is a second region");
		ok(!guest_memory_at(&m.memory, 3ull * GIB, 1), "no RAM answers in the hole");
		guest_memory_deinit(&m.memory);
	}
}

static void test_bounds(void)
{
	struct guest_memory memory;

	guest_memory_init(&memory, 64 * MIB, NULL);
	ok(guest_memory_at(&memory, 64 * MIB - 1, 1), "the last byte of RAM can be reached");
	ok(!guest_memory_at(&memory, 64 * MIB - 1, 2), "a range that ends beyond RAM is refused");
	ok(!guest_memory_at(&memory, UINT64_MAX, 2), "an address that wraps around is refused");
	ok(!guest_memory_at(&memory, 1, UINT64_MAX), "a size that wraps around is refused");
	guest_memory_deinit(&memory);
}

static void test_direct(void)
{
	struct machine m;
	const uint64_t *table;

	boot(&m, &kernel, 64, &(struct boot_config){.cmdline = "a nokaslr b"});
	is_u64((uint64_t)-m.ret, 0, "a vmlinux is loaded");
	is_u64(m.entry.rip, tiny_kernel_phys,
	       "with nokaslr the kernel is where it is linked to run");
	ok(m.entry.info.slide_known && !m.entry.info.virt_slide,
	   "with nokaslr the slide is known to be 0");
	is_u64(m.params->hdr.loadflags & KASLR_FLAG, 0,
	       "with nokaslr the KASLR flag of the setup header is clear");
	ok(!memcmp(guest_memory_at(&m.memory, m.entry.rip, sizeof(code)), code, sizeof(code)),
	   "the entry point has the kernel's bytes");
	is_str(guest_memory_at(&m.memory, m.params->hdr.cmd_line_ptr, 16), "a nokaslr b",
	       "the setup header points to the command line");
	is_u64(m.params->acpi_rsdp_addr, ACPI_TABLES_GPA, "the zero page points to the RSDP");
	table = guest_memory_at(&m.memory, m.entry.page_table, 4096);
	table = guest_memory_at(&m.memory, table[0] & ~0xfffull, 4096);
	table = guest_memory_at(&m.memory, table[3] & ~0xfffull, 4096);
	is_u64(table[511], 0xffe00083, "the page tables map the last 2 MiB below 4 GiB one to one");
	guest_memory_deinit(&m.memory);
}

static uint64_t place_with(uint64_t seed, const char *cmdline)
{
	struct boot_config config = {
		.has_kaslr_seed = true, .kaslr_seed = seed, .cmdline = cmdline};
	struct machine m;

	boot(&m, &kernel, 512, &config);
	guest_memory_deinit(&m.memory);
	return m.entry.info.phys_text;
}

static void test_kaslr(void)
{
	uint64_t first = place_with(1, NULL);
	unsigned int different = 0;

	is_u64(place_with(1, NULL), first, "the same seed gives the same place");
	for (uint64_t seed = 2; seed < 10; seed++) {
		uint64_t place = place_with(seed, NULL);

		different += place != first;
		if (place % boot_kernel_align || place < boot_kernel_min || place >= 512 * MIB)
			ok(false, "seed %d gives an aligned place inside RAM, not %#llx", (int)seed,
			   (unsigned long long)place);
	}
	ok(different >= 7, "at least 7 of 8 other seeds give another place");
	is_u64(place_with(1, "nokaslr"), tiny_kernel_phys, "nokaslr overrides a seed");
	ok(place_with(3, "xnokaslr nokaslrx") == place_with(3, ""),
	   "nokaslr inside another word does nothing");
}

static void write_initrd(char path[64], size_t size)
{
	int fd;

	strcpy(path, "/tmp/test-initrd-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || write(fd, "head", 4) != 4 || ftruncate(fd, (off_t)size) < 0)
		abort();
	close(fd);
}

static void test_initrd(void)
{
	struct machine m;
	char path[64];
	struct boot_config config = {.initrd = path};

	write_initrd(path, 5000);
	boot(&m, &kernel, 64, &config);
	is_u64(m.params->hdr.ramdisk_image, 64 * MIB - 8192,
	       "the initrd is at the top of RAM, page-aligned");
	is_u64(m.params->hdr.ramdisk_size, 5000, "the setup header has the initrd's size");
	is_str(guest_memory_at(&m.memory, m.params->hdr.ramdisk_image, 5), "head",
	       "the initrd's bytes are in guest memory");
	guest_memory_deinit(&m.memory);
	boot(&m, &kernel, 4096, &config);
	ok(m.params->hdr.ramdisk_image < 2u * GIB,
	   "in 4 GiB of RAM the initrd is below the kernel's limit");
	guest_memory_deinit(&m.memory);
	truncate(path, 60 * MIB);
	boot(&m, &kernel, 64, &config);
	is_u64((uint64_t)-m.ret, EFBIG, "an initrd too large for the RAM is refused");
	ok(strstr(m.err.text, "60.0 MiB") && strstr(m.err.text, "64 MiB"),
	   "the refusal names both sizes: %s", m.err.text);
	guest_memory_deinit(&m.memory);
	unlink(path);
	boot(&m, &kernel, 64, &config);
	is_u64((uint64_t)-m.ret, ENOENT, "an initrd that does not exist is refused");
	guest_memory_deinit(&m.memory);
	config.initrd = "/tmp";
	boot(&m, &kernel, 64, &config);
	is_u64((uint64_t)-m.ret, EINVAL, "a directory is refused as an initrd");
	guest_memory_deinit(&m.memory);
}

static void test_refusals(void)
{
	struct tiny_kernel big = kernel, cut = kernel, vast = kernel;
	struct machine m;
	char long_line[2100];

	big.memory_size = 60 * MIB;
	boot(&m, &big, 64, &(struct boot_config){0});
	is_u64((uint64_t)-m.ret, ENOMEM, "a kernel larger than the RAM is refused");
	guest_memory_deinit(&m.memory);
	vast.memory_size = UINT64_MAX - 5;
	boot(&m, &vast, 64, &(struct boot_config){0});
	is_u64((uint64_t)-m.ret, EBADMSG, "a segment whose end wraps around is refused");
	guest_memory_deinit(&m.memory);
	cut.cut = 1;
	boot(&m, &cut, 64, &(struct boot_config){0});
	is_u64((uint64_t)-m.ret, EBADMSG, "a truncated segment is refused");
	guest_memory_deinit(&m.memory);
	boot(&m, &kernel, 64, &(struct boot_config){.mode = BOOT_BZIMAGE});
	is_u64((uint64_t)-m.ret, ENOEXEC, "a vmlinux is refused as a bzImage");
	guest_memory_deinit(&m.memory);
	memset(long_line, 'x', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 1] = 0;
	boot(&m, &kernel, 64, &(struct boot_config){.cmdline = long_line});
	is_u64((uint64_t)-m.ret, E2BIG, "a command line too long for the kernel is refused");
	guest_memory_deinit(&m.memory);
}

int main(void)
{
	test_slots();
	test_memory_map();
	test_bounds();
	test_direct();
	test_kaslr();
	test_initrd();
	test_refusals();
	return tap_done();
}

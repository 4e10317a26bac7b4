/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "introspect/guest/page-walk.h"
#include "vmm/boot/image.h"

enum {
	TABLE_SIZE = 0x1000,
	NR_PD = 4,
	LARGE_PAGE_SIZE = 0x200000,

	LOADER_UNDEFINED = 0xff,
	VIDEO_NORMAL = 0xffff,
	/* Offsets of boot.rst: the header begins with setup_sects and ends where its jump goes. */
	HEADER_OFFSET = 0x1f1,
	HEADER_JUMP_OFFSET = 0x201,
	HEADER_AFTER_JUMP = 0x202,
	/* For a vmlinux, which has no setup header: COMMAND_LINE_SIZE less its NUL. */
	DEFAULT_CMDLINE_MAX = 2047,
	DEFAULT_INITRD_MAX = 0x7fffffff,
	HEADER_MAGIC = 0x53726448, /* "HdrS" */
	HEADER_VERSION = 0x020f,
};

static const uint64_t page_mask = 0xfff;
static const double mib = 1048576.0;

static void write_page_tables(const struct guest_memory *memory)
{
	uint64_t *pml4 = guest_memory_at(memory, BOOT_PML4_GPA, TABLE_SIZE);
	uint64_t *pdpt = guest_memory_at(memory, BOOT_PDPT_GPA, TABLE_SIZE);
	uint64_t *pd = guest_memory_at(memory, BOOT_PD_GPA, NR_PD * TABLE_SIZE);

	pml4[0] = BOOT_PDPT_GPA | ENTRY_PRESENT | ENTRY_WRITABLE;
	for (uint64_t i = 0; i < NR_PD; i++)
		pdpt[i] = (BOOT_PD_GPA + i * TABLE_SIZE) | ENTRY_PRESENT | ENTRY_WRITABLE;
	for (uint64_t i = 0; i < (uint64_t)NR_PD * TABLE_ENTRIES; i++)
		pd[i] = i * LARGE_PAGE_SIZE | ENTRY_LARGE | ENTRY_PRESENT | ENTRY_WRITABLE;
}

static void write_gdt(const struct guest_memory *memory)
{
	static const uint64_t gdt[BOOT_GDT_ENTRIES] = {
		[BOOT_CODE_SELECTOR / 8] = 0x00af9b000000ffff, /* 64-bit code */
		[BOOT_DATA_SELECTOR / 8] = 0x00cf93000000ffff, /* flat data */
	};

	memcpy(guest_memory_at(memory, BOOT_GDT_GPA, sizeof(gdt)), gdt, sizeof(gdt));
}

static void write_memory_map(struct boot_image *image)
{
	struct memory_map_entry map[MEMORY_MAP_MAX];
	size_t n = guest_memory_map(image->memory, map);

	for (size_t i = 0; i < n; i++)
		image->params->e820_table[i] = (struct boot_e820_entry){
			.addr = map[i].gpa, .size = map[i].size, .type = map[i].type};
	image->params->e820_entries = (uint8_t)n;
}

/* Copy the kernel's own setup header, or fill in what an ELF file lacks. */
static int write_header(struct boot_image *image, struct error *err)
{
	struct setup_header *header = &image->params->hdr;
	const struct kernel_file *file = image->file;
	size_t end;

	if (file->format == KERNEL_FORMAT_BZIMAGE) {
		if (file->file_size <= HEADER_JUMP_OFFSET)
			return error_set(err, EBADMSG, "%s: truncated setup header", file->path);
		end = HEADER_AFTER_JUMP + (size_t)file->file[HEADER_JUMP_OFFSET];
		if (end > HEADER_OFFSET + sizeof(*header))
			end = HEADER_OFFSET + sizeof(*header);
		if (end > file->file_size)
			return error_set(err, EBADMSG, "%s: truncated setup header", file->path);
		memcpy(header, file->file + HEADER_OFFSET, end - HEADER_OFFSET);
	} else {
		header->boot_flag = 0xaa55;
		header->header = HEADER_MAGIC;
		header->version = HEADER_VERSION;
		header->cmdline_size = DEFAULT_CMDLINE_MAX;
		header->initrd_addr_max = DEFAULT_INITRD_MAX;
	}
	header->vid_mode = VIDEO_NORMAL;
	header->type_of_loader = LOADER_UNDEFINED;
	header->loadflags = LOADED_HIGH;
	return 0;
}

static int write_cmdline(struct boot_image *image, const char *cmdline, struct error *err)
{
	size_t length = strlen(cmdline);
	size_t max = image->params->hdr.cmdline_size;
	char *to;

	if (!max || max > DEFAULT_CMDLINE_MAX)
		max = DEFAULT_CMDLINE_MAX;
	if (length > max)
		return error_set(err, E2BIG,
				 "the kernel's command line has %zu bytes; it takes at most %zu",
				 length, max);
	to = guest_memory_at(image->memory, BOOT_CMDLINE_GPA, length + 1);
	memcpy(to, cmdline, length + 1);
	image->params->hdr.cmd_line_ptr = BOOT_CMDLINE_GPA;
	return 0;
}

/* The highest page-aligned place below ram_end and the kernel's own limit; 0 if there is none. */
static uint64_t place_initrd(const struct boot_image *image, uint64_t size)
{
	uint64_t end = image->ram_end;
	uint64_t limit = (uint64_t)image->params->hdr.initrd_addr_max + 1;

	if (end > limit)
		end = limit;
	if (size > end)
		return 0;
	end = (end - size) & ~page_mask;
	return end > boot_kernel_min ? end : 0;
}

static int read_initrd(struct boot_image *image, int fd, const char *path, struct error *err)
{
	struct stat st;
	uint64_t gpa, size;
	int ret;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "%s: the initrd is not a regular file", path);
	size = (uint64_t)st.st_size;
	gpa = place_initrd(image, size);
	if (!gpa || size > UINT32_MAX)
		return error_set(err, EFBIG,
				 "%s: the initrd (%.1f MiB) is too large for the RAM (%.0f MiB): "
				 "give more with -m",
				 path, (double)size / mib, (double)image->memory->size / mib);
	/* Straight into guest memory: the host keeps no copy. */
	ret = file_read(fd, guest_memory_at(image->memory, gpa, size), size, err);
	if (ret) {
		error_prefix(err, "%s: ", path);
		return ret;
	}
	image->params->hdr.ramdisk_image = (uint32_t)gpa;
	image->params->hdr.ramdisk_size = (uint32_t)size;
	image->ram_end = gpa;
	return 0;
}

/* To the top of low RAM: lowers image->ram_end to its start, sets the header. */
static int load_initrd(struct boot_image *image, const char *path, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int ret;

	if (fd < 0)
		return error_set(err, errno, "cannot open the initrd %s: %s", path,
				 strerror(errno));
	ret = read_initrd(image, fd, path, err);
	close(fd);
	return ret;
}

/* Whether the command line has `word` as a word of its own. */
static bool cmdline_has(const char *cmdline, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = cmdline; (at = strstr(at, word)); at += length) {
		bool begins = at == cmdline || at[-1] == ' ';

		if (begins && (at[length] == ' ' || at[length] == '\0'))
			return true;
	}
	return false;
}

static int load_files(const struct boot_config *config, struct boot_image *image,
		      struct boot_entry *entry, struct error *err)
{
	int ret = write_header(image, err);

	if (ret < 0)
		return ret;
	ret = write_cmdline(image, config->cmdline, err);
	if (ret < 0)
		return ret;
	write_memory_map(image);
	image->params->acpi_rsdp_addr = ACPI_TABLES_GPA;
	if (config->initrd) {
		ret = load_initrd(image, config->initrd, err);
		if (ret < 0)
			return ret;
	}
	if (config->mode == BOOT_BZIMAGE)
		return boot_load_bzimage(image, entry, err);
	return boot_load_direct(image, entry, err);
}

int boot_load(const struct boot_config *config, unsigned int nr_vcpus,
	      const struct guest_memory *memory, struct boot_entry *entry, struct error *err)
{
	struct boot_image image = {
		.memory = memory,
		.params = guest_memory_at(memory, BOOT_PARAMS_GPA, sizeof(struct boot_params)),
		.ram_end = memory->regions[0].size,
		.kaslr = !cmdline_has(config->cmdline, "nokaslr"),
		.has_seed = config->has_kaslr_seed,
		.seed = config->kaslr_seed,
	};
	int ret = acpi_tables_write(guest_memory_at(memory, ACPI_TABLES_GPA, ACPI_TABLES_SIZE),
				    nr_vcpus, err);

	if (ret < 0)
		return ret;
	ret = kernel_file_map(config->kernel, &image.file, err);
	if (ret < 0)
		return ret;
	*entry = (struct boot_entry){
		.boot_params = BOOT_PARAMS_GPA, .page_table = BOOT_PML4_GPA, .gdt = BOOT_GDT_GPA};
	write_page_tables(memory);
	write_gdt(memory);
	ret = load_files(config, &image, entry, err);
	kernel_file_close(image.file);
	return ret;
}

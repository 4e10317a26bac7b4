// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/boot/boot.h"

#include <errno.h>
#include <string.h>
#include "introspect/guest/page-entry.h"
#include "vmm/boot/acpi-tables.h"
#include "vmm/boot/image.h"

enum {
	TABLE_SIZE = 0x1000,
	NR_PD = 4,
	LARGE_PAGE_SIZE = 0x200000,

	LOADER_UNDEFINED = 0xff,
	VIDEO_NORMAL = 0xffff,
	/* Offsets of boot.rst: the header begins with setup_sects; its end is told by the jump. */
	HEADER_OFFSET = 0x1f1,
	HEADER_JUMP_OFFSET = 0x201,
	HEADER_AFTER_JUMP = 0x202,
	/* The command line a vmlinux without setup header can take: COMMAND_LINE_SIZE less its NUL.
	 */
	DEFAULT_CMDLINE_MAX = 2047,
	DEFAULT_INITRD_MAX = 0x7fffffff,
	HEADER_MAGIC = 0x53726448, /* "HdrS" */
	HEADER_VERSION = 0x020f,
};

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

/* Take the kernel's own setup header, or make up what an ELF file lacks. */
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

/* Whether `word` stands in the command line on its own. */
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

static int load_file(const struct vm_config *config, struct boot_image *image,
		     struct boot_entry *entry, struct error *err)
{
	int rc = write_header(image, err);

	if (rc < 0)
		return rc;
	rc = write_cmdline(image, config->cmdline, err);
	if (rc < 0)
		return rc;
	write_memory_map(image);
	image->params->acpi_rsdp_addr = ACPI_TABLES_GPA;
	if (config->initrd) {
		rc = boot_load_initrd(image, config->initrd, err);
		if (rc < 0)
			return rc;
	}
	if (config->boot == VM_BOOT_BZIMAGE)
		return boot_load_bzimage(image, entry, err);
	return boot_load_direct(image, entry, err);
}

int boot_load(const struct vm_config *config, const struct guest_memory *memory,
	      struct boot_entry *entry, struct error *err)
{
	struct boot_image image = {
		.memory = memory,
		.params = guest_memory_at(memory, BOOT_PARAMS_GPA, sizeof(struct boot_params)),
		.ram_end = memory->regions[0].size,
		.kaslr = !cmdline_has(config->cmdline, "nokaslr"),
		.has_seed = config->has_kaslr_seed,
		.seed = config->kaslr_seed,
	};
	struct kernel_file *file;
	int rc = kernel_file_map(config->kernel, &file, err);

	if (rc < 0)
		return rc;
	image.file = file;
	*entry = (struct boot_entry){
		.boot_params = BOOT_PARAMS_GPA, .page_table = BOOT_PML4_GPA, .gdt = BOOT_GDT_GPA};
	write_page_tables(memory);
	write_gdt(memory);
	rc = load_file(config, &image, entry, err);
	kernel_file_close(file);
	return rc;
}

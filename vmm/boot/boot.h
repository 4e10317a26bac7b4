/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_BOOT_BOOT_H
#define SONDE_VMM_BOOT_BOOT_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "vmm/memory/memory.h"

/*
 * Loads Linux by its 64-bit boot protocol (Documentation/arch/x86/boot.rst): kernel, initrd,
 * command line, zero page and ACPI tables go to guest memory. The first vCPU then starts in long
 * mode.
 */
enum boot_mode {
	BOOT_DIRECT,  /* enter the vmlinux ELF; the loader chooses the slide */
	BOOT_BZIMAGE, /* the guest decompresses the kernel and chooses its slide */
};

struct boot_config {
	const char *kernel;  /* path of a bzImage or ELF vmlinux */
	const char *initrd;  /* path or NULL */
	const char *cmdline; /* kernel command line */
	enum boot_mode mode;
	bool has_kaslr_seed;
	uint64_t kaslr_seed; /* with it the slide is a function of seed and image */
};

/* What is known about the kernel before its first instruction. */
struct boot_info {
	bool slide_known;    /* false with BOOT_BZIMAGE */
	uint64_t virt_slide; /* gva minus link address */
	uint64_t phys_text;  /* gpa of _text */
};

/* What the first vCPU needs to start. */
struct boot_entry {
	uint64_t rip;         /* gpa = gva of the first instruction */
	uint64_t boot_params; /* gpa of the zero page, for RSI */
	uint64_t page_table;  /* gpa of the top level table that maps the first 4 GiB one to one */
	uint64_t gdt;         /* gpa of BOOT_GDT_ENTRIES descriptors */
	struct boot_info info;
};

/* Layout of the first MiB; all below the extended BIOS data area. */
enum {
	BOOT_GDT_GPA = 0x500,
	BOOT_STUB_GPA = 0x6000, /* unused by the loader: a vCPU tries an instruction there */
	BOOT_PARAMS_GPA = 0x7000,
	BOOT_PML4_GPA = 0x9000,
	BOOT_PDPT_GPA = 0xa000,
	BOOT_PD_GPA = 0xb000, /* four pages */
	BOOT_CMDLINE_GPA = 0x20000,

	BOOT_CODE_SELECTOR = 0x10, /* __BOOT_CS and __BOOT_DS of the protocol */
	BOOT_DATA_SELECTOR = 0x18,
	BOOT_GDT_ENTRIES = 4,
};

/*
 * Load everything that *config names, for a machine of `nr_vcpus` vCPUs. Errors are for the user
 * and name the file:
 *  -E2BIG    the command line is longer than the kernel takes
 *  -EBADMSG  a header or segment of the kernel is damaged
 *  -EFBIG    the initrd does not fit in RAM
 *  -EINVAL   the initrd is not a regular file
 *  -ENOEXEC  not a kernel, or not one for config->mode
 *  -ENOMEM   the kernel does not fit in RAM
 *  -ENOTSUP  a bzImage without a relocatable 64-bit entry point
 *  others    those of reading the files
 */
int boot_load(const struct boot_config *config, unsigned int nr_vcpus,
	      const struct guest_memory *memory, struct boot_entry *entry, struct error *err);

#endif

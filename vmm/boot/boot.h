/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_BOOT_BOOT_H
#define SONDE_VMM_BOOT_BOOT_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "vmm/memory/memory.h"
#include "vmm/machine/vm.h"

/*
 * Loading Linux by its 64-bit boot protocol (Documentation/arch/x86/boot.rst): kernel, initrd,
 * command line and zero page go to guest memory; the first vCPU then starts in long mode.
 */
struct boot_entry {
	uint64_t rip;         /* gpa = gva of the first instruction */
	uint64_t boot_params; /* gpa of the zero page, for RSI */
	uint64_t page_table;  /* gpa of the top level table that maps the first 4 GiB one to one */
	uint64_t gdt;         /* gpa; see boot_gdt */
	struct vm_boot_info info;
};

/* Where things lie in the first MiB; all below the extended BIOS data area. */
enum {
	BOOT_GDT_GPA = 0x500,
	BOOT_STUB_GPA = 0x6000, /* left free, for a first try of the vCPU */
	BOOT_PARAMS_GPA = 0x7000,
	BOOT_PML4_GPA = 0x9000,
	BOOT_PDPT_GPA = 0xa000,
	BOOT_PD_GPA = 0xb000, /* four pages */
	BOOT_CMDLINE_GPA = 0x20000,

	BOOT_CODE_SELECTOR = 0x10, /* __BOOT_CS and __BOOT_DS of the protocol */
	BOOT_DATA_SELECTOR = 0x18,
	BOOT_GDT_ENTRIES = 4,
};

/* Load everything that config names. ACPI tables must be there already (acpi-tables.h). */
int boot_load(const struct vm_config *config, const struct guest_memory *memory,
	      struct boot_entry *entry, struct error *err);

#endif

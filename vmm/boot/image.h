/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_BOOT_IMAGE_H
#define SONDE_VMM_BOOT_IMAGE_H

#include <asm/bootparam.h>
#include <stdbool.h>
#include <stdint.h>
#include "guest-symbols/file/kernel-file.h"
#include "vmm/boot/boot.h"

/* Within this room: a kernel on its way into guest memory, and the steps that put it there. */
struct boot_image {
	struct kernel_file *file;
	const struct guest_memory *memory;
	struct boot_params *params; /* in guest memory */
	uint64_t ram_end; /* end of RAM below the hole, or of what the initrd left of it */
	bool kaslr;       /* the command line does not forbid it */
	bool has_seed;
	uint64_t seed;
};

/* Alignment and lowest address of a kernel (defaults of kernel_alignment and pref_address). */
static const uint64_t boot_kernel_align = 0x200000;
static const uint64_t boot_kernel_min = 0x1000000;

/* Put the vmlinux ELF where a slide chosen here says; sets entry->rip and entry->info. */
int boot_load_direct(struct boot_image *image, struct boot_entry *entry, struct error *err);

/* Put the bzImage's own 64-bit loader and payload in memory; sets entry->rip. */
int boot_load_bzimage(struct boot_image *image, struct boot_entry *entry, struct error *err);

/*
 * How many multiples of boot_kernel_align, counted from `first`, leave `size` bytes below `end`:
 * the places that a random one is chosen from. 0 if not even `first` does.
 */
uint64_t boot_slots(uint64_t first, uint64_t end, uint64_t size);

/*
 * Write the ACPI tables (ACPI specification 6.5, chapter 5) to `area`, ACPI_TABLES_SIZE bytes that
 * the guest has at ACPI_TABLES_GPA: RSDP, XSDT, FADT, FACS, MADT and DSDT. They describe the vCPUs,
 * whose local APIC ids are 0 .. nr_vcpus - 1, the interrupt controllers, COM1, power-off and reset.
 * They also say that there is no 8042, VGA, RTC, PCI or MSI, so that the guest does not probe for
 * these. -ENOSPC if `area` is too small.
 */
int acpi_tables_write(uint8_t *area, unsigned int nr_vcpus, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_BOOT_IMAGE_H
#define SONDE_VMM_BOOT_IMAGE_H

#include <asm/bootparam.h>
#include <stdint.h>
#include "guest-symbols/kernel-file.h"
#include "vmm/boot.h"

/* Between the files of the loader: a kernel on its way into guest memory. */
struct boot_image {
	const struct kernel_file *file;
	const struct guest_memory *memory;
	struct boot_params *params; /* in guest memory */
	uint64_t ram_end; /* end of RAM below the hole, less what the initrd took at its top */
	bool kaslr;       /* the command line does not forbid it */
	bool has_seed;
	uint64_t seed;
};

/* Alignment and lowest address Linux uses for itself (kernel_alignment, pref_address defaults). */
static const uint64_t boot_kernel_align = 0x200000;
static const uint64_t boot_kernel_min = 0x1000000;

/* Put the vmlinux ELF where a slide of our choice says; sets entry->rip and entry->info. */
int boot_load_direct(struct boot_image *image, struct boot_entry *entry, struct error *err);

/* Put the bzImage's own 64-bit loader and payload in memory; sets entry->rip. */
int boot_load_bzimage(struct boot_image *image, struct boot_entry *entry, struct error *err);

/* Read the initrd to the top of low RAM; lowers image->ram_end to its start, sets the header. */
int boot_load_initrd(struct boot_image *image, const char *path, struct error *err);

/*
 * Slots a random place can be chosen from: how many multiples of boot_kernel_align, counted from
 * `first`, leave `size` bytes below `end`. 0 if not even the first does.
 */
uint64_t boot_slots(uint64_t first, uint64_t end, uint64_t size);

/* A number below n (n > 0): random, or with a seed always the same for a `purpose`. */
uint64_t boot_choose(const struct boot_image *image, unsigned int purpose, uint64_t n);

#endif

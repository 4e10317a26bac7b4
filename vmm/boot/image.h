/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_BOOT_IMAGE_H
#define SONDE_VMM_BOOT_IMAGE_H

#include <asm/bootparam.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/file/kernel-file.h"
#include "vmm/boot/boot.h"

/* Between the files of the loader: a kernel on its way into guest memory. */
struct boot_image {
	struct kernel_file *file;
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

enum { BOOT_MAX_SEGMENTS = 16 };

/* A loadable segment of a vmlinux: `size` bytes from `offset` in the ELF belong at `phys`. */
struct boot_segment {
	uint64_t offset, phys, size;
};

/* Where a vmlinux is linked to run. */
struct boot_layout {
	uint64_t phys, virt; /* of its lowest segment */
	uint64_t end;        /* physical, of its highest, .bss and .brk included */
	uint64_t entry;      /* physical */
	struct boot_segment segments[BOOT_MAX_SEGMENTS];
	size_t nr_segments;
};

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

/* A place for a kernel that needs `size` bytes: random if the image is to be randomised, else the
 * lowest; 0 if there is none. */
uint64_t boot_choose_physical(const struct boot_image *image, uint64_t size);

/*
 * Room in guest memory to unpack a compressed vmlinux just where it will run (boot-room.c): spares
 * a buffer of its size, and a copy of most of it.
 */
struct boot_room {
	uint64_t phys;        /* where the kernel will begin */
	uint64_t kernel_size; /* free for it from there on */
	uint8_t *at;          /* hva, below that, where the ELF begins */
	size_t size;          /* of what will be unpacked */
};

/* False if the vmlinux is not compressed, or there is no room for more than itself. */
bool boot_room_choose(const struct boot_image *image, struct boot_room *room);
/* Whether the vmlinux that was unpacked there can be moved to its places within the room. */
bool boot_room_fits(const struct boot_room *room, const struct kernel_file *file,
		    const struct boot_layout *layout);
/* Move its segments to their places. The relocation table stays. */
void boot_room_settle(const struct boot_room *room, const struct boot_layout *layout);
/* Clear the room but for the segments; all of it if layout is NULL. */
void boot_room_clear(const struct boot_room *room, const struct boot_layout *layout);

#endif

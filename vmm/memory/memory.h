/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MEMORY_MEMORY_H
#define SONDE_VMM_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * Guest RAM: one memory file of exactly its size, so that it can be passed to another process. The
 * part beyond 3 GiB begins at 4 GiB, which leaves a hole for devices. It is mapped once, in the
 * order of the file.
 */
struct guest_memory {
	int fd;
	uint8_t *hva;
	uint64_t size;
	struct guest_region regions[2]; /* below the hole, and above 4 GiB if there is that much */
	size_t nr_regions;
};

static const uint64_t memory_hole_gpa = 0xc0000000;  /* 3 GiB */
static const uint64_t memory_high_gpa = 0x100000000; /* 4 GiB */

/* In the hole: the interrupt controllers, one page each. */
static const uint64_t memory_ioapic_gpa = 0xfec00000;
static const uint64_t memory_lapic_gpa = 0xfee00000;

/* In the ROM window of the first MiB. The RSDP comes first: a guest may find it by scanning. */
enum { ACPI_TABLES_GPA = 0xe0000, ACPI_TABLES_SIZE = 0x20000 };

/*
 * `size` in bytes, a multiple of 1 MiB. The host provides a page when it is first touched, in huge
 * pages where it can. Errors: those of memfd_create(), ftruncate() and mmap().
 */
int guest_memory_init(struct guest_memory *memory, uint64_t size, struct error *err);
void guest_memory_deinit(struct guest_memory *memory);

/* Host address of [gpa, gpa + size) if one region contains all of it, else NULL. */
void *guest_memory_at(const struct guest_memory *memory, uint64_t gpa, uint64_t size);

/* One row of the memory map that a PC's firmware reports (ACPI 6.5, section 15). */
struct memory_map_entry {
	uint64_t gpa, size;
	uint32_t type; /* 1 usable, 2 reserved */
};
enum { MEMORY_MAP_MAX = 8, MEMORY_MAP_USABLE = 1, MEMORY_MAP_RESERVED = 2 };

/* Fill the map, sorted by gpa; returns the number of rows. */
size_t guest_memory_map(const struct guest_memory *memory,
			struct memory_map_entry map[MEMORY_MAP_MAX]);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/memory/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "vmm/boot/acpi-tables.h"
#include "vmm/kvm/kvm.h"
#include "vmm/memory/memory-file.h"

/* The first MiB as every PC has it: 1 KiB of extended BIOS data below 640 KiB, then the VGA and
 * ROM window, of which we use the last 128 KiB for ACPI tables. */
enum { EBDA_GPA = 0x9fc00, VGA_GPA = 0xa0000, MIB = 0x100000 };

static const uint64_t ioapic_gpa = 0xfec00000;
static const uint64_t lapic_gpa = 0xfee00000;
static const uint64_t device_page = 0x1000;

int guest_memory_init(struct guest_memory *memory, uint64_t size, struct error *err)
{
	uint64_t low = size < memory_hole_gpa ? size : memory_hole_gpa;
	int code;

	*memory = (struct guest_memory){.fd = -1, .hva = MAP_FAILED, .size = size};
	memory->fd = memory_file_create(size);
	if (memory->fd >= 0)
		memory->hva = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
				   memory->fd, 0);
	if (memory->hva == MAP_FAILED) {
		code = memory->fd < 0 ? -memory->fd : errno;
		guest_memory_deinit(memory);
		return error_set(err, code, "cannot reserve %" PRIu64 " MiB of guest memory: %s",
				 size / MIB, strerror(code));
	}
	memory->regions[0] = (struct guest_region){.gpa = 0, .size = low, .hva = memory->hva};
	memory->nr_regions = 1;
	if (size > low) {
		memory->regions[1] = (struct guest_region){
			.gpa = memory_high_gpa, .size = size - low, .hva = memory->hva + low};
		memory->nr_regions = 2;
	}
	return 0;
}

void guest_memory_deinit(struct guest_memory *memory)
{
	if (memory->hva && memory->hva != MAP_FAILED)
		munmap(memory->hva, memory->size);
	if (memory->fd >= 0)
		close(memory->fd);
	memory->hva = NULL;
	memory->fd = -1;
	memory->nr_regions = 0;
}

void *guest_memory_at(const struct guest_memory *memory, uint64_t gpa, uint64_t size)
{
	for (size_t i = 0; i < memory->nr_regions; i++) {
		const struct guest_region *region = &memory->regions[i];

		if (gpa >= region->gpa && gpa - region->gpa <= region->size &&
		    size <= region->size - (gpa - region->gpa))
			return region->hva + (gpa - region->gpa);
	}
	return NULL;
}

size_t guest_memory_map(const struct guest_memory *memory,
			struct memory_map_entry map[MEMORY_MAP_MAX])
{
	size_t n = 0;

	map[n++] = (struct memory_map_entry){0, EBDA_GPA, MEMORY_MAP_USABLE};
	map[n++] = (struct memory_map_entry){EBDA_GPA, VGA_GPA - EBDA_GPA, MEMORY_MAP_RESERVED};
	map[n++] = (struct memory_map_entry){ACPI_TABLES_GPA, MIB - ACPI_TABLES_GPA,
					     MEMORY_MAP_RESERVED};
	map[n++] = (struct memory_map_entry){MIB, memory->regions[0].size - MIB, MEMORY_MAP_USABLE};
	map[n++] = (struct memory_map_entry){ioapic_gpa, device_page, MEMORY_MAP_RESERVED};
	map[n++] = (struct memory_map_entry){lapic_gpa, device_page, MEMORY_MAP_RESERVED};
	map[n++] =
		(struct memory_map_entry){kvm_private_gpa, kvm_private_size, MEMORY_MAP_RESERVED};
	if (memory->nr_regions > 1)
		map[n++] = (struct memory_map_entry){memory->regions[1].gpa,
						     memory->regions[1].size, MEMORY_MAP_USABLE};
	return n;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An ELF begins with headers, padded to the alignment of its first segment, and its segments keep
 * other distances in the file than in memory. Unpacked that much below the place where the kernel
 * runs, the first segments are in place; the others have to move down a little. What the segments
 * do not fill (headers, relocation table, gaps) is cleared when done: some of it is .bss.
 */
#include "vmm/boot/image.h"

#include <string.h>

/* Of the first segment in the ELF: the alignment of every x86-64 kernel's text. */
static const uint64_t first_offset = 0x200000;

bool boot_room_choose(const struct boot_image *image, struct boot_room *room)
{
	const struct kernel_file *file = image->file;

	if (!file->packed)
		return false;
	*room = (struct boot_room){.size = file->unpacked_size, .kernel_size = file->unpacked_size};
	/* With .bss and all, by its setup header; whether that is true is seen later. */
	if (room->kernel_size < image->params->hdr.init_size)
		room->kernel_size = image->params->hdr.init_size;
	room->phys = boot_choose_physical(image, room->kernel_size);
	if (!room->phys)
		return false;
	room->at = guest_memory_at(image->memory, room->phys - first_offset, room->size);
	return room->at;
}

/* Offset in the room. */
static uint64_t place_of(const struct boot_layout *layout, const struct boot_segment *segment)
{
	return first_offset + (segment->phys - layout->phys);
}

/* In file order each segment moves down, or stays, and hits nothing that is still to be read. */
bool boot_room_fits(const struct boot_room *room, const struct kernel_file *file,
		    const struct boot_layout *layout)
{
	uint64_t low = 0;

	if (layout->end - layout->phys > room->kernel_size)
		return false;
	for (size_t i = 0; i < layout->nr_segments; i++) {
		const struct boot_segment *segment = &layout->segments[i];
		uint64_t place = place_of(layout, segment);

		if (place < low || place > segment->offset)
			return false;
		low = place + segment->size;
		if (i + 1 < layout->nr_segments && low > layout->segments[i + 1].offset)
			return false;
	}
	return low <= file->vmlinux_size;
}

void boot_room_settle(const struct boot_room *room, const struct boot_layout *layout)
{
	for (size_t i = 0; i < layout->nr_segments; i++) {
		const struct boot_segment *segment = &layout->segments[i];
		uint64_t place = place_of(layout, segment);

		if (place != segment->offset)
			memmove(room->at + place, room->at + segment->offset, segment->size);
	}
}

void boot_room_clear(const struct boot_room *room, const struct boot_layout *layout)
{
	size_t n = layout ? layout->nr_segments : 0;
	uint64_t from = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t place = place_of(layout, &layout->segments[i]);

		memset(room->at + from, 0, place - from);
		from = place + layout->segments[i].size;
	}
	memset(room->at + from, 0, room->size - from);
}

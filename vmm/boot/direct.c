/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entering the vmlinux directly does on the host what the kernel's own decompressor does in the
 * guest (arch/x86/boot/compressed/misc.c and kaslr.c): place, copy segments, relocate.
 */
#include "vmm/boot/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include "guest-symbols/file/elf-view.h"

/* The window of virtual addresses for the kernel image (arch/x86/include/asm/page_64_types.h). */
static const uint64_t kernel_map = 0xffffffff80000000;
static const uint64_t scratch_size = 0x40000000;

/* Offset in the ELF of its first segment: the alignment of every x86-64 kernel's text. */
static const uint64_t first_offset = 0x200000;

enum { CHOOSE_PHYSICAL = 1, CHOOSE_VIRTUAL = 2, MAX_SEGMENTS = 16, MIB = 0x100000 };

/* A loadable segment of a vmlinux: `size` bytes from `offset` in the ELF belong at `phys`. */
struct segment {
	uint64_t offset, phys, size;
};

/* Where a vmlinux is linked to run. */
struct layout {
	uint64_t phys, virt; /* of its lowest segment */
	uint64_t end;        /* physical, of its highest, .bss and .brk included */
	uint64_t entry;      /* physical */
	struct segment segments[MAX_SEGMENTS];
	size_t nr_segments;
};

/* --- choosing places ------------------------------------------------------------------------- */

uint64_t boot_slots(uint64_t first, uint64_t end, uint64_t size)
{
	if (end < first || size > end - first)
		return 0;
	return (end - first - size) / boot_kernel_align + 1;
}

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A number below n (n > 0): random, or with a seed always the same for a `purpose`. */
static uint64_t choose(const struct boot_image *image, unsigned int purpose, uint64_t n)
{
	uint64_t random;

	if (image->has_seed || getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = mix(mix(image->seed) + purpose);
	return random % n;
}

/* A place for a kernel that needs `size` bytes: random unless the command line forbids it, then the
 * lowest; 0 if there is none. */
static uint64_t choose_physical(const struct boot_image *image, uint64_t size)
{
	uint64_t slots = boot_slots(boot_kernel_min, image->ram_end, size);

	if (!slots || !image->kaslr)
		return slots ? boot_kernel_min : 0;
	return boot_kernel_min + choose(image, CHOOSE_PHYSICAL, slots) * boot_kernel_align;
}

/* --- the ELF's segments ----------------------------------------------------------------------- */

static int add_segment(struct layout *layout, const Elf64_Phdr *segment, struct error *err)
{
	struct segment *to = &layout->segments[layout->nr_segments];
	uint64_t end;

	if (layout->nr_segments == MAX_SEGMENTS)
		return error_set(err, E2BIG, "more than %d ELF segments", MAX_SEGMENTS);
	if (__builtin_add_overflow(segment->p_paddr, segment->p_memsz, &end) ||
	    segment->p_filesz > segment->p_memsz)
		return error_set_at(err, EBADMSG, segment->p_paddr, "bad ELF segment");
	*to = (struct segment){
		.offset = segment->p_offset, .phys = segment->p_paddr, .size = segment->p_filesz};
	layout->nr_segments++;
	if (segment->p_paddr < layout->phys) {
		layout->phys = segment->p_paddr;
		layout->virt = segment->p_vaddr;
	}
	if (end > layout->end)
		layout->end = end;
	return 0;
}

static int check_layout(struct layout *layout, uint64_t entry, struct error *err)
{
	uint64_t size = layout->end - layout->phys;

	layout->entry = entry >= kernel_map ? entry - layout->virt + layout->phys : entry;
	if (!layout->nr_segments || layout->virt < kernel_map || size > scratch_size ||
	    layout->virt - kernel_map > scratch_size - size || layout->entry - layout->phys >= size)
		return error_set(err, ENOEXEC, "not a Linux kernel for x86-64: odd ELF segments");
	return 0;
}

static int read_layout(const struct kernel_file *file, struct layout *layout, struct error *err)
{
	struct elf_view view;
	Elf64_Ehdr header;
	int ret = elf_view_init(&view, file->vmlinux, file->vmlinux_size, err);

	*layout = (struct layout){.phys = UINT64_MAX};
	for (unsigned int i = 0; !ret && i < view.nr_segments; i++) {
		Elf64_Phdr segment = elf_view_segment(&view, i);

		if (segment.p_type != PT_LOAD || !segment.p_memsz)
			continue;
		if (segment.p_offset > view.size || segment.p_filesz > view.size - segment.p_offset)
			return error_set_at(err, EBADMSG, segment.p_offset,
					    "ELF segment is cut off");
		ret = add_segment(layout, &segment, err);
	}
	if (ret)
		return ret;
	memcpy(&header, view.bytes, sizeof(header));
	return check_layout(layout, header.e_entry, err);
}

/* From an ELF that lies elsewhere. */
static int copy_kernel(const struct boot_image *image, const struct layout *layout, uint64_t *phys,
		       struct error *err)
{
	uint64_t size = layout->end - layout->phys;
	uint8_t *to;

	*phys = choose_physical(image, size);
	if (!*phys)
		return error_set(err, ENOMEM,
				 "the kernel (%" PRIu64
				 " MiB from 16 MiB on) and the initrd do not "
				 "fit in %" PRIu64 " MiB of RAM: give more with -m",
				 size / MIB + 1, image->memory->size / MIB);
	to = guest_memory_at(image->memory, *phys, size);
	for (size_t i = 0; i < layout->nr_segments; i++) {
		const struct segment *segment = &layout->segments[i];

		memcpy(to + (segment->phys - layout->phys), image->file->vmlinux + segment->offset,
		       segment->size);
	}
	return 0;
}

/* Kernels without a relocation table run where they are linked to, whatever the command line says.
 */
static uint64_t choose_virtual(const struct boot_image *image, const struct layout *layout)
{
	uint64_t slots =
		boot_slots(layout->virt, kernel_map + scratch_size, layout->end - layout->phys);

	if (!image->kaslr || !image->file->relocs)
		return 0;
	return choose(image, CHOOSE_VIRTUAL, slots) * boot_kernel_align;
}

/* The kernel is at `phys`; slide it and say where it begins. */
static int finish(struct boot_image *image, const struct layout *layout, uint64_t phys,
		  struct boot_entry *entry, struct error *err)
{
	uint64_t size = layout->end - layout->phys;
	uint64_t slide = choose_virtual(image, layout);
	int ret = kernel_file_relocate(image->file, guest_memory_at(image->memory, phys, size),
				       size, layout->virt, slide, err);

	if (ret < 0)
		return ret;
	/* Tells the kernel to randomise its memory regions as well. */
	if (image->kaslr && image->file->relocs)
		image->params->hdr.loadflags |= KASLR_FLAG;
	entry->rip = phys + (layout->entry - layout->phys);
	entry->info =
		(struct boot_info){.slide_known = true, .virt_slide = slide, .phys_text = phys};
	return 0;
}

/* --- a room to unpack in ---------------------------------------------------------------------- */

/*
 * Room in guest memory to unpack a compressed vmlinux where it will run, which saves a buffer of
 * its size, and a copy of most of it.
 *
 * An ELF begins with headers, padded to the alignment of its first segment, and the distances of
 * its segments in the file differ from those in memory. If the ELF is unpacked that much below the
 * kernel's place, the first segment is in place; the others have to move down a little. What the
 * segments do not fill (headers, relocation table, gaps) is cleared at the end: some of it is .bss.
 */
struct room {
	uint64_t phys;        /* where the kernel will begin */
	uint64_t kernel_size; /* free for the kernel from there on */
	uint8_t *at;          /* hva, below that, where the ELF begins */
	size_t size;          /* of what will be unpacked */
};

/* False if the vmlinux is not compressed, or there is no place for the room. */
static bool choose_room(const struct boot_image *image, struct room *room)
{
	const struct kernel_file *file = image->file;

	if (!file->packed)
		return false;
	*room = (struct room){.size = file->unpacked_size, .kernel_size = file->unpacked_size};
	/* .bss included, as the setup header claims; room_fits() checks the claim. */
	if (room->kernel_size < image->params->hdr.init_size)
		room->kernel_size = image->params->hdr.init_size;
	room->phys = choose_physical(image, room->kernel_size);
	if (!room->phys)
		return false;
	room->at = guest_memory_at(image->memory, room->phys - first_offset, room->size);
	return room->at;
}

/* Offset in the room. */
static uint64_t place_of(const struct layout *layout, const struct segment *segment)
{
	return first_offset + (segment->phys - layout->phys);
}

/* Whether the unpacked vmlinux can be moved to its places within the room: in file order each
 * segment stays or moves down, and overwrites nothing that is still to be moved. */
static bool room_fits(const struct room *room, const struct kernel_file *file,
		      const struct layout *layout)
{
	uint64_t low = 0;

	if (layout->end - layout->phys > room->kernel_size)
		return false;
	for (size_t i = 0; i < layout->nr_segments; i++) {
		const struct segment *segment = &layout->segments[i];
		uint64_t place = place_of(layout, segment);

		if (place < low || place > segment->offset)
			return false;
		low = place + segment->size;
		if (i + 1 < layout->nr_segments && low > layout->segments[i + 1].offset)
			return false;
	}
	return low <= file->vmlinux_size;
}

/* Move the segments to their places. The relocation table stays. */
static void settle(const struct room *room, const struct layout *layout)
{
	for (size_t i = 0; i < layout->nr_segments; i++) {
		const struct segment *segment = &layout->segments[i];
		uint64_t place = place_of(layout, segment);

		if (place != segment->offset)
			memmove(room->at + place, room->at + segment->offset, segment->size);
	}
}

/* Clear the room except for the segments; all of it if layout is NULL. */
static void clear_room(const struct room *room, const struct layout *layout)
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

/* --- loading --------------------------------------------------------------------------------- */

static int load_copied(struct boot_image *image, struct boot_entry *entry, struct error *err)
{
	struct layout layout;
	uint64_t phys = 0;
	int ret = kernel_file_unpack(image->file, NULL, err);

	if (ret)
		return ret;
	ret = read_layout(image->file, &layout, err);
	if (ret)
		return ret;
	ret = copy_kernel(image, &layout, &phys, err);
	return ret ? ret : finish(image, &layout, phys, entry, err);
}

static int load_in_place(struct boot_image *image, const struct room *room,
			 struct boot_entry *entry, struct error *err)
{
	struct layout layout;
	int ret = kernel_file_unpack(image->file, room->at, err);

	if (ret)
		return ret;
	ret = read_layout(image->file, &layout, err);
	if (ret)
		return ret;
	if (!room_fits(room, image->file, &layout)) {
		clear_room(room, NULL);
		return load_copied(image, entry, err);
	}
	settle(room, &layout);
	ret = finish(image, &layout, room->phys, entry, err);
	clear_room(room, &layout);
	return ret;
}

int boot_load_direct(struct boot_image *image, struct boot_entry *entry, struct error *err)
{
	struct room room;
	int ret = choose_room(image, &room) ? load_in_place(image, &room, entry, err)
					    : load_copied(image, entry, err);

	if (ret < 0)
		error_prefix(err, "%s: ", image->file->path);
	return ret;
}

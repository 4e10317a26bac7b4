// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Entering the vmlinux directly does on the host what the kernel's own decompressor does in the
 * guest (arch/x86/boot/compressed/misc.c and kaslr.c): place, copy segments, relocate.
 */
#include "vmm/boot/image.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include "guest-symbols/file/elf-view.h"

/* The window of virtual addresses for the kernel image (arch/x86/include/asm/page_64_types.h). */
static const uint64_t kernel_map = 0xffffffff80000000;
static const uint64_t scratch_size = 0x40000000;

enum { CHOOSE_PHYSICAL = 1, CHOOSE_VIRTUAL = 2, MIB = 0x100000 };

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

static int add_segment(struct boot_layout *layout, const Elf64_Phdr *segment, struct error *err)
{
	struct boot_segment *to = &layout->segments[layout->nr_segments];
	uint64_t end;

	if (layout->nr_segments == BOOT_MAX_SEGMENTS)
		return error_set(err, E2BIG, "more than %d ELF segments", BOOT_MAX_SEGMENTS);
	if (__builtin_add_overflow(segment->p_paddr, segment->p_memsz, &end) ||
	    segment->p_filesz > segment->p_memsz)
		return error_set_at(err, EBADMSG, segment->p_paddr, "bad ELF segment");
	*to = (struct boot_segment){
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

static int check_layout(struct boot_layout *layout, uint64_t entry, struct error *err)
{
	uint64_t size = layout->end - layout->phys;

	layout->entry = entry >= kernel_map ? entry - layout->virt + layout->phys : entry;
	if (!layout->nr_segments || layout->virt < kernel_map || size > scratch_size ||
	    layout->virt - kernel_map > scratch_size - size || layout->entry - layout->phys >= size)
		return error_set(err, ENOEXEC, "not a Linux kernel for x86-64: odd ELF segments");
	return 0;
}

static int read_layout(const struct kernel_file *file, struct boot_layout *layout,
		       struct error *err)
{
	struct elf_view view;
	Elf64_Ehdr header;
	int rc = elf_view_init(&view, file->vmlinux, file->vmlinux_size, err);

	*layout = (struct boot_layout){.phys = UINT64_MAX};
	for (unsigned int i = 0; !rc && i < view.nr_segments; i++) {
		Elf64_Phdr segment = elf_view_segment(&view, i);

		if (segment.p_type != PT_LOAD || !segment.p_memsz)
			continue;
		if (segment.p_offset > view.size || segment.p_filesz > view.size - segment.p_offset)
			return error_set_at(err, EBADMSG, segment.p_offset,
					    "ELF segment is cut off");
		rc = add_segment(layout, &segment, err);
	}
	if (rc)
		return rc;
	memcpy(&header, view.bytes, sizeof(header));
	return check_layout(layout, header.e_entry, err);
}

uint64_t boot_choose_physical(const struct boot_image *image, uint64_t size)
{
	uint64_t slots = boot_slots(boot_kernel_min, image->ram_end, size);

	if (!slots || !image->kaslr)
		return slots ? boot_kernel_min : 0;
	return boot_kernel_min + choose(image, CHOOSE_PHYSICAL, slots) * boot_kernel_align;
}

/* From an ELF that lies elsewhere. */
static int copy_kernel(const struct boot_image *image, const struct boot_layout *layout,
		       uint64_t *phys, struct error *err)
{
	uint64_t size = layout->end - layout->phys;
	uint8_t *to;

	*phys = boot_choose_physical(image, size);
	if (!*phys)
		return error_set(err, ENOMEM,
				 "the kernel (%" PRIu64
				 " MiB from 16 MiB on) and the initrd do not "
				 "fit in %" PRIu64 " MiB of RAM: give more with -m",
				 size / MIB + 1, image->memory->size / MIB);
	to = guest_memory_at(image->memory, *phys, size);
	for (size_t i = 0; i < layout->nr_segments; i++) {
		const struct boot_segment *segment = &layout->segments[i];

		memcpy(to + (segment->phys - layout->phys), image->file->vmlinux + segment->offset,
		       segment->size);
	}
	return 0;
}

/* Kernels without a relocation table run where they are linked to, whatever the command line says.
 */
static uint64_t choose_virtual(const struct boot_image *image, const struct boot_layout *layout)
{
	uint64_t slots =
		boot_slots(layout->virt, kernel_map + scratch_size, layout->end - layout->phys);

	if (!image->kaslr || !image->file->relocs)
		return 0;
	return choose(image, CHOOSE_VIRTUAL, slots) * boot_kernel_align;
}

/* The kernel is at `phys`; slide it and say where it begins. */
static int finish(struct boot_image *image, const struct boot_layout *layout, uint64_t phys,
		  struct boot_entry *entry, struct error *err)
{
	uint64_t size = layout->end - layout->phys;
	uint64_t slide = choose_virtual(image, layout);
	int rc = kernel_file_relocate(image->file, guest_memory_at(image->memory, phys, size), size,
			      layout->virt, slide, err);

	if (rc < 0)
		return rc;
	/* Tells the kernel to randomise its memory regions as well. */
	if (image->kaslr && image->file->relocs)
		image->params->hdr.loadflags |= KASLR_FLAG;
	entry->rip = phys + (layout->entry - layout->phys);
	entry->info =
		(struct vm_boot_info){.slide_known = true, .virt_slide = slide, .phys_text = phys};
	return 0;
}

static int load_copied(struct boot_image *image, struct boot_entry *entry, struct error *err)
{
	struct boot_layout layout;
	uint64_t phys = 0;
	int rc = kernel_file_unpack(image->file, NULL, err);

	if (!rc)
		rc = read_layout(image->file, &layout, err);
	if (!rc)
		rc = copy_kernel(image, &layout, &phys, err);
	return rc ? rc : finish(image, &layout, phys, entry, err);
}

static int load_in_place(struct boot_image *image, const struct boot_room *room,
			 struct boot_entry *entry, struct error *err)
{
	struct boot_layout layout;
	int rc = kernel_file_unpack(image->file, room->at, err);

	if (!rc)
		rc = read_layout(image->file, &layout, err);
	if (rc)
		return rc;
	if (!boot_room_fits(room, image->file, &layout)) {
		boot_room_clear(room, NULL);
		return load_copied(image, entry, err);
	}
	boot_room_settle(room, &layout);
	rc = finish(image, &layout, room->phys, entry, err);
	boot_room_clear(room, &layout);
	return rc;
}

int boot_load_direct(struct boot_image *image, struct boot_entry *entry, struct error *err)
{
	struct boot_room room;
	int rc = boot_room_choose(image, &room) ? load_in_place(image, &room, entry, err)
						: load_copied(image, entry, err);

	if (rc < 0)
		error_prefix(err, "%s: ", image->file->path);
	return rc;
}

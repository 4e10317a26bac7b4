// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Entering the vmlinux directly does on the host what the kernel's own decompressor does in the
 * guest (arch/x86/boot/compressed/misc.c and kaslr.c): place, copy segments, relocate.
 */
#include "vmm/boot-image.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include "guest-symbols/elf-view.h"
#include "guest-symbols/relocs.h"

/* The window of virtual addresses for the kernel image (arch/x86/include/asm/page_64_types.h). */
static const uint64_t kernel_map = 0xffffffff80000000;
static const uint64_t kernel_map_size = 0x40000000;

enum { CHOOSE_PHYSICAL = 1, CHOOSE_VIRTUAL = 2, MIB = 0x100000 };

/* Where the image is linked to run. */
struct link_layout {
	uint64_t phys, virt; /* of its lowest segment */
	uint64_t size;       /* to the end of its highest, .bss and .brk included */
	uint64_t entry;      /* physical */
};

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

uint64_t boot_choose(const struct boot_image *image, unsigned int purpose, uint64_t n)
{
	uint64_t random;

	if (image->has_seed || getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = mix(mix(image->seed) + purpose);
	return random % n;
}

static int read_layout(const struct elf_view *view, struct link_layout *layout, struct error *err)
{
	Elf64_Ehdr header;
	uint64_t end = 0;

	*layout = (struct link_layout){.phys = UINT64_MAX};
	for (unsigned int i = 0; i < view->nr_segments; i++) {
		Elf64_Phdr segment = elf_view_segment(view, i);
		uint64_t segment_end;

		if (segment.p_type != PT_LOAD || !segment.p_memsz)
			continue;
		if (__builtin_add_overflow(segment.p_paddr, segment.p_memsz, &segment_end) ||
		    segment.p_filesz > segment.p_memsz)
			return error_set_at(err, EBADMSG, segment.p_paddr, "bad ELF segment");
		if (segment.p_paddr < layout->phys) {
			layout->phys = segment.p_paddr;
			layout->virt = segment.p_vaddr;
		}
		if (segment_end > end)
			end = segment_end;
	}
	memcpy(&header, view->bytes, sizeof(header));
	layout->entry = header.e_entry >= kernel_map ? header.e_entry - layout->virt + layout->phys
						     : header.e_entry;
	layout->size = end - layout->phys;
	if (!end || layout->virt < kernel_map || layout->size > kernel_map_size ||
	    layout->virt - kernel_map > kernel_map_size - layout->size ||
	    layout->entry - layout->phys >= layout->size)
		return error_set(err, ENOEXEC, "not a Linux kernel for x86-64: odd ELF segments");
	return 0;
}

static int copy_segments(const struct elf_view *view, const struct link_layout *layout, uint8_t *to,
			 struct error *err)
{
	for (unsigned int i = 0; i < view->nr_segments; i++) {
		Elf64_Phdr segment = elf_view_segment(view, i);

		if (segment.p_type != PT_LOAD || !segment.p_memsz)
			continue;
		if (segment.p_offset > view->size ||
		    segment.p_filesz > view->size - segment.p_offset)
			return error_set_at(err, EBADMSG, segment.p_offset,
					    "ELF segment is cut off");
		memcpy(to + (segment.p_paddr - layout->phys), view->bytes + segment.p_offset,
		       segment.p_filesz);
	}
	return 0;
}

static int choose_physical(const struct boot_image *image, const struct link_layout *layout,
			   uint64_t *phys, struct error *err)
{
	uint64_t slots = boot_slots(boot_kernel_min, image->ram_end, layout->size);

	if (!slots)
		return error_set(err, ENOMEM,
				 "the kernel (%" PRIu64
				 " MiB from 16 MiB on) and the initrd do not "
				 "fit in %" PRIu64 " MiB of RAM: give more with -m",
				 layout->size / MIB + 1, image->memory->size / MIB);
	*phys = boot_kernel_min;
	if (image->kaslr)
		*phys += boot_choose(image, CHOOSE_PHYSICAL, slots) * boot_kernel_align;
	return 0;
}

/* Kernels without a relocation table run where they are linked to, whatever the command line says.
 */
static uint64_t choose_virtual(const struct boot_image *image, const struct link_layout *layout)
{
	uint64_t slots = boot_slots(layout->virt, kernel_map + kernel_map_size, layout->size);

	if (!image->kaslr || !image->file->relocs)
		return 0;
	return boot_choose(image, CHOOSE_VIRTUAL, slots) * boot_kernel_align;
}

static int load(struct boot_image *image, const struct elf_view *view, struct boot_entry *entry,
		struct error *err)
{
	struct link_layout layout;
	uint64_t phys = 0, slide;
	uint8_t *to;
	int rc = read_layout(view, &layout, err);

	if (rc < 0)
		return rc;
	rc = choose_physical(image, &layout, &phys, err);
	if (rc < 0)
		return rc;
	slide = choose_virtual(image, &layout);
	to = guest_memory_at(image->memory, phys, layout.size);
	rc = copy_segments(view, &layout, to, err);
	if (rc < 0)
		return rc;
	rc = relocs_apply(image->file, to, layout.size, layout.virt, slide, err);
	if (rc < 0)
		return rc;
	/* Tells the kernel to randomise its memory regions as well. */
	if (image->kaslr && image->file->relocs)
		image->params->hdr.loadflags |= KASLR_FLAG;
	entry->rip = phys + (layout.entry - layout.phys);
	entry->info =
		(struct vm_boot_info){.slide_known = true, .virt_slide = slide, .phys_text = phys};
	return 0;
}

int boot_load_direct(struct boot_image *image, struct boot_entry *entry, struct error *err)
{
	const struct kernel_file *file = image->file;
	struct elf_view view;
	int rc = elf_view_init(&view, file->vmlinux, file->vmlinux_size, err);

	if (!rc)
		rc = load(image, &view, entry, err);
	if (rc < 0)
		error_prefix(err, "%s: ", file->path);
	return rc;
}

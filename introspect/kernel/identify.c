/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/identify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/memory-image.h"

/* __START_KERNEL_map, and CONFIG_PHYSICAL_START's default (arch/x86/Kconfig). */
#define LINK_START 0xffffffff80000000ull
#define USUAL_LINK_TEXT 0xffffffff81000000ull
#define KERNEL_ALIGN (2ull << 20)
/* The greatest KERNEL_IMAGE_SIZE (Documentation/arch/x86/x86_64/mm.rst). */
#define IMAGES_SIZE (1ull << 30)

enum {
	PIECE = 2 << 20,
	COPY_MAX = BUDGET_OF_A_GUEST, /* more of a kernel is cut off */
	NOTE_BYTES = 4096,            /* VMCOREINFO_BYTES */
	BANNER_ALIGN = 16,            /* of an array this large, by the x86-64 psABI */
	BANNER_MAX = 256,
	STATE_BOOTED = 2, /* above SYSTEM_BOOTING and SYSTEM_SCHEDULING (linux/kernel.h) */
};

/* Pieces that do not follow the first one linearly are modules, or belong to others. */
static struct image_range range_in_tables(struct guest *guest, uint64_t root, unsigned int levels)
{
	struct image_range found = {0};

	for (uint64_t at = 0; at < IMAGES_SIZE; at += PIECE) {
		uint64_t gva = LINK_START + at;
		struct page_walk walk;

		if (page_walk(guest, root, levels, gva, &walk, NULL))
			continue;
		if (!found.size)
			found = (struct image_range){.gva = gva, .gpa = walk.gpa, .size = PIECE};
		else if (walk.gpa - found.gpa == gva - found.gva)
			found.size = gva - found.gva + PIECE;
	}
	return found;
}

/*
 * Search the tables of a vCPU in this state for what lies linearly in the range that x86-64 Linux
 * keeps for its image (Documentation/arch/x86/x86_64/mm.rst). The vCPU may be in user mode: under
 * page table isolation the kernel's own table is the page before that for user mode. False: another
 * system, the firmware, or a boot loader.
 */
static bool find_range(struct guest *guest, const struct guest_sregs *sregs,
		       struct image_range *out)
{
	unsigned int levels = vcpu_paging_levels(sregs);
	struct image_range other;

	*out = (struct image_range){0};
	if (vcpu_in_long_mode(sregs)) {
		*out = range_in_tables(guest, sregs->cr3, levels);
		other = range_in_tables(guest, vcpu_kernel_cr3(sregs->cr3), levels);
		/* Tables for user mode map a part of the kernel, or none. */
		if (other.size > out->size)
			*out = other;
	}
	return out->size;
}

static int find_mapping(struct guest *guest, const struct guest_sregs *vcpus, unsigned int n,
			struct kernel_identity *out, struct error *err)
{
	for (unsigned int i = 0; i < n; i++) {
		struct image_range mapping;

		if (!find_range(guest, &vcpus[i], &mapping) || mapping.size <= out->mapping.size)
			continue;
		out->mapping = mapping;
		out->vcpu = i;
	}
	if (out->mapping.size)
		return 0;
	return error_set(err, ENOENT,
			 "no vCPU is in a Linux kernel: another system, still in its firmware or "
			 "boot loader, or each in a guest of its own");
}

/* How many bytes of the mapping the guest's budget has room for. */
static size_t take_room(struct budget *budget, uint64_t size)
{
	size_t bytes = size < COPY_MAX ? size : COPY_MAX;

	while (bytes && !budget_take(budget, bytes))
		bytes -= PIECE;
	return bytes;
}

/* Unreadable pieces become zeros: the kernel has freed them, and nothing in them is needed. What
 * the guest's budget has no room for is cut off. */
static int copy_memory(struct guest *guest, const struct image_range *mapping,
		       struct memory_copy *memory, struct error *err)
{
	const size_t size = take_room(guest->budget, mapping->size);
	int ret = memory_copy_init(memory, mapping->gva, size, err);

	for (uint64_t at = 0; !ret && at < size; at += PIECE)
		if (guest_phys_read(guest, mapping->gpa + at, memory->bytes + at, PIECE, NULL))
			memset(memory->bytes + at, 0, PIECE);
	return ret;
}

static void drop_memory(struct guest *guest, struct memory_copy *memory)
{
	budget_give(guest->budget, memory->size);
	memory_copy_deinit(memory);
}

/* What is missed may be in the part that is cut off. */
static void tell_cut(const struct image_range *mapping, const struct memory_copy *memory,
		     struct error *err)
{
	if (memory->size < mapping->size && err)
		error_prefix(err,
			     "the first %zu of %" PRIu64 " MiB were read: ", memory->size >> 20,
			     mapping->size >> 20);
}

static const char banner_start[] = "Linux version ";

static bool has_banner(const struct memory_copy *memory)
{
	return memmem(memory->bytes, memory->size, banner_start, sizeof(banner_start) - 1);
}

/* A kernel that boots must get neither a device nor a patch. A kernel without the variable has
 * booted. */
static int check_booted(const struct kernel *kernel, struct error *err)
{
	uint32_t state;

	if (kernel_read_u32(kernel, "system_state", &state, NULL) || state >= STATE_BOOTED)
		return 0;
	return error_set(err, EAGAIN, "the kernel is still booting");
}

static int load_image(struct guest *guest, const struct kernel_given *given,
		      struct kernel_identity *out, struct error *err)
{
	struct memory_copy memory;
	int ret = copy_memory(guest, &out->mapping, &memory, err);

	if (!ret && !has_banner(&memory))
		ret = error_set_at(err, ENOENT, out->mapping.gva,
				   "what is mapped where Linux has its kernel is not Linux");
	if (!ret)
		ret = memory_image_load(&memory, given, &out->image, err);
	if (ret)
		tell_cut(&out->mapping, &memory, err);
	drop_memory(guest, &memory);
	return ret;
}

/*
 * The slide is in the note "KERNELOFFSET=SLIDE", which is meant for readers of crash dumps
 * (Documentation/admin-guide/kdump/vmcoreinfo.rst). False: the kernel has no such note.
 */
static bool read_slide(const struct kernel *kernel, uint64_t *slide)
{
	static const char key[] = "\nKERNELOFFSET=";
	uint64_t data = kernel_symbol(kernel, "vmcoreinfo_data"), gva = 0;
	char note[NOTE_BYTES + 1] = "";
	const char *at;

	if (!data || kernel_read(kernel, data, &gva, sizeof(gva), NULL) ||
	    kernel_read(kernel, gva, note, NOTE_BYTES, NULL))
		return false;
	at = strstr(note, key);
	if (!at)
		return false;
	*slide = strtoull(at + sizeof(key) - 1, NULL, 16);
	return *slide % KERNEL_ALIGN == 0 && *slide <= kernel->image->text - LINK_START;
}

static void find_slide(struct kernel_identity *out, uint64_t *slide)
{
	uint64_t text = out->image->text;

	out->slide_assumed = !read_slide(&out->kernel, slide);
	if (out->slide_assumed)
		*slide = text > USUAL_LINK_TEXT ? text - USUAL_LINK_TEXT : 0;
}

/* The image still has the addresses of the running kernel, without a slide. */
static int read_rest(struct guest *guest, struct kernel_identity *out, struct error *err)
{
	uint64_t *sites = NULL, slide = 0;
	size_t nr_sites = 0;
	int ret;

	kernel_at(&out->kernel, guest, out->image, 0, out->mapping.gpa);
	if (!out->kernel.confirmed)
		return error_set_at(err, EAGAIN, out->mapping.gva,
				    "the kernel's memory changes while it is read");
	ret = ftrace_sites_read(&out->kernel, &sites, &nr_sites, err);
	if (ret)
		return ret;
	find_slide(out, &slide);
	for (size_t i = 0; i < nr_sites; i++)
		sites[i] -= slide;
	ret = memory_image_finish(out->image, slide, sites, nr_sites, err);
	if (ret)
		return ret;
	kernel_at(&out->kernel, guest, out->image, slide, out->mapping.gpa);
	guest_kprobes_restore(&out->kernel, out->mapping.gva, out->image->init_bytes,
			      out->image->init_size);
	return check_booted(&out->kernel, err);
}

int kernel_identify(struct guest *guest, const struct guest_sregs *vcpus, unsigned int nr_vcpus,
		    const struct kernel_given *given, struct kernel_identity *out,
		    struct error *err)
{
	int ret;

	*out = (struct kernel_identity){0};
	ret = find_mapping(guest, vcpus, nr_vcpus, out, err);
	if (!ret)
		ret = load_image(guest, given, out, err);
	if (!ret)
		ret = read_rest(guest, out, err);
	if (ret) {
		kernel_image_destroy(out->image);
		out->image = NULL;
	}
	return ret;
}

/* --- a kernel whose file is at hand ----------------------------------------------------------- */

/*
 * Length of the banner at `text`, without its newline; 0: this is no banner. The kernel's log has
 * the line too, but without a newline and a NUL behind it. Since 6.1 an image has a second banner,
 * without a build number, which is a fallback for the linker and never printed (init/version.c).
 */
static size_t banner_length(const char text[static BANNER_MAX])
{
	static const char no_number[] = " # ";
	size_t n = 0;

	if (memcmp(text, banner_start, sizeof(banner_start) - 1))
		return 0;
	while (n < BANNER_MAX - 1 && text[n] >= ' ' && text[n] <= '~')
		n++;
	return n < BANNER_MAX - 1 && text[n] == '\n' && !text[n + 1] &&
			       !memmem(text, n, no_number, sizeof(no_number) - 1)
		       ? n
		       : 0;
}

/* Report the kernel that runs there instead of the image's. */
static int report_other(const struct memory_copy *memory, const struct kernel_image *image,
			struct error *err)
{
	for (size_t at = 0; at + BANNER_MAX <= memory->size; at += BANNER_ALIGN) {
		const char *text = (const char *)memory->bytes + at;
		size_t length = banner_length(text);

		if (!length)
			continue;
		if (image->banner && !strncmp(text, image->banner, length))
			return error_set(err, EAGAIN,
					 "that version runs there, but in another build, or it has "
					 "not set up its page tables yet");
		return error_set(err, ESTALE, "the guest runs another kernel: %.*s", (int)length,
				 text);
	}
	return error_set_at(err, ENOENT, memory->gva,
			    "what is mapped where Linux has its kernel is not Linux");
}

int kernel_check(struct guest *guest, const struct kernel_image *image,
		 const struct guest_sregs *vcpus, unsigned int nr_vcpus, struct kernel *out,
		 struct error *err)
{
	struct kernel_identity found = {0};
	struct memory_copy memory;
	int ret = find_mapping(guest, vcpus, nr_vcpus, &found, err);

	if (ret)
		return ret;
	kernel_at(out, guest, image, found.mapping.gva - image->text, found.mapping.gpa);
	if (out->confirmed)
		return check_booted(out, err);
	ret = copy_memory(guest, &found.mapping, &memory, err);
	if (!ret)
		ret = report_other(&memory, image, err);
	if (ret == -ENOENT)
		tell_cut(&found.mapping, &memory, err);
	drop_memory(guest, &memory);
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel-identify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/running-image.h"
#include "introspect/ftrace-sites.h"

/* __START_KERNEL_map, and CONFIG_PHYSICAL_START's default (arch/x86/Kconfig). */
#define LINK_START 0xffffffff80000000ull
#define USUAL_LINK_TEXT 0xffffffff81000000ull
#define KERNEL_ALIGN (2ull << 20)

enum { PIECE = 2 << 20, NOTE_BYTES = 4096 /* VMCOREINFO_BYTES */ };

static int find_mapping(struct guest *guest, const struct guest_sregs *vcpus, unsigned int n,
			struct kernel_identity *out, struct error *err)
{
	for (unsigned int i = 0; i < n; i++) {
		struct kernel_mapping mapping;

		if (kernel_mapping_find(guest, &vcpus[i], &mapping, NULL) ||
		    mapping.size <= out->mapping.size)
			continue;
		out->mapping = mapping;
		out->vcpu = i;
	}
	if (out->mapping.size)
		return 0;
	return error_set(err, ENOENT,
			 "no vCPU is in a Linux kernel: another system, or still in its firmware "
			 "or boot loader");
}

/* What cannot be read is a hole: nothing of it is needed if it was freed. */
static int copy_memory(struct guest *guest, const struct kernel_mapping *mapping,
		       struct running_memory *memory, struct error *err)
{
	int ret = running_memory_init(memory, mapping->gva, mapping->size, err);

	for (uint64_t at = 0; !ret && at < mapping->size; at += PIECE)
		if (guest_phys_read(guest, mapping->gpa + at, memory->bytes + at, PIECE, NULL))
			memset(memory->bytes + at, 0, PIECE);
	return ret;
}

static bool has_banner(const struct running_memory *memory)
{
	static const char start[] = "Linux version ";

	return memmem(memory->bytes, memory->size, start, sizeof(start) - 1);
}

static int load_image(struct guest *guest, struct kernel_identity *out, struct error *err)
{
	struct running_memory memory;
	int ret = copy_memory(guest, &out->mapping, &memory, err);

	if (!ret && !has_banner(&memory))
		ret = error_set_at(err, ENOENT, out->mapping.gva,
				   "what is mapped where Linux has its kernel is not Linux");
	if (!ret)
		ret = running_image_load(&memory, &out->image, err);
	running_memory_deinit(&memory);
	return ret;
}

/*
 * "KERNELOFFSET=SLIDE", which is meant for those who read crash dumps
 * (Documentation/admin-guide/kdump/vmcoreinfo.rst). False if the kernel does not have it.
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

/* The image still has the addresses of the running kernel: they need no slide. */
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
	ret = running_image_finish(out->image, slide, sites, nr_sites, err);
	if (!ret)
		kernel_at(&out->kernel, guest, out->image, slide, out->mapping.gpa);
	return ret;
}

int kernel_identify(struct guest *guest, const struct guest_sregs *vcpus, unsigned int nr_vcpus,
		    struct kernel_identity *out, struct error *err)
{
	int ret;

	*out = (struct kernel_identity){0};
	ret = find_mapping(guest, vcpus, nr_vcpus, out, err);
	if (!ret)
		ret = load_image(guest, out, err);
	if (!ret)
		ret = read_rest(guest, out, err);
	if (ret) {
		kernel_image_destroy(out->image);
		out->image = NULL;
	}
	return ret;
}

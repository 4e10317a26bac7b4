/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/kernel.h"

#include <errno.h>
#include <string.h>

#define KERNEL_ALIGN (2ull << 20) /* CONFIG_PHYSICAL_ALIGN is at least this on x86-64 */
/* __START_KERNEL_map and the greatest KERNEL_IMAGE_SIZE (Documentation/arch/x86/x86_64/mm.rst). */
#define KERNEL_MAP_START 0xffffffff80000000ull
#define KERNEL_MAP_SIZE (1ull << 30)

enum { MAX_COPIES = 8 };

/* Copies of the image in RAM: the running one, and what an earlier boot may have left. */
struct copies {
	size_t nr_images; /* image bytes found, running or not */
	struct kernel running[MAX_COPIES];
	size_t nr_running;
};

/*
 * Before its first instruction, and only then, an image also maps what lies below it: it is linked
 * with such tables, and __startup_64() removes the excess (arch/x86/kernel/head64.c).
 */
static bool tables_as_linked(const struct kernel *kernel)
{
	struct page_walk walk;

	return !kernel_walk(kernel, KERNEL_MAP_START, &walk, NULL);
}

/* The image's bytes are at base. Whether it runs there; then *out is filled in. */
static bool is_running_at(struct guest *guest, const struct kernel_image *image, uint64_t base,
			  struct kernel *out)
{
	uint64_t phys_base_link = symbols_address(image->symbols, "phys_base");
	uint64_t text_gva, phys_base;
	struct page_walk walk;

	if (guest_phys_read(guest, base + (phys_base_link - image->text), &phys_base,
			    sizeof(phys_base), NULL))
		return false;
	text_gva = base - phys_base + KERNEL_MAP_START;
	if (text_gva % KERNEL_ALIGN || text_gva < KERNEL_MAP_START + KERNEL_ALIGN ||
	    text_gva - KERNEL_MAP_START >= KERNEL_MAP_SIZE - (image->end - image->text))
		return false;
	kernel_at(out, guest, image, text_gva - image->text, base);
	if (kernel_walk(out, text_gva, &walk, NULL) || walk.gpa != base)
		return false;
	/* phys_base is 0 if both slides are equal, and before the kernel's first instruction. */
	return phys_base || !tables_as_linked(out);
}

static void try_place(struct guest *guest, const struct kernel_image *image, uint64_t base,
		      struct copies *copies)
{
	struct kernel *next = &copies->running[copies->nr_running];

	if (copies->nr_running == MAX_COPIES)
		return;
	*next = (struct kernel){.guest = guest, .image = image, .phys_text = base};
	if (!kernel_confirm(next))
		return;
	copies->nr_images++;
	if (is_running_at(guest, image, base, next))
		copies->nr_running++;
}

static void try_all_places(const struct kernel_image *image, struct guest *guest,
			   const struct guest_region *regions, size_t n, struct copies *copies)
{
	uint64_t image_size = image->end - image->text;

	for (size_t i = 0; i < n; i++) {
		uint64_t end = regions[i].gpa + regions[i].size;
		uint64_t base = (regions[i].gpa + KERNEL_ALIGN - 1) & ~(KERNEL_ALIGN - 1);

		for (; base < end && end - base >= image_size; base += KERNEL_ALIGN)
			try_place(guest, image, base, copies);
	}
}

/* Several copies may look alive: find the one that a vCPU is in. */
static int choose_running(const struct copies *copies, struct kernel *out, struct error *err)
{
	struct guest *guest = copies->running[0].guest;

	for (size_t i = 0; i < copies->nr_running; i++) {
		for (unsigned int vcpu = 0; vcpu < guest->nr_vcpus; vcpu++) {
			bool maps = false;

			if (!guest->control->stop || guest->control->stop(guest, NULL))
				continue;
			if (kernel_cr3_maps_kernel(&copies->running[i], vcpu, &maps, NULL))
				maps = false;
			guest->control->resume(guest, NULL);
			if (maps) {
				*out = copies->running[i];
				return 0;
			}
		}
	}
	return error_set(err, EAGAIN,
			 "%zu copies of the kernel are in memory, and no vCPU is in one",
			 copies->nr_running);
}

static int check_image(const struct kernel_image *image, struct error *err)
{
	static const char *const needed[] = {"linux_banner", "phys_base", "init_top_pgt"};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!symbols_address(image->symbols, needed[i]))
			return error_set(err, ENOTSUP, "the image has no symbol %s", needed[i]);
	if (!image->banner || image->end <= image->text ||
	    image->end - image->text >= KERNEL_MAP_SIZE)
		return error_set(err, ENOTSUP, "the image has no banner or no plausible size");
	return 0;
}

int kernel_find(struct guest *guest, const struct kernel_image *image, struct kernel *out,
		struct error *err)
{
	const struct guest_region *regions;
	struct copies copies = {0};
	size_t n;
	int ret = check_image(image, err);

	if (!ret)
		ret = guest->memory->regions(guest, &regions, &n, err);
	if (ret)
		return ret;
	try_all_places(image, guest, regions, n, &copies);
	if (copies.nr_running > 1)
		return choose_running(&copies, out, err);
	if (copies.nr_running) {
		*out = copies.running[0];
		return 0;
	}
	if (copies.nr_images)
		return error_set(err, EAGAIN, "the kernel is in memory and does not run yet");
	return error_set(err, EAGAIN, "no kernel in memory yet");
}

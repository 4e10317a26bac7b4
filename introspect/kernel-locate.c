// SPDX-License-Identifier: GPL-2.0-or-later
#include "introspect/kernel.h"

#include <errno.h>
#include <string.h>

#define KERNEL_ALIGN (2ull << 20) /* CONFIG_PHYSICAL_ALIGN is at least this on x86-64 */
/* __START_KERNEL_map and the greatest KERNEL_IMAGE_SIZE (Documentation/arch/x86/x86_64/mm.rst). */
#define KERNEL_MAP_START 0xffffffff80000000ull
#define KERNEL_MAP_SIZE (1ull << 30)

enum {
	MAX_COPIES = 8,
	BANNER_ALIGN = 16, /* of an array this large, by the x86-64 psABI */
	BANNER_MAX = 256,
};
#define BANNER_SCAN_LIMIT (4ull << 30)

/* Copies of the image in RAM: the running one, and what an earlier boot may have left. */
struct copies {
	size_t nr_images; /* image bytes found, running or not */
	struct kernel running[MAX_COPIES];
	size_t nr_running;
};

/*
 * Before its first instruction, and only then, an image also maps what lies below it: the tables
 * are linked that way, and __startup_64() takes the excess away (arch/x86/kernel/head64.c).
 */
static bool tables_as_linked(const struct kernel *kernel)
{
	struct page_walk walk;

	return !kernel_walk(kernel, KERNEL_MAP_START, &walk, NULL);
}

/* The image's bytes are at base: does it run there? Fills *out if so. */
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
	/* phys_base is still 0: either correct (slides equal), or nothing has run yet. */
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

/* Of several copies that all look alive, the one a vCPU runs on. */
static int choose_running(const struct copies *copies, struct kernel *out, struct error *err)
{
	struct guest *guest = copies->running[0].guest;

	for (size_t i = 0; i < copies->nr_running; i++) {
		for (unsigned int vcpu = 0; vcpu < guest->nr_vcpus; vcpu++) {
			bool maps = false;

			if (!guest->ops->stop || guest->ops->stop(guest, NULL))
				continue;
			if (kernel_cr3_maps_kernel(&copies->running[i], vcpu, &maps, NULL))
				maps = false;
			guest->ops->resume(guest, NULL);
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

/*
 * Since 6.1 an image has a second banner, one without a build number, that is linked in for want of
 * a better one and never printed (init/version.c).
 */
static bool is_placeholder(const char *banner, size_t length)
{
	static const char no_number[] = " # ";

	return memmem(banner, length, no_number, sizeof(no_number) - 1);
}

static const char banner_prefix[] = "Linux version ";

/* Length of the banner in `text`, which begins like one, without its newline; 0 if it is none. */
static size_t banner_length(const char text[static BANNER_MAX])
{
	size_t n = sizeof(banner_prefix) - 1;

	while (n < BANNER_MAX - 1 && text[n] >= ' ' && text[n] <= '~')
		n++;
	/* The kernel's log has the line too, but not a newline and a NUL after it. */
	return n < BANNER_MAX - 1 && text[n] == '\n' && !text[n + 1] ? n : 0;
}

/* Whether another kernel's banner is at `text`, where `size` bytes are mapped; *banner gets it. */
static bool is_other_banner(const struct kernel_image *image, const void *text, uint64_t size,
			    char banner[static BANNER_MAX])
{
	size_t length;

	if (size < BANNER_MAX || memcmp(text, banner_prefix, sizeof(banner_prefix) - 1))
		return false;
	/* The guest may be writing there: what is judged is what is returned. */
	memcpy(banner, text, BANNER_MAX);
	length = banner_length(banner);
	if (!length || is_placeholder(banner, length) || !strncmp(banner, image->banner, length))
		return false;
	banner[length] = '\0';
	return true;
}

/* Whether some other kernel's banner is in one of the first gigabytes of mapped RAM. */
static bool find_other_banner(const struct kernel_image *image, const struct guest_region *regions,
			      size_t n, char banner[static BANNER_MAX])
{
	uint64_t budget = BANNER_SCAN_LIMIT;

	for (size_t i = 0; i < n; i++) {
		uint64_t size = regions[i].size < budget ? regions[i].size : budget;

		budget -= size;
		for (uint64_t at = 0; regions[i].hva && at < size; at += BANNER_ALIGN)
			if (is_other_banner(image, regions[i].hva + at, size - at, banner))
				return true;
	}
	return false;
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

/* As kernel_find(); *present tells whether the image is in memory, running or not. */
static int find(struct guest *guest, const struct kernel_image *image, struct kernel *out,
		bool *present, struct error *err)
{
	const struct guest_region *regions;
	struct copies copies = {0};
	size_t n;
	int rc = check_image(image, err);

	if (!rc)
		rc = guest->ops->regions(guest, &regions, &n, err);
	if (rc)
		return rc;
	try_all_places(image, guest, regions, n, &copies);
	*present = copies.nr_images > 0;
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

int kernel_find(struct guest *guest, const struct kernel_image *image, struct kernel *out,
		struct error *err)
{
	bool present;

	return find(guest, image, out, &present, err);
}

int kernel_locate(struct guest *guest, const struct kernel_image *image, struct kernel *out,
		  struct error *err)
{
	bool present = false;
	int rc = find(guest, image, out, &present, err);
	const struct guest_region *regions;
	char other[BANNER_MAX];
	size_t n;

	if (rc == -EAGAIN && !present && !guest->ops->regions(guest, &regions, &n, NULL) &&
	    find_other_banner(image, regions, n, other))
		return error_set(err, ENOENT, "the guest runs another kernel: %s", other);
	return rc;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/introspect/identity-facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "guest-symbols/image/mcount.h"
#include "introspect/kernel/identify.h"

static void print(const char *what, size_t compared, size_t different)
{
	printf("identity %s %zu compared, %zu different\n", what, compared, different);
}

static void print_symbols(const struct kernel_image *file, const struct kernel_image *memory)
{
	size_t n = symbols_count(file->symbols), different = 0;

	for (size_t i = 0; i < n; i++) {
		const struct symbol *a = symbols_at(file->symbols, i);
		const struct symbol *b = symbols_at(memory->symbols, i);

		different += !b || a->address != b->address || a->size != b->size ||
			     a->type != b->type || strcmp(a->name, b->name) != 0;
	}
	different += symbols_count(memory->symbols) != n;
	print("symbols", n, different);
}

static void print_btf(const struct kernel_image *file, const struct kernel_image *memory)
{
	uint64_t start = symbols_address(file->symbols, "__start_BTF");
	size_t size = symbols_address(file->symbols, "__stop_BTF") - start;
	const uint8_t *a = kernel_image_bytes(file, start, size);
	const uint8_t *b = kernel_image_bytes(memory, start, size);
	size_t types = file->btf ? btf_count(file->btf) : 0;

	print("BTF", size,
	      !a || !b || memcmp(a, b, size) || !memory->btf || btf_count(memory->btf) != types);
}

static bool has_site(const struct kernel_image *image, uint64_t link)
{
	return site_in_range(image->mcount_sites, image->nr_mcount_sites, link, link + 1);
}

/* The sites in memory must be those of the file, except for init functions, which are freed after
 * boot. */
static void print_sites(const struct kernel_image *file, const struct kernel_image *memory)
{
	uint64_t init = symbols_address(file->symbols, "__init_begin");
	uint64_t init_end = symbols_address(file->symbols, "__init_end");
	size_t n = 0, different = 0;

	for (size_t i = 0; i < file->nr_mcount_sites; i++) {
		uint64_t site = file->mcount_sites[i];

		if (site >= init && site < init_end)
			continue;
		n++;
		different += !has_site(memory, site);
	}
	for (size_t i = 0; i < memory->nr_mcount_sites; i++)
		different += !has_site(file, memory->mcount_sites[i]);
	print("sites", n, different + (memory->nr_mcount_sites != n));
}

static bool point_differs(const struct alloc_point *a, const struct alloc_point *b)
{
	return strcmp(a->entry.name, b->entry.name) != 0 || a->entry.type != b->entry.type ||
	       a->entry.action != b->entry.action ||
	       memcmp(a->entry.args, b->entry.args, sizeof(a->entry.args)) != 0 ||
	       a->address != b->address || a->size != b->size || a->site != b->site ||
	       a->nr_params != b->nr_params;
}

static void print_points(const struct kernel_image *file, const struct kernel_image *memory)
{
	const struct alloc_points *a, *b;
	size_t different;

	if (alloc_points_of(file, &a, NULL) || alloc_points_of(memory, &b, NULL))
		abort();
	different = a->n != b->n || a->nr_unresolved != b->nr_unresolved ||
		    a->nr_emitters != b->nr_emitters;
	for (size_t i = 0; i < a->n && i < b->n; i++)
		different += point_differs(&a->v[i], &b->v[i]);
	for (size_t i = 0; i < a->nr_emitters && i < b->nr_emitters; i++)
		different += a->emitters[i].address != b->emitters[i].address ||
			     a->emitters[i].cover != b->emitters[i].cover;
	print("entry points", a->n, different);
}

static void print_notes(const struct kernel_image *file, const struct kernel_image *memory)
{
	static struct trace_info a, b;

	print("banner", strlen(file->banner), strcmp(file->banner, memory->banner) != 0);
	print("build id", file->build_id_size,
	      file->build_id_size != memory->build_id_size ||
		      memcmp(file->build_id, memory->build_id, file->build_id_size));
	gfp_names_read(file, &a);
	gfp_names_read(memory, &b);
	print("GFP names", a.nr_gfp_names,
	      memcmp(a.gfp_names, b.gfp_names, sizeof(a.gfp_names)) != 0);
}

void print_identity(const struct kernel *known, unsigned int vcpu)
{
	struct guest *guest = known->guest;
	struct kernel_identity found;
	struct guest_sregs sregs;
	struct error err = {0};
	int ret = guest->control->get_sregs(guest, vcpu, &sregs, &err);

	if (!ret)
		ret = kernel_identify(guest, &sregs, 1, NULL, &found, &err);
	if (ret) {
		printf("identity error %d %s\n", ret, err.text);
		return;
	}
	printf("identity %" PRIx64 " %" PRIx64 " %s\n", found.kernel.virt_slide,
	       found.kernel.phys_text, found.slide_assumed ? "assumed" : "known");
	print_symbols(known->image, found.image);
	print_btf(known->image, found.image);
	print_sites(known->image, found.image);
	print_points(known->image, found.image);
	print_notes(known->image, found.image);
	kernel_image_destroy(found.image);
}

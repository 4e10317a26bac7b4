/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The models that are built in. This file alone knows the allocators; to add a model, add a row.
 *
 * Sources of the figures: mm/slub.c, mm/slab.c, mm/slob.c and mm/slab_common.c of the versions that
 * the rows name.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "formats/allocators/allocator.h"
#include "formats/base/text.h"

extern const struct allocator_ops slab_allocator;
extern const struct allocator_ops slob_allocator;
extern const struct allocator_ops slub_allocator;

/* The sizes of kmalloc() caches in SLUB; more is left to the page allocator. */
#define SLUB_SIZES                                                                        \
	.kmalloc_sizes = {8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192}, \
	.nr_kmalloc_sizes = 13

/* What all of SLUB have in common. */
#define SLUB_CACHE                                                                           \
	.align = MODEL_AUTO, .order = MODEL_AUTO, .order_max = 3, .min_objects = MODEL_AUTO, \
	.cpu_partial = MODEL_AUTO, .min_partial = MODEL_AUTO, .cpu_array = MODEL_AUTO

/* lib/maple_tree.c wants sheaves of this size, and is alone in filling some beforehand. The caches
 * that sheaves are made with have none. */
#define SHEAVES_OF_CACHES                                                        \
	.rules = {{"maple_node", offsetof(struct cache_params, sheaf), 32},      \
		  {"maple_node", offsetof(struct cache_params, prefilled), 1},   \
		  {"kmem_cache", offsetof(struct cache_params, sheaf), 0},       \
		  {"kmem_cache_node", offsetof(struct cache_params, sheaf), 0}}, \
	.nr_rules = 4

#define MODEL(name_, about_, ...)                                                           \
	{                                                                                   \
		.name = name_, .about = about_, .cpus = MODEL_AUTO, .nodes = 1, __VA_ARGS__ \
	}

const struct model model_table[] = {
	MODEL("slub-5.10", "SLUB of Linux 3.2 to 5.15: CPUs' partial lists are bounded by objects",
	      .ops = &slub_allocator, .cache = {SLUB_CACHE}, SLUB_SIZES, .kmalloc_copies = 1,
	      .order_relaxes = 1, .partial_objects = 1),
	MODEL("slub-6.1", "SLUB of Linux 5.16 to 6.6: CPUs' partial lists are bounded by slabs",
	      .ops = &slub_allocator, .cache = {SLUB_CACHE}, SLUB_SIZES, .kmalloc_copies = 1,
	      .order_relaxes = 1),
	MODEL("slub-6.12", "SLUB since Linux 6.7: another rule for orders", .ops = &slub_allocator,
	      .cache = {SLUB_CACHE}, SLUB_SIZES, .kmalloc_copies = 1),
	MODEL("slub-6.12-random", "that with CONFIG_RANDOM_KMALLOC_CACHES", .ops = &slub_allocator,
	      .cache = {SLUB_CACHE}, SLUB_SIZES, .kmalloc_copies = 16),
	MODEL("slub-6.12-buckets",
	      "that with CONFIG_SLAB_BUCKETS, since Linux 6.11: caches for what users fill",
	      .ops = &slub_allocator, .cache = {SLUB_CACHE}, SLUB_SIZES, .kmalloc_copies = 1,
	      .kmalloc_buckets = 1),
	MODEL("slub-7.0", "SLUB since Linux 7.0: sheaves in all caches", .ops = &slub_allocator,
	      .cache = {SLUB_CACHE, .sheaf = MODEL_AUTO}, SLUB_SIZES, .kmalloc_copies = 1,
	      SHEAVES_OF_CACHES),
	MODEL("slab-5.10", "SLAB, with kmalloc() caches up to 4 MiB", .ops = &slab_allocator,
	      .cache = {.align = MODEL_AUTO, .order_max = 1, .cpu_array = MODEL_AUTO},
	      .kmalloc_sizes = {32,      64,      96,      128,     192,     256,     512,
				1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16,
				1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22},
	      .nr_kmalloc_sizes = 20, .kmalloc_copies = 1),
	MODEL("slob-5.10", "SLOB, the allocator of small machines", .ops = &slob_allocator,
	      .cache = {.align = MODEL_AUTO}, .kmalloc_copies = 1),
	{.name = ""},
};
enum { NR_MODELS = sizeof(model_table) / sizeof(model_table[0]) - 1 };

int model_find(const char *name, struct model *out, struct error *err)
{
	const char *names[NR_MODELS + 1] = {NULL};
	const char *near;

	for (size_t i = 0; i < NR_MODELS; i++) {
		names[i] = model_table[i].name;
		if (!strcmp(names[i], name)) {
			*out = model_table[i];
			return 0;
		}
	}
	near = text_nearest(name, names);
	if (near)
		return error_set(err, ENOENT, "there is no model '%s': did you mean '%s'?", name,
				 near);
	return error_set(err, ENOENT, "there is no model '%s': take %s, or ./FILE", name,
			 text_words(names).s);
}

static int slub_of_version(const char *banner, struct model *out, struct error *err)
{
	/* The first versions that differ from those before. */
	static const struct {
		unsigned int major, minor;
		const char *name;
	} rows[] = {
		{7, 0, "slub-7.0"}, {6, 7, "slub-6.12"}, {5, 16, "slub-6.1"}, {0, 0, "slub-5.10"}};
	unsigned int major, minor;
	size_t i = 0;

	if (sscanf(banner, "Linux version %4u.%4u", &major, &minor) != 2)
		return error_set(err, EINVAL,
				 "the trace does not say which kernel the guest ran: "
				 "choose a model with --allocator");
	while (major < rows[i].major || (major == rows[i].major && minor < rows[i].minor))
		i++;
	return model_find(rows[i].name, out, err);
}

int model_of_guest(const char *allocator, const char *banner, struct model *out, struct error *err)
{
	int ret;

	if (!*allocator || !strcmp(allocator, "slub"))
		ret = slub_of_version(banner, out, err);
	else if (!strcmp(allocator, "slab"))
		ret = model_find("slab-5.10", out, err);
	else if (!strcmp(allocator, "slob"))
		ret = model_find("slob-5.10", out, err);
	else
		ret = error_set(err, EINVAL,
				"there is no model of the guest's slab allocator '%s': "
				"choose one with --allocator",
				allocator);
	if (!ret)
		out->nr_kmalloc_sizes = 0;
	return ret;
}

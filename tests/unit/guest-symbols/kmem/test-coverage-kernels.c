/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether the entry points of Debian's kernels cover all functions that emit events: what they miss
 * is known, and no entry point can be left out without being missed. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory than build/kernels.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

/* What is not covered in Debian's kernels. */
static const struct known {
	const char *version;
	const char *not_covered; /* "function: reason. " for each */
} known[] = {
	{"5.10", ""}, {"6.1", ""}, {"6.1-generic", ""}, {"6.12", ""}, {"6.12-rt", ""},
	{"6.17", ""}, {"7.0", ""}, {"7.1", ""},         {"7.2", ""},  {"7.3", ""},
};

static void is_uncovered(const struct alloc_points *points, const char *want, const char *label)
{
	char got[1024] = "";

	for (size_t i = 0; i < points->nr_emitters; i++)
		if (points->emitters[i].cover == ALLOC_COVER_NONE)
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s: %s. ",
				 points->emitters[i].function, points->emitters[i].reason);
	is_str(got, want, label);
}

/* A copy with all entry points but one; for alloc_points_free(). */
static struct alloc_points all_but(const struct alloc_points *all, size_t one)
{
	struct alloc_points less = {.v = calloc(all->n, sizeof(*less.v))};

	for (size_t i = 0; i < all->n; i++) {
		struct alloc_entry *entry = &less.v[less.n].entry;

		if (i == one)
			continue;
		less.v[less.n++] = all->v[i];
		if (!entry->calls)
			continue;
		entry->calls = calloc(entry->nr_calls, sizeof(*entry->calls));
		memcpy(entry->calls, all->v[i].entry.calls,
		       entry->nr_calls * sizeof(*entry->calls));
	}
	return less;
}

/* Without one of its entry points, whatever it is, the proof of a kernel fails at that one. */
static void test_each_missing(const struct kernel_image *image, const struct alloc_points *all,
			      const char *version)
{
	size_t found = 0, tried = 0;

	for (size_t i = 0; i < all->n; i++) {
		struct alloc_points less = all_but(all, i);
		bool emits = false, missed = false;

		for (size_t e = 0; e < all->nr_emitters; e++)
			emits |= all->emitters[e].address == all->v[i].address;
		if (emits) {
			if (alloc_points_prove(image, &less, NULL))
				abort();
			for (size_t e = 0; e < less.nr_emitters; e++)
				missed |= less.emitters[e].address == all->v[i].address &&
					  less.emitters[e].cover == ALLOC_COVER_NONE;
			/* discovered again, if it allocates */
			missed |=
				less.n == all->n && less.v[all->n - 1].address == all->v[i].address;
			tried++;
			found += missed;
			if (!missed)
				tap_diag("%s is not missed", all->v[i].entry.name);
		}
		alloc_points_free(&less);
	}
	ok(tried > 10 && found == tried, "%s: each of %zu entry points is missed without it",
	   version, tried);
}

static void test_kernel(const struct known *k)
{
	const struct alloc_points *points;
	struct kernel_image *image = NULL;
	struct kernel_file *file = NULL;
	struct error err = {0};
	char path[FETCHED_KERNEL_PATH];

	fetched_kernel_path(path, k->version);
	if (kernel_file_open(path, &file, &err)) {
		tap_skip(k->version, err.text);
		return;
	}
	if (ok(!kernel_image_load(file, NULL, &image, &err) &&
		       !alloc_points_of(image, &points, &err),
	       "%s is loaded (%s)", k->version, err.text)) {
		char label[64];

		ok(points->nr_emitters > 12 && !points->unproven[0],
		   "%s: %zu functions emit events", k->version, points->nr_emitters);
		snprintf(label, sizeof(label), "%s: what is not covered is known", k->version);
		is_uncovered(points, k->not_covered, label);
		test_each_missing(image, points, k->version);
	}
	kernel_image_destroy(image);
	kernel_file_close(file);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		test_kernel(&known[i]);
	return tap_done();
}

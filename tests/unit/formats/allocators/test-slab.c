/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The model of SLAB at work: its arrays, its timer, and what its nodes keep. */
#include "tests/lib/simulate.h"
#include "tests/lib/tap.h"

/* Something happens on a CPU at a time in ms. Returns whether its timer ran. */
static bool pass(struct simulation *s, unsigned int cpu, int64_t ms)
{
	const int64_t ns = ms * 1000000;
	const bool is_due = simulation_is_due(s, cpu, ns);

	if (is_due)
		simulation_run_timer(s, cpu, ns);
	return is_due;
}

static void pass_often(struct simulation *s, unsigned int cpu, int64_t from_ms)
{
	for (int64_t i = 0; i <= 100; i++)
		pass(s, cpu, from_ms + 2000 * i);
}

/* 4 objects to a page, and arrays of 8, of which 4 move at once: a node keeps 12 free objects. */
static void test_slab(void)
{
	struct simulation *s = make("base = slab-5.10\ncpu_array = 8\norder_max = 0\n", 1);

	fill(s, 0, 40, 0);
	ok(simulation_pages(s) == 10, "SLAB: 40 objects take 10 pages");
	drop(s, 0, 8, 1, 0);
	ok(simulation_pages(s) == 10, "the array of the CPU keeps what it freed");
	fill(s, 100, 8, 0);
	ok(simulation_pages(s) == 10, "and gives it to the next allocations");
	drop(s, 100, 8, 1, 0);
	drop(s, 8, 32, 1, 0);
	ok(simulation_pages(s) == 5, "the array keeps 2 slabs, the node those of 12 free objects");
	pass_often(s, 0, 0);
	ok(!simulation_pages(s), "what is not used is given back over time");
	simulation_destroy(s);
}

static void test_slab_told(void)
{
	struct simulation *s = make("base = slab-5.10\ncpu_array = 8\norder_max = 0\n", 1);

	fill(s, 0, 40, 0);
	drop(s, 0, 40, 1, 0);
	simulation_look(s, "c", 0);
	ok(simulation_pages(s) == 5, "the guest's timer looks at the CPU's array first");
	simulation_look(s, "d", 0);
	simulation_look(s, "c", 0);
	ok(simulation_pages(s) == 4, "and the next time takes of it what was not used");
	simulation_look(s, "c", 0);
	ok(simulation_pages(s) == 3, "and then looks at the node, which gives a slab back");
	pass_often(s, 0, 0);
	ok(simulation_pages(s) == 3, "the model has no timer beside it");
	simulation_destroy(s);
}

static void test_slab_sharing(void)
{
	struct simulation *s = make("base = slab-5.10\ncpu_array = 8\norder_max = 0\n", 2);

	fill(s, 0, 32, 0);
	drop(s, 0, 32, 1, 0);
	ok(simulation_pages(s) == 8, "SLAB: CPUs share an array of 8 batches");
	fill(s, 100, 16, 1);
	ok(simulation_pages(s) == 8, "which serves the other CPU");
	simulation_destroy(s);
	s = make("base = slab-5.10\n", 1);
	kmalloc_at(s, 2, "kmalloc-8", 1, 0);
	alloc_from(s, 3, "tiny", 8, 0);
	alloc_from(s, 4, "tiny", 8, 0);
	ok(simulation_nr_caches(s) == 2 && find(s, "tiny")->slot == 16,
	   "objects of SLAB take 16 bytes at least");
	kmalloc_at(s, 1, "kmalloc-64", 3000000, 0);
	ok(find(s, "kmalloc-4096k") && find(s, "kmalloc-4096k")->pages == 1024,
	   "kmalloc() of SLAB has caches up to 4 MiB");
	ok(!simulation_is_due(s, 0, INT64_MIN) && !simulation_is_due(s, 0, INT64_MAX),
	   "times may be any distance apart");
	simulation_destroy(s);
}

static void test_slab_timer(void)
{
	static const char text[] = "base = slab-5.10\ncpu_array = 8\norder_max = 0\n";
	struct simulation *s = make(text, 2);

	fill(s, 0, 8, 0);
	drop(s, 0, 8, 1, 0);
	pass_often(s, 1, 0);
	ok(simulation_pages(s) == 2, "SLAB: a CPU's timer leaves the array of another CPU alone");
	pass_often(s, 0, 300000);
	ok(!simulation_pages(s), "but not its own");
	simulation_destroy(s);
	s = make(text, 2);
	ok(!pass(s, 0, 100) && !pass(s, 0, 900) && pass(s, 0, 1000),
	   "a timer runs at a whole second,");
	ok(pass(s, 0, 5600) && !pass(s, 0, 7900) && pass(s, 0, 8000),
	   "later if nothing happens on the CPU,");
	simulation_drained(s, "c", 0, INT64_C(10200000000));
	ok(!pass(s, 0, 12100) && pass(s, 0, 12200) && !pass(s, 1, 12300) && pass(s, 1, 13200),
	   "and at the guest's seconds, once one is seen");
	simulation_destroy(s);
}

/* Of 12 objects that are freed, 4 are in a slab of their own. */
static void test_slab_reaping(void)
{
	static const char text[] = "base = slab-5.10\ncpu_array = 8\norder_max = 0\n";
	struct simulation *s = make(text, 1);

	fill(s, 0, 12, 0);
	drop(s, 0, 12, 1, 0);
	pass(s, 0, 0);
	ok(pass(s, 0, 1000) && simulation_pages(s) == 2,
	   "SLAB: to get new slabs is no use of empty ones, which the timer gives back");
	simulation_destroy(s);
	s = make(text, 1);
	simulation_follow_timer(s);
	fill(s, 0, 12, 0);
	drop(s, 0, 12, 1, 0);
	pass_often(s, 0, 0);
	ok(simulation_pages(s) == 3, "if the guest has such a timer, it says when slabs go");
	simulation_drained(s, "d", 0, INT64_C(300000000000));
	ok(simulation_pages(s) == 3, "of which cache,");
	simulation_drained(s, "c", 0, INT64_C(300000000000));
	simulation_drained(s, "c", 0, INT64_C(300000000001));
	ok(simulation_pages(s) == 2, "but not how many: a fifth at once");
	simulation_destroy(s);
}

/* What 80 objects leave behind that are allocated and freed on the first of 2 CPUs. */
static uint64_t pages_kept_by(const char *cache, bool from_start, unsigned int first_cpu)
{
	struct simulation *s = make("base = slab-5.10\ncpu_array = 8\norder_max = 0\n", 2);
	uint64_t pages;

	if (from_start)
		simulation_from_start(s);
	alloc_from(s, 1000, "other", 1024, first_cpu);
	for (uint64_t i = 0; i < 80; i++)
		alloc_from(s, i, cache, 1024, 0);
	drop(s, 0, 80, 1, 0);
	pages = find(s, cache)->pages;
	simulation_destroy(s);
	return pages;
}

static uint64_t pages_kept(bool from_start, unsigned int first_cpu)
{
	return pages_kept_by("c", from_start, first_cpu);
}

static void test_slab_start(void)
{
	ok(pages_kept(true, 0) + 1 == pages_kept(false, 0),
	   "SLAB: caches from before other CPUs started keep less");
	ok(pages_kept(true, 1) == pages_kept(false, 1), "those from behind it do not");
	ok(pages_kept_by("filp", true, 1) + 1 == pages_kept_by("filp", false, 1),
	   "a cache that start_kernel() makes is from before, whenever its first object comes");
}

int main(void)
{
	test_slab();
	test_slab_told();
	test_slab_sharing();
	test_slab_timer();
	test_slab_reaping();
	test_slab_start();
	return tap_done();
}

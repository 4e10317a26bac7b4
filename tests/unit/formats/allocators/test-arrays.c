/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is taken for an array, by the pages that models hold: 4 objects of 1 KiB to a slab of one.
 */
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/arrays.h"
#include "tests/lib/tap.h"

struct run {
	struct simulation *simulation;
	struct pending pending;
};

static struct run *begin(const char *text)
{
	struct run *run = calloc(1, sizeof(*run));
	struct model model;

	if (!run || model_parse("m", text, strlen(text), &model, NULL) ||
	    simulation_create(&model, 2, &run->simulation, NULL))
		abort();
	return run;
}

static void end(struct run *run)
{
	simulation_destroy(run->simulation);
	free(run);
}

/* n objects, each at its own time, or all at the first one. */
static void allocate(struct run *run, uint64_t from, uint64_t n, int64_t ns, bool at_once)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct allocation allocation = {.ptr = from + i,
						      .cache = "c",
						      .object_size = 1024,
						      .taken = 1024,
						      .requested = 1024,
						      .node = -1};

		if (pending_alloc(&run->pending, run->simulation, &allocation,
				  at_once ? ns : ns + (int64_t)i))
			abort();
	}
}

static void release(struct run *run, uint64_t ptr, int64_t ns, struct one_free one)
{
	one.ptr = ptr;
	one.ns = ns;
	if (pending_free(&run->pending, run->simulation, &one))
		abort();
}

static uint64_t pages(struct run *run)
{
	if (pending_flush(&run->pending, run->simulation))
		abort();
	return simulation_pages(run->simulation);
}

static void test_allocations(void)
{
	static const char text[] = "order_max = 0\nmin_objects = 1\nsheaf = 8\n";
	struct run *run = begin(text);

	allocate(run, 0, 3, 1, true);
	ok(pages(run) == 1, "allocations of one time are an array, for which no sheaf is filled");
	end(run);
	run = begin(text);
	allocate(run, 0, 3, 1, false);
	ok(pages(run) == 2, "others are not");
	end(run);
	run = begin(text);
	allocate(run, 0, 1, 1, true);
	release(run, 0, 1, (struct one_free){0});
	allocate(run, 0, 1, 1, true);
	ok(pages(run) == 2 && simulation_cache(run->simulation, 0)->objects == 1,
	   "nothing is told out of order");
	end(run);
}

/* The pages of 12 objects after frees of the first two slabs' first ones, as test_array_order() of
 * test-simulation.c has them: 2 if they were an array. */
static uint64_t pages_after(struct one_free first, struct one_free second, int64_t second_ns)
{
	struct run *run =
		begin("order_max = 0\nmin_objects = 1\ncpu_partial = 0\nmin_partial = 0\n");
	uint64_t n;

	allocate(run, 0, 12, 1, false);
	release(run, 0, 20, first);
	release(run, 4, second_ns, second);
	allocate(run, 100, 1, 30, false);
	for (uint64_t i = 1; i < 4; i++)
		release(run, i, 30 + (int64_t)i, (struct one_free){.call_site = 9});
	n = pages(run);
	end(run);
	return n;
}

static void test_frees(void)
{
	const struct one_free one = {.call_site = 1}, other_site = {.call_site = 2},
			      other_cpu = {.call_site = 1, .cpu = 1},
			      other_kind = {.call_site = 1, .is_kmalloc = true},
			      other_cache = {.call_site = 1, .cache = 1};

	ok(pages_after(one, one, 20) == 2, "frees of one time and call site are an array");
	ok(pages_after(one, one, 21) == 3, "others are not: of another time,");
	ok(pages_after(one, other_site, 20) == 3, "call site,");
	ok(pages_after(one, other_cpu, 20) == 3, "CPU");
	ok(pages_after(one, other_kind, 20) == 3, "function");
	ok(pages_after(one, other_cache, 20) == 3, "or cache");
}

/* The tracer takes 32 objects at once. */
static void test_long_array(void)
{
	struct run *run =
		begin("order_max = 0\nmin_objects = 1\ncpu_partial = 0\nmin_partial = 0\n");

	allocate(run, 0, 200, 1, false);
	for (uint64_t i = 0; i < 40; i++)
		release(run, 4 * i, i < ARRAY_TAKEN_AT_ONCE ? 300 : 301, (struct one_free){0});
	allocate(run, 300, 1, 400, false);
	for (uint64_t i = 4 * 39 + 1; i < 4 * 40; i++)
		release(run, i, 500 + (int64_t)i, (struct one_free){0});
	ok(pages(run) == 50, "what the tracer took in several pieces is one array");
	end(run);
	run = begin("order_max = 0\nmin_objects = 1\nsheaf = 32\nmin_partial = 0\n");
	allocate(run, 0, 40, 1, false);
	for (uint64_t i = 0; i < 36; i++)
		release(run, i, i < ARRAY_TAKEN_AT_ONCE ? 300 : 301,
			(struct one_free){.is_after_rcu = true, .cache = i < 32});
	allocate(run, 100, 32, 400, false);
	ok(pages(run) == 16, "what is freed after it, of another cache, is not of it");
	end(run);
	run = begin("order_max = 0\nmin_objects = 1\n");
	allocate(run, 0, 3 * ARRAY_MOST, 1, true);
	for (uint64_t i = 0; i < 3 * ARRAY_MOST; i++)
		release(run, i, 1, (struct one_free){0});
	pages(run);
	ok(!simulation_cache(run->simulation, 0)->objects, "an array may have any length");
	end(run);
}

static void test_rcu(void)
{
	struct run *run = begin("order_max = 0\nmin_objects = 1\nsheaf = 4\nmin_partial = 0\n");

	allocate(run, 0, 48, 1, false);
	for (uint64_t i = 0; i < 44; i++)
		release(run, i, 100 + (int64_t)i / 4, (struct one_free){.is_after_rcu = true});
	ok(pages(run) == 11,
	   "what kfree_rcu() has collected fills no more than the node's sheaves");
	ok(array_site_is_of_rcu("rcu_do_batch") && array_site_is_of_rcu("kvfree_rcu_bulk") &&
		   !array_site_is_of_rcu("rcu_do_batch2") && !array_site_is_of_rcu(""),
	   "it is known by its call site");
	end(run);
}

/* Sheaves have 8 objects, or two slabs. */
static uint64_t pages_prefilled(unsigned int first, unsigned int second, unsigned int least)
{
	struct run *run = begin("order_max = 0\nmin_objects = 1\nsheaf = 8\nprefilled = yes\n");
	struct allocation allocation = {.cache = "c",
					.object_size = 1024,
					.taken = 1024,
					.requested = 1024,
					.node = -1,
					.prefilled = least};
	uint64_t n;

	for (unsigned int i = 0; i < first + second; i++) {
		if (i == first)
			release(run, UINT64_MAX, 2, (struct one_free){0});
		allocation.ptr = i;
		if (pending_alloc(&run->pending, run->simulation, &allocation, i))
			abort();
	}
	n = pages(run);
	end(run);
	return n;
}

static void test_prefilled(void)
{
	ok(pages_prefilled(6, 2, 2) == 2, "a sheaf that has enough is not filled");
	ok(pages_prefilled(6, 3, 2) == 4, "one that lacks what is taken of it is, beforehand,");
	ok(pages_prefilled(6, 2, 3) == 4, "as is one that lacks what was asked for at least");
	ok(pages_prefilled(PREFILLED_MOST + 1, 0, 2) == 10, "one may take any number of objects");
	ok(prefilled_for_call("mas_wr_bnode") == 3 && prefilled_for_call("mas_dup_alloc") == 2 &&
		   !prefilled_for_call("mas_store_gfp.isra.0") && !prefilled_for_call("mas_erase"),
	   "who fills a sheaf beforehand is known by the call site");
}

int main(void)
{
	test_allocations();
	test_frees();
	test_long_array();
	test_rcu();
	test_prefilled();
	return tap_done();
}

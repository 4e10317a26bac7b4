/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trace tells of sheaves beyond allocations and frees. */
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/told-calls.h"
#include "tests/lib/simulate.h"
#include "tests/lib/tap.h"

/* 4 objects to a slab of one page, and to a sheaf. */
static const char small_sheaves[] = "order_max = 0\nmin_objects = 1\nsheaf = 4\nmin_partial = 0\n";

static void tell(struct simulation *s, uint64_t from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		simulation_free_later(s, from + i, 0);
}

static void test_free_later(void)
{
	struct simulation *s = make(small_sheaves, 1);

	fill(s, 0, 8, 0);
	tell(s, 0, 4);
	fill(s, 100, 4, 0);
	ok(simulation_pages(s) == 3, "objects of kfree_rcu() wait for the grace period");
	simulation_free(s, 0, 0);
	fill(s, 200, 4, 0);
	ok(simulation_pages(s) == 3, "with the first of a sheaf all are free");
	simulation_free(s, 1, 0);
	simulation_free(s, 2, 0);
	simulation_free(s, 3, 0);
	fill(s, 300, 1, 0);
	ok(simulation_pages(s) == 4, "and only once");
	tell(s, 300, 1);
	tell(s, 300, 1);
	tell(s, 1000, 1);
	simulation_free(s, 300, 0);
	ok(find(s, "c")->objects == 12, "a sheaf that is not full goes, too");
	simulation_destroy(s);
}

/* The calls are told from the third object of the guest's sheaf on. */
static void test_told_late(void)
{
	static const uint64_t first[] = {0, 1, 2, 3}, second[] = {4, 5, 6, 7};
	struct simulation *s = make(small_sheaves, 1);

	fill(s, 0, 20, 0);
	tell(s, 2, 5);
	simulation_free_array(s, first, 4, 0, ARRAY_OF_RCU);
	fill(s, 100, 4, 0);
	ok(simulation_pages(s) == 5, "what is freed with told objects was in their sheaf");
	fill(s, 200, 4, 0);
	ok(simulation_pages(s) == 6, "and what is not was in the next one");
	tell(s, 7, 1);
	simulation_free_array(s, second, 4, 0, ARRAY_OF_RCU);
	fill(s, 300, 4, 0);
	ok(simulation_pages(s) == 6, "from there on sheaves begin where the guest's do");
	simulation_destroy(s);
}

static void test_others(void)
{
	struct simulation *s = make("order_max = 0\nmin_objects = 1\ncpu_partial = 0\n", 1);

	fill(s, 0, 4, 0);
	tell(s, 0, 4);
	simulation_prefill(s, 0, 7, 2);
	simulation_end_prefill(s, 0, 7);
	simulation_free(s, 0, 0);
	ok(find(s, "c")->objects == 3 && simulation_pages(s) == 1,
	   "models without sheaves go by allocations and frees");
	simulation_destroy(s);
	s = make("base = slob-5.10\n", 1);
	fill(s, 0, 4, 0);
	tell(s, 0, 4);
	simulation_free(s, 0, 0);
	ok(simulation_pages(s) == 1, "as do other allocators");
	simulation_destroy(s);
}

static void test_prefill(void)
{
	struct simulation *s =
		make("order_max = 0\nmin_objects = 1\nsheaf = 8\n[c]\nprefilled = yes\n", 1);

	fill(s, 0, 1, 0);
	ok(simulation_pages(s) == 2, "a sheaf has two slabs' objects");
	simulation_prefill(s, 0, 7, 2);
	ok(simulation_pages(s) == 4, "a sheaf is filled when the call is told");
	simulation_prefill(s, 0, 8, 2);
	ok(simulation_pages(s) == 6, "and another one for another task");
	simulation_end_prefill(s, 0, 7);
	simulation_end_prefill(s, 0, 8);
	simulation_end_prefill(s, 0, 8);
	simulation_prefill(s, 0, 7, 8);
	simulation_prefill(s, 0, 7, 8);
	ok(simulation_pages(s) == 6, "they come back, also if the trace lacks that");
	simulation_destroy(s);
}

/* Four objects of a page: in kernels with sheaves, caches without them have no CPUs' slabs. */
static void test_no_sheaves(void)
{
	struct simulation *s =
		make("base = slub-7.0\norder_max = 0\nmin_objects = 1\nmin_partial = 0\nsheaf = 4\n"
		     "[d]\nsheaf = 0\n",
		     1);

	for (uint64_t i = 0; i < 4; i++)
		alloc_from(s, i, "d", 1024, 0);
	drop(s, 0, 4, 1, 0);
	ok(!simulation_pages(s), "a cache without sheaves gives back an empty slab at once");
	simulation_destroy(s);
}

static void alloc_as(struct simulation *s, uint64_t ptr, bool has_no_sheaf, bool makes_no_sheaf)
{
	const struct allocation allocation = {.ptr = ptr,
					      .cache = "c",
					      .object_size = 1024,
					      .taken = 1024,
					      .requested = 1024,
					      .node = -1,
					      .has_no_sheaf = has_no_sheaf,
					      .makes_no_sheaf = makes_no_sheaf};

	if (simulation_alloc(s, &allocation))
		abort();
}

static void test_first_sheaves(void)
{
	struct simulation *s = make("order_max = 0\nmin_objects = 1\nsheaf = 8\n", 1);

	alloc_as(s, 0, true, false);
	ok(simulation_pages(s) == 1, "what has no sheaf yet takes an object of a slab");
	alloc_as(s, 1, false, true);
	ok(simulation_pages(s) == 1, "as does what may not make one");
	alloc_as(s, 2, false, false);
	ok(simulation_pages(s) == 3, "what may has a sheaf filled");
	ok(first_sheaves_for_call("kmem_cache_init") == FIRST_SHEAVES_MADE &&
		   first_sheaves_for_call("__alloc_empty_sheaf.isra.0") == FIRST_SHEAVES_EITHER &&
		   first_sheaves_for_call("cache_random_seq_create") == FIRST_SHEAVES_OTHER,
	   "who makes the first sheaves is known by the call site");
	simulation_destroy(s);
}

static struct event_field fields[] = {
	{.name = "pid", .type = EVENT_UINT, .size = 4, .at = 0},
	{.name = "__probe_ip", .type = EVENT_FUNCTION, .size = 8, .at = 8},
	{.name = "ptr", .type = EVENT_HEX, .size = 8, .at = 16, .is_argument = true}};

static void test_calls(void)
{
	static const uint64_t bytes[] = {7, 0x1000, 0x2000};
	const struct event_class class = {.system = "kprobes",
					  .name = "later",
					  .fields = fields,
					  .nr_fields = 3,
					  .size = sizeof(bytes)};
	const struct event event = {.class = &class, .bytes = bytes};
	struct event_class other = class;
	const struct event other_event = {.class = &other, .bytes = bytes};
	struct told_call call;

	other.fields = fields + 2;
	other.nr_fields = 1;
	ok(!told_call("drain_array.constprop.0", &event, &call), "no name of a cache");
	ok(told_function(&event) == 0x1000 && !told_function(&other_event),
	   "the event of a probe says which function was called");
	ok(told_call("kvfree_call_rcu", &event, &call) && call.kind == TOLD_FREE_LATER &&
		   call.value == 0x2000 && call.task == 7,
	   "kfree_rcu() of an object by a task");
	ok(told_call("kmem_cache_return_sheaf", &event, &call) && call.kind == TOLD_END_PREFILL,
	   "a call that needs no argument");
	ok(!told_call("kmem_cache_prefill_sheaf", &event, &call), "an argument that is missing");
	ok(!told_call("vfs_read", &event, &call), "another function");
}

static void test_looks(void)
{
	static const struct event_field name[] = {{.name = "name",
						   .type = EVENT_LONG_STRING,
						   .size = 1,
						   .at = 0,
						   .is_argument = true}};
	static const char bytes[EVENT_LONG_STRING_MAX] = "dentry";
	const struct event_class class = {.fields = name, .nr_fields = 1, .size = sizeof(bytes)};
	const struct event event = {.class = &class, .bytes = bytes};
	struct told_call call;

	ok(told_call("drain_array.constprop.0", &event, &call) && call.kind == TOLD_LOOK &&
		   !strcmp(call.cache, "dentry"),
	   "SLAB's timer looks at a cache");
	ok(!told_call("drain_array_locked", &event, &call), "a function of a similar name");
}

int main(void)
{
	test_free_later();
	test_told_late();
	test_others();
	test_prefill();
	test_no_sheaves();
	test_first_sheaves();
	test_calls();
	test_looks();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/allocators/arrays.h"

#include <string.h>
#include "formats/base/text.h"

/* rcu_do_batch() calls the callback of a sheaf, and of others, which free one object. */
bool array_site_is_of_rcu(const char *function)
{
	static const char *const functions[] = {"rcu_do_batch", "kvfree_rcu_bulk", "kfree_rcu_work",
						NULL};

	/* "kvfree_rcu_bulk.isra.0" */
	return text_begins_as(function, strcspn(function, "."), functions);
}

static enum array_free how_freed(const struct one_free *one)
{
	if (one->is_after_rcu)
		return ARRAY_OF_RCU;
	return one->is_kmalloc ? ARRAY_OF_ANY : ARRAY_OF_CACHE;
}

static void flush_frees(struct pending *pending, struct simulation *simulation)
{
	const struct one_free *last = &pending->last_free;

	if (pending->nr_frees == 1)
		simulation_free(simulation, *pending->ptrs, last->cpu);
	else if (pending->nr_frees)
		simulation_free_array(simulation, pending->ptrs, pending->nr_frees, last->cpu,
				      how_freed(last));
	pending->nr_frees = 0;
}

static int flush_allocs(struct pending *pending, struct simulation *simulation)
{
	const size_t n = pending->nr_allocs;

	pending->nr_allocs = 0;
	for (size_t i = 0; i < n; i++) {
		struct allocation *one = &pending->allocs[i];
		int ret;

		if (one->prefilled && (i || one->prefilled < n))
			one->prefilled = (unsigned int)(n - i);
		ret = simulation_alloc(simulation, one);
		if (ret)
			return ret;
	}
	return 0;
}

int pending_flush(struct pending *pending, struct simulation *simulation)
{
	int ret = flush_allocs(pending, simulation);

	flush_frees(pending, simulation);
	return ret;
}

static const struct allocation *last_alloc(const struct pending *pending)
{
	return pending->nr_allocs ? &pending->allocs[pending->nr_allocs - 1] : NULL;
}

static bool is_next_alloc(const struct pending *pending, const struct allocation *one, int64_t ns)
{
	const struct allocation *last = last_alloc(pending);

	return last && pending->alloc_ns == ns && last->cpu == one->cpu &&
	       last->call_site == one->call_site;
}

/* Whether one caller took both out of a sheaf. */
static bool is_next_prefilled(const struct pending *pending, const struct allocation *one)
{
	const struct allocation *last = last_alloc(pending);

	return last && last->prefilled && one->prefilled && last->cpu == one->cpu &&
	       pending->nr_allocs < PREFILLED_MOST;
}

int pending_alloc(struct pending *pending, struct simulation *simulation,
		  const struct allocation *one, int64_t ns)
{
	const bool is_next = is_next_alloc(pending, one, ns);
	int ret = 0;

	if (is_next)
		pending->allocs[pending->nr_allocs - 1].in_array = true;
	if (!is_next_prefilled(pending, one))
		ret = pending_flush(pending, simulation);
	pending->allocs[pending->nr_allocs] = *one;
	pending->allocs[pending->nr_allocs++].in_array = is_next;
	pending->alloc_ns = ns;
	return ret;
}

static bool is_next_free(const struct pending *pending, const struct one_free *one)
{
	const struct one_free *last = &pending->last_free;
	const size_t n = pending->nr_frees;

	if (!n || n == ARRAY_MOST || last->cpu != one->cpu || last->call_site != one->call_site ||
	    last->is_kmalloc != one->is_kmalloc || last->cache != one->cache)
		return false;
	return last->ns == one->ns || n % ARRAY_TAKEN_AT_ONCE == 0;
}

int pending_free(struct pending *pending, struct simulation *simulation, const struct one_free *one)
{
	int ret = is_next_free(pending, one) ? 0 : pending_flush(pending, simulation);

	pending->ptrs[pending->nr_frees++] = one->ptr;
	pending->last_free = *one;
	return ret;
}

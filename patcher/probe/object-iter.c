/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/probe.h"

#include <errno.h>

static int init_counted(struct object_iter *iter, const struct kernel *kernel,
			const struct capture_items *items, uint64_t at, struct error *err)
{
	iter->from = ITEMS_ARRAY;
	iter->at = at + (uint64_t)(int64_t)items->words_offset;
	return kernel_read(kernel, at + (uint64_t)(int64_t)items->count_offset, &iter->count,
			   items->count_size, err);
}

/* Words behind the first hole that are filled already. */
static void init_saved(struct object_iter *iter, const struct kernel *kernel,
		       const struct capture_items *items, const uint64_t *args)
{
	uint32_t count = (uint32_t)args[items->count];
	uint64_t filled;

	iter->from = ITEMS_NONE;
	if (!items->skip_filled || !iter->at)
		return;
	if (count > CAPTURE_ITEMS_PER_CALL)
		count = CAPTURE_ITEMS_PER_CALL;
	filled = object_iter_filled(kernel, iter->at, count);
	iter->from = ITEMS_ARRAY;
	iter->skip_zero = true;
	iter->at += filled * sizeof(uint64_t);
	iter->count = count - filled;
}

static int init_last(struct object_iter *iter, const struct kernel *kernel,
		     const struct capture_items *items, struct error *err)
{
	uint32_t references;
	int ret = kernel_read(kernel, iter->at + (uint64_t)(int64_t)items->count_offset,
			      &references, sizeof(references), err);

	iter->count = !ret && references == 1;
	return ret;
}

int object_iter_init(struct object_iter *iter, const struct kernel *kernel,
		     const struct capture_items *items, const uint64_t *args, struct error *err)
{
	uint64_t at = args[items->pointer];

	*iter = (struct object_iter){.from = items->from,
				     .at = at,
				     .link = items->link,
				     .page_orders = items->page_orders};
	switch (items->from) {
	case ITEMS_SAVED:
		init_saved(iter, kernel, items, args);
		break;
	case ITEMS_LAST:
		return init_last(iter, kernel, items, err);
	case ITEMS_NONE:
	case ITEMS_RETURNED:
		iter->from = ITEMS_NONE;
		break;
	case ITEMS_ARRAY:
		iter->count = args[items->count];
		if (items->count_size == sizeof(uint32_t))
			iter->count = (uint32_t)iter->count;
		break;
	case ITEMS_COUNTED:
		return init_counted(iter, kernel, items, at, err);
	case ITEMS_LISTED:
		iter->count = UINT64_MAX;
		break;
	}
	return 0;
}

static size_t drop_zeros(uint64_t *words, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (words[i])
			words[kept++] = words[i];
	return kept;
}

static int read_array(struct object_iter *iter, const struct kernel *kernel, uint64_t *to,
		      size_t max, size_t *n, struct error *err)
{
	do {
		size_t count = iter->count < max - *n ? (size_t)iter->count : max - *n;
		int ret = count ? kernel_read(kernel, iter->at, to + *n, count * sizeof(*to), err)
				: 0;

		if (ret)
			return ret;
		iter->at += count * sizeof(*to);
		iter->count -= count;
		*n += iter->skip_zero ? drop_zeros(to + *n, count) : count;
	} while (iter->count && *n < max);
	return 0;
}

static void read_last(struct object_iter *iter, uint64_t *to, size_t max, size_t *n)
{
	if (!iter->count || !max)
		return;
	to[(*n)++] = iter->at;
	iter->count = 0;
}

/* list_head.next is the first member. */
static int read_list(struct object_iter *iter, const struct kernel *kernel, uint64_t *to,
		     size_t max, size_t *n, struct error *err)
{
	if (!iter->node)
		iter->node = iter->at;
	while (*n < max && iter->count) {
		int ret = kernel_read(kernel, iter->node, &iter->node, sizeof(iter->node), err);

		if (ret)
			return ret;
		if (!iter->node)
			return error_set_at(err, EFAULT, iter->at, "a list ends nowhere");
		if (iter->node == iter->at) {
			iter->count = 0;
			return 0;
		}
		iter->count--;
		to[(*n)++] = iter->node - (uint64_t)(int64_t)iter->link;
	}
	return 0;
}

/* A page whose order cannot be read is left out; of an array it counts as not read. */
static int add_orders(struct object_iter *iter, const struct page_lookup *lookup, uint64_t *pages,
		      size_t *n, struct error *err)
{
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < *n; i++) {
		unsigned int order = 0;
		int failed = lookup->order(lookup->arg, pages[i], &order, err);

		if (!failed)
			pages[kept++] = page_item(pages[i], order);
		ret = failed ? failed : ret;
	}
	if (iter->from == ITEMS_ARRAY)
		iter->count += *n - kept;
	*n = kept;
	return ret;
}

uint64_t object_iter_filled(const struct kernel *kernel, uint64_t at, uint64_t count)
{
	uint64_t n = 0, word;

	while (n < count && n < CAPTURE_ITEMS_PER_CALL &&
	       !kernel_read(kernel, at + n * sizeof(word), &word, sizeof(word), NULL) && word)
		n++;
	return n;
}

int object_iter_read(struct object_iter *iter, const struct kernel *kernel,
		     const struct page_lookup *pages, uint64_t *to, size_t max, size_t *n,
		     struct error *err)
{
	int ret = 0, orders = 0;

	*n = 0;
	if (iter->from == ITEMS_ARRAY)
		ret = read_array(iter, kernel, to, max, n, err);
	else if (iter->from == ITEMS_LISTED)
		ret = read_list(iter, kernel, to, max, n, err);
	else if (iter->from == ITEMS_LAST)
		read_last(iter, to, max, n);
	if (iter->page_orders)
		orders = add_orders(iter, pages, to, n, err);
	return ret ? ret : orders;
}

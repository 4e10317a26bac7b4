/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/slab/slab.h"

#include <errno.h>
#include <string.h>

#include "introspect/slab/layout.h"

enum {
	PAGE_SHIFT = 12,
};
#define OBJECT_MAX (64u << 20) /* no slab is larger than the largest page order */

static bool is_slab(const struct slab_view *view, const struct page_copy *head)
{
	uint32_t type = slab_u32(head->bytes, view->page_type);

	switch (view->mark) {
	case SLAB_MARK_FLAG:
		return slab_u64(head->bytes, view->flags) >> view->mark_value & 1;
	case SLAB_MARK_TYPE_BIT:
		return (type & (view->mark_base | view->mark_value)) == view->mark_base;
	case SLAB_MARK_TYPE_BYTE:
		return type >> 24 == view->mark_value;
	}
	return false;
}

int slab_of_object(struct slab_view *view, uint64_t object, uint64_t *cache, uint64_t *bytes,
		   struct error *err)
{
	uint64_t page_offset, vmemmap;
	struct page_copy head;
	unsigned int order;
	int ret = slab_check(view, SLAB_OBJECTS, err);

	if (!ret)
		ret = slab_bases(view, &page_offset, &vmemmap, err);
	if (ret)
		return ret;
	if (object < page_offset || (object - page_offset) >> PAGE_SHIFT >= slab_direct_pages(view))
		return error_set_at(err, ERANGE, object, "not in the direct map");
	ret = slab_read_head(view,
			     vmemmap + ((object - page_offset) >> PAGE_SHIFT) * view->page_size,
			     vmemmap, &head, err);
	if (ret)
		return ret;
	*cache = 0;
	*bytes = 0;
	if (is_slab(view, &head)) {
		*cache = slab_u64(head.bytes, view->slab_cache);
		return 0;
	}
	ret = slab_head_order(view, &head, &order, err);
	if (!ret)
		*bytes = 1ull << (PAGE_SHIFT + order);
	return ret;
}

/* In early boot the name pointer is NULL for a while. The name is any string that the creator
 * passed.
 */
static void read_name(const struct kernel *kernel, uint64_t name, char *out)
{
	if (!name || kernel_read_string(kernel, name, out, SLAB_NAME_MAX, NULL) || !out[0]) {
		strcpy(out, "?");
		return;
	}
	for (char *c = out; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

/* Both lie next to each other in known kernels, and are read at each event. */
static int read_sizes(const struct slab_view *view, uint64_t cache, uint32_t *taken,
		      uint32_t *asked, struct error *err)
{
	const struct kernel *kernel = view->kernel;
	uint32_t both[2];
	int ret;

	if (view->cache_object_size != view->cache_size + sizeof(both[0])) {
		ret = kernel_read(kernel, cache + view->cache_size, taken, sizeof(*taken), err);
		return ret ? ret
			   : kernel_read(kernel, cache + view->cache_object_size, asked,
					 sizeof(*asked), err);
	}
	ret = kernel_read(kernel, cache + view->cache_size, both, sizeof(both), err);
	if (!ret) {
		*taken = both[0];
		*asked = both[1];
	}
	return ret;
}

int slab_cache_sizes(struct slab_view *view, uint64_t cache, uint64_t *object_size, uint64_t *size,
		     struct error *err)
{
	uint32_t taken, asked;
	int ret = slab_check(view, SLAB_CACHES, err);

	if (!ret)
		ret = read_sizes(view, cache, &taken, &asked, err);
	if (ret)
		return ret;
	/* SLOB's cache of struct kmem_cache */
	if (!asked)
		asked = taken;
	if (!asked || taken < asked || taken > OBJECT_MAX)
		return error_set_at(err, EINVAL, cache, "not a struct kmem_cache (sizes %u and %u)",
				    asked, taken);
	*object_size = asked;
	*size = taken;
	return 0;
}

int slab_cache_name_at(struct slab_view *view, uint64_t cache, uint64_t *gva, struct error *err)
{
	int ret = slab_check(view, SLAB_CACHES, err);

	return ret ? ret
		   : kernel_read(view->kernel, cache + view->cache_name, gva, sizeof(*gva), err);
}

int slab_cache_read(struct slab_view *view, uint64_t cache, struct slab_cache *out,
		    struct error *err)
{
	int ret = slab_cache_sizes(view, cache, &out->object_size, &out->size, err);

	if (!ret)
		ret = slab_cache_name_at(view, cache, &out->name_at, err);
	if (ret)
		return ret;
	out->address = cache;
	read_name(view->kernel, out->name_at, out->name);
	return 0;
}

/* --- sheaves --------------------------------------------------------------------------------- */

int slab_sheaf(const struct slab_view *view, struct slab_sheaf *out, struct error *err)
{
	const struct sheaf_layout *layout = &view->sheaf;
	int32_t rcu_head = (int32_t)layout->rcu_head;

	out->cache = (int32_t)layout->cache - rcu_head;
	out->count = (int32_t)layout->count - rcu_head;
	out->objects = (int32_t)layout->objects - rcu_head;
	return slab_check(view, SLAB_SHEAVES, err);
}

int slab_cache_is_kmalloc(struct slab_view *view, uint64_t cache, bool *out, struct error *err)
{
	uint32_t flags = 0;
	int ret = kernel_read(view->kernel, cache + view->sheaf.cache_flags, &flags, sizeof(flags),
			      err);

	*out = flags >> view->sheaf.kmalloc_bit & 1;
	return ret;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "introspect/slab/layout.h"

int slab_sheaf(const struct slab_view *view, struct slab_sheaf *out, struct error *err)
{
	const struct sheaf_layout *layout = &view->sheaf;
	int32_t rcu_head = (int32_t)layout->rcu_head;

	if (!layout->size)
		return error_set(err, ENOTSUP, "BTF has no struct slab_sheaf");
	out->cache = (int32_t)layout->cache - rcu_head;
	out->count = (int32_t)layout->count - rcu_head;
	out->objects = (int32_t)layout->objects - rcu_head;
	return 0;
}

int slab_cache_is_kmalloc(struct slab_view *view, uint64_t cache, bool *out, struct error *err)
{
	uint32_t flags = 0;
	int ret = kernel_read(view->kernel, cache + view->sheaf.cache_flags, &flags, sizeof(flags),
			      err);

	*out = flags >> view->sheaf.kmalloc_bit & 1;
	return ret;
}

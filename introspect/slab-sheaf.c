// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "introspect/slab-view.h"

static int read_u32(const struct kernel *kernel, uint64_t gva, uint32_t *out, struct error *err)
{
	return kernel_read(kernel, gva, out, sizeof(*out), err);
}

int slab_sheaf_read(struct slab_view *view, uint64_t rcu_head, struct slab_sheaf *out,
		    struct error *err)
{
	const struct sheaf_layout *layout = &view->sheaf;
	const struct kernel *kernel = view->kernel;
	uint64_t sheaf = rcu_head - layout->rcu_head;
	uint32_t flags;
	int rc;

	if (!layout->size)
		return error_set(err, ENOTSUP, "BTF has no struct slab_sheaf");
	out->objects = sheaf + layout->objects;
	rc = kernel_read(kernel, sheaf + layout->cache, &out->cache, sizeof(out->cache), err);
	if (!rc)
		rc = read_u32(kernel, sheaf + layout->count, &out->count, err);
	if (!rc)
		rc = read_u32(kernel, out->cache + layout->cache_flags, &flags, err);
	if (!rc)
		out->is_kmalloc = flags >> layout->kmalloc_bit & 1;
	return rc;
}

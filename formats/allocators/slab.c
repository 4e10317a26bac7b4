/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of SLAB (mm/slab.c, until Linux 6.7). A CPU has an array of free objects, the CPUs of a
 * node share another one, and a node has lists of slabs. What is not used for some seconds is given
 * back by a timer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/slabs.h"
#include "formats/base/text.h"

enum {
	OBJECTS_MOST = 255, /* of a slab: an index is a byte */
	SLOT_LEAST = 16,    /* bytes */
	REFILL_IDLE = 16,   /* objects that a CPU gets which has not allocated lately */
	SHARED_BATCHES = 8, /* of the shared array */
	REAP_PARTS = 5,     /* a fifth is given back at once */
};
static const int64_t REAP_NODE_NS = 2 * MODEL_REAP_NS; /* between two looks at a node's lists */

/* Free objects, by the slab that they lie in; the oldest first. */
struct object_array {
	uint64_t count, limit;
	bool touched; /* used for an allocation since the timer looked */
	struct slab *objects[];
};

struct slab_node {
	struct slab_list full, partial, free;
	uint64_t free_objects, free_limit; /* in slabs; from which on empty slabs are given back */
	struct object_array *shared;       /* NULL: not used yet */
	bool touched;                      /* an empty slab was looked for since the timer looked */
	int64_t reap_ns, drain_ns;         /* when the timer may next look, and give slabs back */
};

struct slab_cache {
	uint64_t limit, batch, shared_limit; /* objects */
	struct slab_node *nodes;
	struct object_array **cpus; /* NULL: not used yet */
};

/* --- sizes ----------------------------------------------------------------------------------- */

/*
 * Tries orders until little enough is left over. `index` are bytes of a slab that an object's index
 * takes. Returns false if no order up to the greatest has room for an object.
 */
static bool find_order(struct model_cache *cache, uint64_t index)
{
	const unsigned int most = (unsigned int)cache->params.order_max;

	for (unsigned int order = 0; order <= MODEL_MAX_ORDER; order++) {
		const uint64_t bytes = (uint64_t)MODEL_PAGE_SIZE << order;
		const uint64_t objects = bytes / (cache->slot + index);

		if (objects > OBJECTS_MOST)
			return false;
		if (!objects)
			continue;
		cache->order = order;
		cache->per_slab = objects;
		if (order >= most || bytes % (cache->slot + index) * 8 <= bytes)
			return true;
	}
	return false;
}

/*
 * The indices of free objects lie in one of these, if it has room for them, else in the slab.
 * Objects that the allocator must not write to (of caches with a constructor, or freed by RCU)
 * cannot be told from others: a trace does not have the flags.
 */
static void set_order(struct model_cache *cache)
{
	if (find_order(cache, 0) && cache->per_slab <= cache->slot)
		return;
	if (find_order(cache, 1))
		return;
	cache->order = order_of(cache->slot);
	cache->per_slab = ((uint64_t)MODEL_PAGE_SIZE << cache->order) / cache->slot;
	if (cache->per_slab > OBJECTS_MOST)
		cache->per_slab = OBJECTS_MOST;
}

static uint64_t array_limit(const struct model_cache *cache)
{
	static const struct {
		uint64_t above, objects;
	} rows[] = {{131072, 1}, {MODEL_PAGE_SIZE, 8}, {1024, 24}, {256, 54}, {0, 120}};
	size_t i = 0;

	if (cache->params.cpu_array != MODEL_AUTO)
		return (uint64_t)cache->params.cpu_array;
	while (cache->slot <= rows[i].above)
		i++;
	return rows[i].objects;
}

/* Made before other CPUs start: by start_kernel(), though some have no object for long. */
static bool is_made_early(const struct model_cache *cache)
{
	static const char *const names[] = {"anon_vma",
					    "anon_vma_chain",
					    "buffer_head",
					    "cred_jar",
					    "dentry",
					    "files_cache",
					    "filp",
					    "fs_cache",
					    "inode_cache",
					    "key_jar",
					    "maple_node",
					    "mm_struct",
					    "mnt_cache",
					    "names_cache",
					    "nsproxy",
					    "pid",
					    "pde_opener",
					    "pool_workqueue",
					    "proc_dir_entry",
					    "proc_inode_cache",
					    "seq_file",
					    "sighand_cache",
					    "signal_cache",
					    "sigqueue",
					    "task_struct",
					    "uts_namespace",
					    "vmap_area",
					    "vm_area_struct",
					    "radix_tree_node",
					    "shmem_inode_cache",
					    "kernfs_node_cache",
					    NULL};
	static const char kmalloc[] = "kmalloc-";

	return cache->is_early ||
	       (cache->knows_early && (!strncmp(cache->name, kmalloc, strlen(kmalloc)) ||
				       text_begins_as(cache->name, strlen(cache->name), names)));
}

static int cache_init(struct model_cache *cache)
{
	struct slab_cache *own = calloc(1, sizeof(*own));
	uint64_t cpus_of_node = (cache->cpus + cache->nodes - 1) / cache->nodes;

	if (!own)
		return -ENOMEM;
	cache->own = own;
	set_order(cache);
	own->limit = array_limit(cache);
	own->batch = (own->limit + 1) / 2;
	if (cache->slot <= MODEL_PAGE_SIZE && cache->cpus > 1)
		own->shared_limit = SHARED_BATCHES * own->batch;
	own->nodes = calloc(cache->nodes, sizeof(*own->nodes));
	own->cpus = calloc(cache->cpus, sizeof(struct object_array *));
	if (!own->nodes || !own->cpus)
		return -ENOMEM;
	/* It is set for all caches before a CPU starts, to which that one does not count. */
	if (is_made_early(cache) && cpus_of_node > 1)
		cpus_of_node--;
	for (unsigned int i = 0; i < cache->nodes; i++)
		own->nodes[i].free_limit = (1 + cpus_of_node) * own->batch + cache->per_slab;
	return 0;
}

static void cache_deinit(struct model_cache *cache)
{
	struct slab_cache *own = cache->own;

	if (!own)
		return;
	for (unsigned int i = 0; own->nodes && i < cache->nodes; i++) {
		slab_list_destroy(&own->nodes[i].full);
		slab_list_destroy(&own->nodes[i].partial);
		slab_list_destroy(&own->nodes[i].free);
		free(own->nodes[i].shared);
	}
	for (unsigned int i = 0; own->cpus && i < cache->cpus; i++)
		free(own->cpus[i]);
	free(own->nodes);
	free(own->cpus);
	free(own);
}

/* --- arrays ---------------------------------------------------------------------------------- */

/* An array at its place, made when it is first asked for. NULL: no memory, or it has no room. */
static struct object_array *array_at(struct object_array **at, uint64_t limit)
{
	if (!*at && limit) {
		*at = calloc(1, sizeof(struct object_array) + limit * sizeof(struct slab *));
		if (*at)
			(*at)->limit = limit;
	}
	return *at;
}

static void array_drop_oldest(struct object_array *array, uint64_t n)
{
	array->count -= n;
	memmove(array->objects, array->objects + n, array->count * sizeof(struct slab *));
}

/* The newest objects of one array go to another. Returns how many. */
static uint64_t move_newest(struct object_array *to, struct object_array *from, uint64_t n)
{
	if (n > from->count)
		n = from->count;
	if (n > to->limit - to->count)
		n = to->limit - to->count;
	memcpy(to->objects + to->count, from->objects + from->count - n, n * sizeof(struct slab *));
	to->count += n;
	from->count -= n;
	return n;
}

/* --- slabs ----------------------------------------------------------------------------------- */

/* Put a slab on the list that it belongs to. */
static void file_slab(struct model_cache *cache, struct slab *slab, enum slab_end end)
{
	struct slab_node *node = &((struct slab_cache *)cache->own)->nodes[slab->node];

	if (slab->list)
		slab_list_remove(slab);
	slab_list_add(!slab->inuse                     ? &node->free
		      : slab->inuse == cache->per_slab ? &node->full
						       : &node->partial,
		      slab, end);
}

/* The last of a node's empty slabs. */
static void give_empty_slab(struct model_cache *cache, struct slab_node *node)
{
	struct slab *slab = node->free.last;

	slab_list_remove(slab);
	node->free_objects -= cache->per_slab;
	slab_destroy(cache, slab);
}

/* An object goes back to its slab, and empty slabs beyond the node's limit are given back. */
static void return_object(struct model_cache *cache, struct slab *slab)
{
	struct slab_node *node = &((struct slab_cache *)cache->own)->nodes[slab->node];

	slab->inuse--;
	node->free_objects++;
	file_slab(cache, slab, slab->inuse ? SLAB_TAIL : SLAB_HEAD);
	while (node->free_objects > node->free_limit && node->free.last)
		give_empty_slab(cache, node);
}

static void free_oldest(struct model_cache *cache, struct object_array *array, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		return_object(cache, array->objects[i]);
	array_drop_oldest(array, n);
}

/* The slab that the next objects come from, or NULL. */
static struct slab *first_slab(struct slab_node *node)
{
	if (node->partial.first)
		return node->partial.first;
	node->touched = true;
	return node->free.first;
}

/* NULL: no memory. */
static struct slab *new_slab(struct model_cache *cache, unsigned int node_number)
{
	struct slab *slab = slab_create(cache, node_number);

	if (slab)
		((struct slab_cache *)cache->own)->nodes[node_number].free_objects +=
			cache->per_slab;
	return slab;
}

static struct slab *take_object(struct model_cache *cache, struct slab *slab)
{
	slab->inuse++;
	((struct slab_cache *)cache->own)->nodes[slab->node].free_objects--;
	file_slab(cache, slab, SLAB_HEAD);
	return slab;
}

/* Returns how many there were. */
static uint64_t take_objects(struct model_cache *cache, struct object_array *array,
			     struct slab *slab, uint64_t wanted)
{
	uint64_t n = 0;

	for (; n < wanted && slab->inuse < cache->per_slab; n++)
		array->objects[array->count++] = take_object(cache, slab);
	return n;
}

static void grow(struct model_cache *cache, struct object_array *array, unsigned int node_number,
		 uint64_t wanted)
{
	struct slab *slab = new_slab(cache, node_number);

	if (slab)
		take_objects(cache, array, slab, wanted);
}

/* A CPU's array is empty: it gets objects of the shared array, or of slabs. */
static void refill(struct model_cache *cache, struct object_array *array, unsigned int node_number)
{
	struct slab_cache *own = cache->own;
	struct slab_node *node = &own->nodes[node_number];
	struct object_array *shared = node->shared;
	uint64_t wanted = own->batch;
	struct slab *slab;

	if (!array->touched && wanted > REFILL_IDLE)
		wanted = REFILL_IDLE;
	if (!node->free_objects && (!shared || !shared->count)) {
		grow(cache, array, node_number, wanted);
		return;
	}
	if (shared && move_newest(array, shared, wanted)) {
		shared->touched = true;
		return;
	}
	while (wanted && (slab = first_slab(node)))
		wanted -= take_objects(cache, array, slab, wanted);
	if (!array->count)
		grow(cache, array, node_number, wanted);
}

/* --- operations ------------------------------------------------------------------------------ */

static int alloc(struct model_cache *cache, const struct placement *where,
		 const struct object_shape *shape, uintptr_t *token)
{
	struct slab_cache *own = cache->own;
	struct object_array *array = array_at(&own->cpus[where->cpu], own->limit);
	struct slab *slab;

	(void)shape;
	if (!array)
		return -ENOMEM;
	if (where->node != model_node_of(cache, where->cpu)) {
		slab = first_slab(&own->nodes[where->node]);
		if (!slab)
			slab = new_slab(cache, where->node);
		*token = (uintptr_t)(slab ? take_object(cache, slab) : NULL);
		return slab ? 0 : -ENOMEM;
	}
	if (!array->count)
		refill(cache, array, where->node);
	if (!array->count)
		return -ENOMEM;
	array->touched = true;
	*token = (uintptr_t)array->objects[--array->count];
	return 0;
}

/* A CPU's array is full: the shared array gets the oldest objects, or their slabs do. */
static void flush(struct model_cache *cache, struct object_array *array, unsigned int node)
{
	struct slab_cache *own = cache->own;
	struct object_array *shared = array_at(&own->nodes[node].shared, own->shared_limit);
	const uint64_t room = shared ? shared->limit - shared->count : 0;
	const uint64_t n = room && room < own->batch ? room : own->batch;

	if (!room) {
		free_oldest(cache, array, n);
		return;
	}
	memcpy(shared->objects + shared->count, array->objects, n * sizeof(struct slab *));
	shared->count += n;
	array_drop_oldest(array, n);
}

static void free_object(struct model_cache *cache, unsigned int cpu,
			const struct object_shape *shape, uintptr_t token)
{
	struct slab_cache *own = cache->own;
	struct slab *slab = (struct slab *)token;
	const unsigned int node = model_node_of(cache, cpu);
	struct object_array *array = array_at(&own->cpus[cpu], own->limit);

	(void)shape;
	if (!array || slab->node != node) {
		return_object(cache, slab);
		return;
	}
	if (array->count == array->limit)
		flush(cache, array, node);
	array->objects[array->count++] = slab;
}

/* --- timer ----------------------------------------------------------------------------------- */

/* What has not been used since the last time loses a fifth, at most a half of what it has. */
static void reap_array(struct model_cache *cache, struct object_array *array)
{
	uint64_t n;

	if (!array || !array->count)
		return;
	if (array->touched) {
		array->touched = false;
		return;
	}
	n = (array->limit + REAP_PARTS - 1) / REAP_PARTS;
	free_oldest(cache, array, n <= array->count ? n : (array->count + 1) / 2);
}

static void give_empty_slabs(struct model_cache *cache, struct slab_node *node)
{
	const uint64_t parts = REAP_PARTS * cache->per_slab;
	uint64_t slabs = (node->free_limit + parts - 1) / parts;

	for (; slabs && node->free.last; slabs--)
		give_empty_slab(cache, node);
}

static void reap(struct model_cache *cache, unsigned int cpu, int64_t ns, bool keeps_slabs)
{
	struct slab_cache *own = cache->own;
	struct slab_node *node = &own->nodes[model_node_of(cache, cpu)];

	reap_array(cache, own->cpus[cpu]);
	if (node->reap_ns > ns)
		return;
	node->reap_ns = ns + REAP_NODE_NS;
	reap_array(cache, node->shared);
	if (!node->touched && !keeps_slabs)
		give_empty_slabs(cache, node);
	node->touched = false;
}

static void look(struct model_cache *cache, unsigned int cpu, bool at_node)
{
	struct slab_cache *own = cache->own;
	struct slab_node *node = &own->nodes[model_node_of(cache, cpu)];

	if (!at_node) {
		reap_array(cache, own->cpus[cpu]);
		return;
	}
	reap_array(cache, node->shared);
	if (!node->touched)
		give_empty_slabs(cache, node);
	node->touched = false;
}

/* Of one time the guest may have given back several slabs. */
static void drain(struct model_cache *cache, unsigned int cpu, int64_t ns)
{
	struct slab_cache *own = cache->own;
	struct slab_node *node = &own->nodes[model_node_of(cache, cpu)];

	if (node->drain_ns > ns)
		return;
	node->drain_ns = ns + REAP_NODE_NS / 2;
	if (node->reap_ns <= ns)
		reap_array(cache, node->shared);
	node->reap_ns = ns + REAP_NODE_NS;
	give_empty_slabs(cache, node);
}

const struct allocator_ops slab_allocator = {
	.name = "SLAB",
	.slot_least = SLOT_LEAST,
	.cache_init = cache_init,
	.cache_deinit = cache_deinit,
	.alloc = alloc,
	.free = free_object,
	.reap = reap,
	.drain = drain,
	.look = look,
};

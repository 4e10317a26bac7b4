/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "guest-symbols/kmem/call-graph.h"

enum {
	JUMP_ENTRY = 16, /* struct jump_entry: s32 code, s32 target, s64 key, all relative */
	KEY_FLAGS = 3,   /* low bits of the key that do not belong to its address */
	MAX_EMITTERS = 128,
};

/* Events about allocations that callers of the allocator ask for, and not its own housekeeping. */
static const struct kmem_event {
	const char *name; /* with the trace system */
	enum kmem_type_id type;
	bool frees;
} events[] = {
	{"kmem:kmalloc", KMEM_TYPE_KMALLOC, false},
	{"kmem:kmalloc_node", KMEM_TYPE_KMALLOC, false}, /* to 6.0 */
	{"kmem:kfree", KMEM_TYPE_KMALLOC, true},
	{"kmem:kmem_cache_alloc", KMEM_TYPE_CACHE, false},
	{"kmem:kmem_cache_alloc_node", KMEM_TYPE_CACHE, false}, /* to 6.0 */
	{"kmem:kmem_cache_free", KMEM_TYPE_CACHE, true},
	{"kmem:mm_page_alloc", KMEM_TYPE_PAGES, false},
	{"kmem:mm_page_free", KMEM_TYPE_PAGES, true},
};

enum { NR_EVENTS = sizeof(events) / sizeof(events[0]) };

/* --- emitters -------------------------------------------------------------------------------- */

static const struct symbol *find_tracepoint(const struct kernel_image *image, const char *event)
{
	char name[64];

	snprintf(name, sizeof(name), "__tracepoint_%s", strchr(event, ':') + 1);
	return symbols_find(image->symbols, name);
}

static int add_emitter(struct alloc_points *points, const struct kernel_image *image,
		       const struct kmem_event *event, uint64_t code, struct error *err)
{
	const struct symbol *function = call_graph_function(image, code);

	if (!function)
		return error_set(err, EBADMSG, "the kernel's jump table leads out of it");
	for (size_t i = 0; i < points->nr_emitters; i++) {
		const struct alloc_emitter *e = &points->emitters[i];

		if (e->address == function->address && e->type == event->type &&
		    e->frees == event->frees)
			return 0;
	}
	if (points->nr_emitters == MAX_EMITTERS)
		return error_set(err, E2BIG, "too many functions emit kmem events");
	points->emitters[points->nr_emitters++] =
		(struct alloc_emitter){.function = function->name,
				       .event = event->name,
				       .address = function->address,
				       .type = event->type,
				       .frees = event->frees};
	return 0;
}

/*
 * A static branch on a tracepoint's key (include/linux/jump_label.h, arch/x86/include/asm/
 * jump_label.h) is where a function emits that event.
 */
static int find_emitters(const struct kernel_image *image, struct alloc_points *points,
			 struct error *err)
{
	uint64_t start = symbols_address(image->symbols, "__start___jump_table");
	uint64_t stop = symbols_address(image->symbols, "__stop___jump_table");
	const struct symbol *tracepoints[NR_EVENTS];
	const uint8_t *table;
	int ret = 0;

	table = stop > start ? kernel_image_bytes(image, start, stop - start) : NULL;
	if (!table)
		return error_set(err, ENOENT, "the kernel image has no jump table");
	for (size_t i = 0; i < NR_EVENTS; i++)
		tracepoints[i] = find_tracepoint(image, events[i].name);
	for (uint64_t at = start; !ret && stop - at >= JUMP_ENTRY;
	     at += JUMP_ENTRY, table += JUMP_ENTRY) {
		int32_t code;
		uint64_t key;

		memcpy(&code, table, sizeof(code));
		memcpy(&key, table + 8, sizeof(key));
		key = at + 8 + (key & ~(uint64_t)KEY_FLAGS);
		for (size_t i = 0; !ret && i < NR_EVENTS; i++)
			if (tracepoints[i] && key - tracepoints[i]->address < tracepoints[i]->size)
				ret = add_emitter(points, image, &events[i],
						  at + (uint64_t)(int64_t)code, err);
	}
	return ret || points->nr_emitters
		       ? ret
		       : error_set(err, ENOENT, "no function of the kernel emits kmem events");
}

/* --- their cover ----------------------------------------------------------------------------- */

static bool is_probe(const struct alloc_points *points, uint64_t address)
{
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].address == address)
			return true;
	return false;
}

/* The entry points of the emitter's family. Entry points of another family emit other events. */
static size_t find_roots(const struct alloc_points *points, const struct alloc_emitter *emitter,
			 uint64_t *roots)
{
	size_t n = 0;

	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_entry *e = &points->v[i].entry;

		if (e->type == emitter->type && alloc_action_frees(e->action) == emitter->frees)
			roots[n++] = points->v[i].address;
	}
	return n;
}

static void explain(struct alloc_emitter *emitter, const struct call_proof *proof)
{
	char *text = emitter->reason;
	size_t room = sizeof(emitter->reason), used;

	if (proof->anywhere) {
		snprintf(text, room, "%s", proof->anywhere);
		return;
	}
	used = (size_t)snprintf(text, room, "called by ");
	for (size_t i = 0; i < proof->nr_others && i < CALL_PROOF_OTHERS && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "",
					 proof->others[i]);
	if (proof->nr_others > CALL_PROOF_OTHERS && used < room)
		used += (size_t)snprintf(text + used, room - used, " and %zu more",
					 proof->nr_others - CALL_PROOF_OTHERS);
	if (used < room)
		snprintf(text + used, room - used, ", which %s not traced",
			 proof->nr_others > 1 ? "are" : "is");
}

/* Tables of displacements are not searched, and a running kernel has rewritten some of its text. */
static const char no_caller[] =
	"nothing is seen to call it, which proves nothing of a running kernel";

static void prove(const struct kernel_image *image, struct call_graph *graph,
		  const struct alloc_points *points, struct alloc_emitter *emitter, uint64_t *roots)
{
	size_t nr_roots = find_roots(points, emitter, roots);
	struct call_proof proof;

	emitter->reason[0] = '\0';
	emitter->cover = ALLOC_COVER_PROBE;
	if (is_probe(points, emitter->address))
		return;
	proof = call_graph_prove(graph, emitter->address, roots, nr_roots);
	if (proof.proven && !proof.called && image->in_memory) {
		proof.proven = false;
		proof.anywhere = no_caller;
	}
	emitter->cover = !proof.proven  ? ALLOC_COVER_NONE
			 : proof.called ? ALLOC_COVER_NESTED
					: ALLOC_COVER_UNUSED;
	if (!proof.proven)
		explain(emitter, &proof);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * A free inside of another one would be counted twice, so that only those calls count that come
 * through no other entry point. *counted is false if these are not known.
 */
static int count_outer_calls(struct call_graph *graph, const struct alloc_points *points,
			     const struct alloc_emitter *emitter, uint64_t *roots,
			     struct alloc_entry *entry, bool *counted, struct error *err)
{
	size_t nr_roots = find_roots(points, emitter, roots);
	struct call_sites sites;

	*counted = call_graph_sites(graph, emitter->address, roots, nr_roots, &sites);
	if (!*counted)
		return 0;
	entry->calls = calloc(sites.n, sizeof(*entry->calls));
	if (!entry->calls)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(entry->calls, sites.v, sites.n * sizeof(*entry->calls));
	entry->nr_calls = sites.n;
	qsort(entry->calls, entry->nr_calls, sizeof(*entry->calls), by_value);
	return 0;
}

/* Allocations may nest, since the tracer sees their results. *added: there is a new point. */
static int become_point(const struct kernel_image *image, struct call_graph *graph,
			struct alloc_points *points, const struct alloc_emitter *emitter,
			uint64_t *roots, bool *added, struct error *err)
{
	const struct symbol *function = symbols_find(image->symbols, emitter->function);
	struct alloc_point *point = &points->v[points->n];
	int ret = 0;

	*added = false;
	if (emitter->cover != ALLOC_COVER_NONE || !function ||
	    function->address != emitter->address)
		return 0;
	*point = (struct alloc_point){
		.entry = {.name = emitter->function,
			  .type = emitter->type,
			  .action = emitter->frees ? ALLOC_ACTION_FREE : ALLOC_ACTION_ALLOC}};
	if (alloc_point_init(image, function, point, NULL))
		return 0;
	*added = true;
	if (emitter->frees)
		ret = count_outer_calls(graph, points, emitter, roots, &point->entry, added, err);
	points->n += !ret && *added;
	return ret;
}

static int prove_once(const struct kernel_image *image, struct call_graph *graph,
		      struct alloc_points *points, uint64_t *addresses, bool *more,
		      struct error *err)
{
	int ret = 0;

	*more = false;
	for (size_t i = 0; !ret && i < points->nr_emitters; i++) {
		struct alloc_emitter *emitter = &points->emitters[i];
		bool added;

		prove(image, graph, points, emitter, addresses);
		ret = become_point(image, graph, points, emitter, addresses, &added, err);
		*more |= !ret && added;
	}
	return ret;
}

/* `addresses` has room for all entry points and all emitters. */
static int prove_all(const struct kernel_image *image, struct alloc_points *points,
		     uint64_t *addresses, struct error *err)
{
	uint64_t *wanted = addresses + points->n;
	struct call_graph *graph;
	bool more = true;
	size_t n = 0;
	int ret;

	for (size_t i = 0; i < points->n; i++)
		addresses[i] = points->v[i].address;
	for (size_t i = 0; i < points->nr_emitters; i++)
		if (!is_probe(points, points->emitters[i].address))
			wanted[n++] = points->emitters[i].address;
	ret = call_graph_create(image, wanted, n, addresses, points->n, &graph, err);
	if (ret)
		return ret;
	while (!ret && more)
		ret = prove_once(image, graph, points, addresses, &more, err);
	call_graph_destroy(graph);
	return ret;
}

static int by_address(const void *a, const void *b)
{
	const struct alloc_emitter *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Each emitter may become an entry point. */
static int make_room(struct alloc_points *points, struct error *err)
{
	size_t room = points->n + MAX_EMITTERS;
	struct alloc_point *v = realloc(points->v, room * sizeof(*v));

	if (v)
		points->v = v;
	points->emitters = calloc(MAX_EMITTERS, sizeof(*points->emitters));
	return v && points->emitters ? 0 : error_set(err, ENOMEM, "out of memory");
}

int alloc_points_prove(const struct kernel_image *image, struct alloc_points *points,
		       struct error *err)
{
	uint64_t *addresses;
	struct error why;
	int ret = make_room(points, err);

	if (ret)
		return ret;
	if (find_emitters(image, points, &why)) {
		snprintf(points->unproven, sizeof(points->unproven), "%.*s",
			 (int)sizeof(points->unproven) - 1, why.text);
		points->nr_emitters = 0;
		return 0;
	}
	addresses = calloc(points->n + MAX_EMITTERS, sizeof(*addresses));
	if (!addresses)
		return error_set(err, ENOMEM, "out of memory");
	ret = prove_all(image, points, addresses, err);
	free(addresses);
	qsort(points->emitters, points->nr_emitters, sizeof(*points->emitters), by_address);
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What completes a record: the call site, the sizes of pages; and where it goes. */
#include "patcher/tracers/kmem/kmem.h"

#include <string.h>
#include "patcher/probe/chain.h"

uint64_t kmem_call_site(const struct kmem_tracer *t, const struct alloc_entry *entry,
			const struct probe_hit *hit)
{
	if (entry->type == KMEM_TYPE_PAGES)
		return page_callers_resolve(t->page_callers, hit->call_site, hit->stack,
					    hit->nr_stack);
	return kmem_argument(entry, hit->args, ALLOC_ROLE_CALLER, hit->call_site);
}

bool kmem_is_in_body(const struct kernel *kernel, uint64_t return_address, const char *function)
{
	const struct symbol *s =
		symbols_covering(kernel->image->symbols, kernel_link(kernel, return_address) - 1);
	size_t length = strlen(function);

	return s && !strncmp(s->name, function, length) &&
	       (s->name[length] == '\0' || s->name[length] == '.');
}

void kmem_note_chain(const struct kmem_tracer *t, const struct probe_record *record)
{
	struct probe_chain chain;

	if (!(t->view->captured & CAPTURE(FIELD_CHAIN)))
		return;
	chain = probe_record_chain(record);
	chain_unwind(t->context.kernel, t->view->task.stack_bytes, &chain, t->stack);
}

/* Each by itself: its chain lasts until the next one. */
static void emit_with_stack(const struct kmem_tracer *t, const struct kmem_moment *at,
			    const struct kmem_record *record)
{
	struct kmem_stack_record whole;

	whole.call = (struct kmem_task_record){*record, *at->task};
	memcpy(whole.stack, t->stack, sizeof(whole.stack));
	for (size_t i = 0; i < t->nr_outputs; i++) {
		const struct kmem_output *output = &t->outputs[i];

		if (kmem_is_wanted(output, at->vcpu, &whole.call, at->lacks))
			output->stream.output->put(t->context.batch, output->stream.sinks[at->vcpu],
						   kmem_made_class(record), at->ns, &whole);
	}
}

void kmem_emit_with_task(const struct kmem_tracer *t, const struct kmem_moment *at,
			 struct kmem_record *record)
{
	struct kmem_pending_vcpu *p;

	if (t->view->captured & CAPTURE(FIELD_CHAIN)) {
		emit_with_stack(t, at, record);
		return;
	}
	*kmem_pending_next(t, at->vcpu, kmem_made_class(record)) =
		(struct kmem_task_record){*record, *at->task};
	p = &t->pending->v[at->vcpu];
	p->lacks[p->n - 1] = at->lacks;
	p->any_lacks |= at->lacks != 0;
}

/* Once for all hits of a batch. */
static bool read_map(const struct kmem_tracer *t, uint64_t batch)
{
	struct kmem_map *map = t->map;

	if (batch && map->batch == batch)
		return true;
	map->batch = 0;
	if (slab_map_read(t->slab, &map->map, NULL))
		return false;
	map->batch = batch;
	return true;
}

bool kmem_page_address(const struct kmem_tracer *t, uint64_t batch, uint64_t page, uint64_t *gva)
{
	return read_map(t, batch) && slab_map_address(&t->map->map, page, gva);
}

void kmem_emit_pages(const struct kmem_tracer *t, const struct kmem_moment *at, uint64_t page,
		     uint64_t order, struct kmem_record *record)
{
	if (!kmem_believes(order) || !kmem_page_address(t, at->batch, page, &record->ptr)) {
		count_event(t->context.counters, COUNTER_UNREADABLE, 1);
		return;
	}
	record->bytes_req = (uint64_t)KMEM_PAGE_SIZE << (uint32_t)order;
	record->bytes_alloc = record->bytes_req;
	kmem_emit(t, at, record);
}

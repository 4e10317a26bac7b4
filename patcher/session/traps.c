/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happens on a vCPU's thread when it takes a trap: see what is there, and let it go on. */
#include "patcher/session/internal.h"
#include "patcher/probe/probe.h"
#include "patcher/text/site.h"
#include "patcher/engine/host-record.h"

/* A hit with the memory that it refers to. */
struct seen_hit {
	struct probe_hit hit;
	struct object_iter source;
	uint64_t stack[CAPTURE_MAX_STACK];
	uint64_t items[CAPTURE_MAX_ITEMS];
};

static uint64_t return_address(const struct trace_session *s, const struct guest_trap *trap)
{
	uint64_t address = 0;

	if (kernel_read(&s->kernel, trap->regs.rsp, &address, sizeof(address), NULL))
		return 0;
	return address;
}

/* Like a trampoline: not beyond the end of the page, what is above the stack may not be mapped. */
static void see_stack(const struct trace_session *s, const struct capture *capture,
		      struct seen_hit *seen)
{
	uint64_t at = seen->hit.key + sizeof(uint64_t);
	uint64_t left = (-at & 4095) / sizeof(uint64_t);
	size_t n = left < capture->stack_words ? left : capture->stack_words;

	if (!(capture->fields & CAPTURE(FIELD_STACK)) ||
	    kernel_read(&s->kernel, at, seen->stack, n * sizeof(uint64_t), NULL))
		return;
	seen->hit.stack = seen->stack;
	seen->hit.nr_stack = n;
}

static void see_slab_cache(const struct capture *capture, struct probe_hit *hit)
{
	const struct page_lookup *pages = capture->pages;

	if (!(capture->fields & CAPTURE(FIELD_SLAB_CACHE)) ||
	    pages->slab_cache(pages->arg, hit->result, &hit->slab_cache, NULL))
		hit->slab_cache = 0;
}

static void begin(struct seen_hit *seen, const struct guest_trap *trap)
{
	seen->source = (struct object_iter){0};
	seen->hit = (struct probe_hit){
		.vcpu = trap->vcpu, .time_ns = trap->time_ns, .key = trap->regs.rsp};
}

/* What is left of the items is not going to be read. */
static void lose_items(struct trace_session *s, const struct object_iter *source)
{
	count_event(&s->counters, COUNTER_LOST, source->from == ITEMS_ARRAY ? source->count : 1);
}

/* Deliver what was seen, in as many hits as its items take. */
static void deliver(struct trace_session *s, const struct probe_ref *ref,
		    const struct capture *capture, struct seen_hit *seen)
{
	size_t max = trap_record_max_items(&seen->hit), total = 0;

	seen->hit.items = seen->items;
	if (max > CAPTURE_MAX_ITEMS)
		max = CAPTURE_MAX_ITEMS;
	do {
		if (object_iter_read(&seen->source, &s->kernel, capture->pages, seen->items, max,
				     &seen->hit.nr_items, NULL))
			lose_items(s, &seen->source);
		if (!total || seen->hit.nr_items)
			session_submit(s, ref, capture->point, &seen->hit);
		total += seen->hit.nr_items;
	} while (seen->hit.nr_items == max && total < CAPTURE_ITEMS_PER_CALL);
	if (total >= CAPTURE_ITEMS_PER_CALL && seen->source.count)
		lose_items(s, &seen->source);
}

static void see_owner(const struct trace_session *s, const struct capture *capture,
		      struct probe_hit *hit)
{
	uint64_t at = hit->args[capture->items.pointer];

	if ((capture->fields & CAPTURE(FIELD_OWNER)) &&
	    kernel_read(&s->kernel, at + (uint64_t)(int64_t)capture->items.owner_offset,
			&hit->owner, sizeof(hit->owner), NULL))
		hit->owner = 0;
}

static void see_entry(struct trace_session *s, const struct trap *t, const struct guest_trap *trap)
{
	const uint64_t args[CAPTURE_ARGUMENTS] = {trap->regs.rdi, trap->regs.rsi, trap->regs.rdx,
						  trap->regs.rcx, trap->regs.r8,  trap->regs.r9};
	const struct capture *capture = &t->ref->probe->entry;
	struct seen_hit seen;

	begin(&seen, trap);
	memcpy(seen.hit.args, args, sizeof(args));
	seen.hit.call_site = return_address(s, trap);
	see_stack(s, capture, &seen);
	see_owner(s, capture, &seen.hit);
	if (object_iter_init(&seen.source, &s->kernel, &capture->items, args, NULL))
		count_event(&s->counters, COUNTER_LOST, 1);
	if (capture->items.from == ITEMS_SAVED)
		session_save_array(s, &capture->items, &seen.hit);
	deliver(s, t->ref, capture, &seen);
	if (t->ref->probe->wants_return)
		boot_window_note_entry(&s->boot, seen.hit.call_site);
}

static void see_return(struct trace_session *s, const struct capture *capture,
		       const struct guest_trap *trap)
{
	struct seen_hit seen;

	begin(&seen, trap);
	seen.hit.result = trap->regs.rax;
	see_slab_cache(capture, &seen.hit);
	if (capture->items.from == ITEMS_RETURNED)
		session_saved_array(s, &seen.hit, &seen.source);
	deliver(s, NULL, capture, &seen);
}

/* Do what the trapped `ret` (or jump to the return thunk) would have done. */
static void leave_function(const struct trace_session *s, const struct trap *t,
			   struct guest_trap *trap)
{
	if (t->thunk) {
		trap->regs.rip = t->thunk;
		return;
	}
	trap->regs.rip = return_address(s, trap);
	trap->regs.rsp += sizeof(uint64_t);
}

static bool on_trampoline_trap(struct trace_session *s, struct guest_trap *trap)
{
	if (!s->exitless || !ring_engine_on_trap(s->exitless, trap))
		return false;
	session_look_again(s);
	return true;
}

bool session_on_trap(void *arg, struct guest_trap *trap)
{
	struct trace_session *s = arg;
	const struct trap *t;
	enum trap_kind kind;

	if (trap->gap_ns) {
		session_gap(s, trap->gap_ns);
		return true;
	}
	t = trap_table_find(&s->traps, trap->regs.rip);
	if (!t)
		return on_trampoline_trap(s, trap);
	kind = t->kind;
	atomic_fetch_add_explicit(&s->traps_taken[trap->vcpu % TRACE_MAX_VCPUS], 1,
				  memory_order_relaxed);
	switch (kind) {
	case TRAP_ENTRY:
		see_entry(s, t, trap);
		trap->regs.rip += SITE_SIZE;
		break;
	case TRAP_RETURN:
		see_return(s, &t->capture, trap);
		leave_function(s, t, trap);
		break;
	case TRAP_ONESHOT:
		oneshot_fire(&s->oneshots, t, trap);
		break;
	}
	session_sample(s, kind);
	session_look_again(s);
	return true;
}

void session_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap)
{
	struct trace_session *s = arg;
	const struct trap *t = trap_table_find(&s->traps, site);

	if (t)
		see_entry(s, t, trap);
}

void session_boot_return(void *arg, const struct guest_trap *trap)
{
	const struct trace_session *s = arg;
	struct capture all = {.point = POINT_RETURN};

	/* of no slot in particular */
	for (size_t i = 0; i < s->plan.nr_refs; i++)
		capture_merge_return(&all, &s->plan.refs[i].probe->ret);
	see_return(arg, &all, trap);
}

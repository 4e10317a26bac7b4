/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/engine/trap-reader.h"

#include <string.h>
#include "introspect/tasks/task-reader.h"
#include "patcher/engine/host-record.h"
#include "patcher/probe/probe.h"
#include "patcher/text/site.h"

/* A hit with the memory that it refers to. */
struct seen_hit {
	struct probe_hit hit;
	struct object_iter objects;
	uint64_t stack[CAPTURE_MAX_STACK];
	struct direct_stack chain;
	uint64_t items[CAPTURE_MAX_ITEMS];
};

int trap_reader_init(struct trap_reader *r, struct error *err)
{
	pthread_mutex_init(&r->arrays_lock, NULL);
	return call_table_create(r->kernel->guest ? r->kernel->guest->budget : NULL, &r->arrays,
				 err);
}

void trap_reader_deinit(struct trap_reader *r)
{
	pthread_mutex_destroy(&r->arrays_lock);
	call_table_destroy(r->arrays);
	r->arrays = NULL;
}

void trap_reader_forget(struct trap_reader *r)
{
	pthread_mutex_lock(&r->arrays_lock);
	call_table_clear(r->arrays);
	pthread_mutex_unlock(&r->arrays_lock);
}

/* --- arrays of bulk calls --------------------------------------------------------------------- */

static void save_array(struct trap_reader *r, const struct capture_items *items,
		       const struct probe_hit *hit)
{
	struct call_table_push_result pushed;
	uint64_t array = hit->args[items->pointer], saved = 0;
	uint32_t count = (uint32_t)hit->args[items->count];
	struct open_call *call;

	if (!array)
		return;
	if (items->all_or_none)
		saved = SAVED_ALL_OR_NONE | count;
	else if (items->skip_filled)
		saved = object_iter_filled(r->kernel, array, count);
	pthread_mutex_lock(&r->arrays_lock);
	call = call_table_push(r->arrays, hit->key, &pushed);
	if (call) {
		call->words[0] = array;
		call->words[1] = saved;
	}
	pthread_mutex_unlock(&r->arrays_lock);
	if (!call)
		count_event(r->counters, COUNTER_LOST, 1);
}

/* The words that the call fills in, and FIELD_SAVED - 1. The call's entry was a trampoline or a
 * trap. */
static bool find_array(struct trap_reader *r, struct engine *engine, uint64_t key, uint64_t *words,
		       uint64_t *saved)
{
	const struct open_call *call;

	if (engine->ops->take_saved_array(engine, key, words, saved))
		return true;
	pthread_mutex_lock(&r->arrays_lock);
	call = call_table_pop(r->arrays, key);
	if (call) {
		*saved = call->words[1];
		*words = call->words[0];
	}
	pthread_mutex_unlock(&r->arrays_lock);
	if (call && !(*saved & SAVED_ALL_OR_NONE))
		*words += *saved * sizeof(uint64_t);
	return call;
}

static void find_returned(struct trap_reader *r, struct engine *engine, struct seen_hit *seen)
{
	uint64_t words, saved, count;

	if (!find_array(r, engine, seen->hit.key, &words, &saved))
		return;
	seen->hit.saved = 1 + saved;
	count = probe_hit_all_items(&seen->hit);
	if (!count || count > CAPTURE_ITEMS_PER_CALL)
		return;
	seen->objects.from = ITEMS_ARRAY;
	seen->objects.at = words;
	seen->objects.count = count;
}

void trap_reader_drop_array(struct trap_reader *r, struct engine *engine, uint64_t key)
{
	uint64_t words, saved;

	find_array(r, engine, key, &words, &saved);
}

/* --- a hit ------------------------------------------------------------------------------------ */

static uint64_t return_address(const struct trap_reader *r, const struct guest_trap *trap)
{
	uint64_t address = 0;

	if (kernel_read(r->kernel, trap->regs.rsp, &address, sizeof(address), NULL))
		return 0;
	return address;
}

/* As in a trampoline, up to the end of the page: what lies above a stack may not be mapped. */
static void see_stack(const struct trap_reader *r, const struct capture *capture,
		      struct seen_hit *seen)
{
	uint64_t at = seen->hit.key + sizeof(uint64_t);
	uint64_t left = (-at & 4095) / sizeof(uint64_t);
	size_t n = left < capture->stack_words ? left : capture->stack_words;

	if (!(capture->fields & CAPTURE(FIELD_STACK)) ||
	    kernel_read(r->kernel, at, seen->stack, n * sizeof(uint64_t), NULL))
		return;
	seen->hit.stack = seen->stack;
	seen->hit.nr_stack = n;
}

/* Likewise, of the task's stack up to its end. Without the task it is any stack. */
static void see_chain(const struct trap_reader *r, const struct capture *capture,
		      const struct guest_trap *trap, struct seen_hit *seen)
{
	const uint32_t most = (uint32_t)trap_record_max_chain(capture);
	struct direct_stack *chain = &seen->chain;
	size_t n, rest;

	if (!(capture->fields & CAPTURE(FIELD_CHAIN)))
		return;
	chain->sp = seen->hit.key;
	chain->bp = trap->regs.rbp;
	if (task_read_stack(r->kernel, capture->task, trap->vcpu, &chain->task, NULL))
		chain->task = 0;
	n = direct_stack_words(chain, capture->task->stack_bytes, most);
	if (kernel_read(r->kernel, chain->sp, chain->words, n * sizeof(uint64_t), NULL))
		return;
	rest = direct_stack_rest(chain, capture->task->stack_bytes, (uint32_t)n, most);
	if (rest && !kernel_read(r->kernel, chain->words[n - 1], chain->words + n,
				 rest * sizeof(uint64_t), NULL))
		n += rest;
	seen->hit.chain = (struct probe_chain){.at = &chain->sp, .words = n};
}

static void see_slab_cache(const struct capture *capture, struct probe_hit *hit)
{
	const struct page_lookup *pages = capture->pages;

	if (!(capture->fields & CAPTURE(FIELD_SLAB_CACHE)) ||
	    pages->slab_cache(pages->arg, hit->result, &hit->slab_cache, NULL))
		hit->slab_cache = 0;
}

static void see_owner(const struct trap_reader *r, const struct capture *capture,
		      struct probe_hit *hit)
{
	uint64_t at = hit->args[capture->items.pointer];

	if ((capture->fields & CAPTURE(FIELD_OWNER)) &&
	    kernel_read(r->kernel, at + (uint64_t)(int64_t)capture->items.owner_offset, &hit->owner,
			sizeof(hit->owner), NULL))
		hit->owner = 0;
}

static void see_task(const struct trap_reader *r, const struct capture *capture,
		     struct probe_hit *hit)
{
	struct event_task task;

	if (!(capture->fields & CAPTURE_TASK))
		return;
	task_read_current(r->kernel, capture->task, hit->vcpu, &task, NULL);
	hit->pid = task.pid;
	hit->tgid = task.tgid;
	hit->cgroup = task.cgroup;
	memcpy(hit->comm, task.comm, sizeof(hit->comm));
}

static void begin(struct seen_hit *seen, const struct guest_trap *trap,
		  const struct capture *capture)
{
	seen->objects = (struct object_iter){0};
	seen->hit = (struct probe_hit){.vcpu = trap->vcpu,
				       .time_ns = trap->time_ns,
				       .fields = capture->fields,
				       .key = trap->regs.rsp};
}

/* The rest of the objects is not read. */
static void lose_objects(struct trap_reader *r, struct object_iter *objects)
{
	count_event(r->counters, COUNTER_LOST, objects->from == ITEMS_ARRAY ? objects->count : 1);
	objects->count = 0;
}

/* A hit without the one item that it is about would say that there is none. */
static bool is_lost(const struct capture *capture, int failed)
{
	return failed && capture->items.from == ITEMS_LAST;
}

/* Submit a hit, or as many as its objects need. */
static void submit(struct trap_reader *r, struct engine *engine, const struct probe_ref *ref,
		   const struct capture *capture, struct seen_hit *seen)
{
	size_t max = trap_record_max_items(&seen->hit), total = 0;
	int ret;

	seen->hit.items = seen->items;
	if (max > CAPTURE_MAX_ITEMS)
		max = CAPTURE_MAX_ITEMS;
	do {
		ret = object_iter_read(&seen->objects, r->kernel, capture->pages, seen->items, max,
				       &seen->hit.nr_items, NULL);
		if (ret)
			lose_objects(r, &seen->objects);
		if (seen->hit.nr_items || (!total && !is_lost(capture, ret)))
			engine->ops->submit(engine, ref, capture->point, &seen->hit);
		total += seen->hit.nr_items;
	} while (seen->hit.nr_items == max && total < CAPTURE_ITEMS_PER_CALL);
	if (total >= CAPTURE_ITEMS_PER_CALL && seen->objects.count)
		lose_objects(r, &seen->objects);
}

static void see_entry(struct trap_reader *r, struct engine *engine, const struct trap *t,
		      const struct guest_trap *trap)
{
	const uint64_t args[CAPTURE_ARGUMENTS] = {trap->regs.rdi, trap->regs.rsi, trap->regs.rdx,
						  trap->regs.rcx, trap->regs.r8,  trap->regs.r9};
	const struct capture *capture = &t->ref->probe->entry;
	struct seen_hit seen;
	int ret;

	begin(&seen, trap, capture);
	memcpy(seen.hit.args, args, sizeof(args));
	seen.hit.call_site = return_address(r, trap);
	see_stack(r, capture, &seen);
	see_chain(r, capture, trap, &seen);
	see_owner(r, capture, &seen.hit);
	see_task(r, capture, &seen.hit);
	ret = object_iter_init(&seen.objects, r->kernel, &capture->items, args, NULL);
	if (ret)
		count_event(r->counters, COUNTER_LOST, 1);
	if (is_lost(capture, ret))
		return;
	if (capture->items.from == ITEMS_SAVED)
		save_array(r, &capture->items, &seen.hit);
	submit(r, engine, t->ref, capture, &seen);
}

static void see_return(struct trap_reader *r, struct engine *engine, const struct capture *capture,
		       const struct guest_trap *trap)
{
	struct seen_hit seen;

	begin(&seen, trap, capture);
	seen.hit.result = trap->regs.rax;
	see_slab_cache(capture, &seen.hit);
	see_chain(r, capture, trap, &seen);
	if (capture->items.from == ITEMS_RETURNED)
		find_returned(r, engine, &seen);
	submit(r, engine, NULL, capture, &seen);
}

void trap_reader_entry(struct trap_reader *r, struct engine *engine, uint64_t site,
		       const struct guest_trap *trap)
{
	const struct trap *t = trap_table_find(r->traps, site);

	if (t)
		see_entry(r, engine, t, trap);
}

void trap_reader_return(struct trap_reader *r, struct engine *engine, const struct guest_trap *trap)
{
	struct capture all = {.point = POINT_RETURN};

	/* the slot is not known: what any of them captures */
	for (size_t i = 0; i < r->plan->nr_refs; i++)
		capture_merge_return(&all, &r->plan->refs[i].probe->ret);
	see_return(r, engine, &all, trap);
}

/* --- a trap ----------------------------------------------------------------------------------- */

/* Do what stands in front of the trapped `ret`. What it pops lies on the same stack as the return
 * address. */
static void leave_frame(const struct trap_reader *r, const struct trap *t, struct guest_trap *trap)
{
	epilogue_run(&t->epilogue, r->kernel, &trap->regs, NULL);
}

/* Do what the trapped `ret` (or jump to the return thunk) would have done. */
static void leave_function(const struct trap_reader *r, const struct trap *t,
			   struct guest_trap *trap)
{
	if (t->thunk) {
		trap->regs.rip = t->thunk;
		return;
	}
	trap->regs.rip = return_address(r, trap);
	trap->regs.rsp += sizeof(uint64_t);
}

enum engine_trap trap_reader_take(struct trap_reader *r, struct engine *engine,
				  struct guest_trap *trap)
{
	const struct trap *t = trap_table_find(r->traps, trap->regs.rip);
	enum engine_trap result = ENGINE_TRAP_OTHER;

	if (!t)
		return ENGINE_TRAP_FOREIGN;
	atomic_fetch_add_explicit(&r->taken[trap->vcpu % TRAP_READER_VCPUS], 1,
				  memory_order_relaxed);
	switch (t->kind) {
	case TRAP_ENTRY:
		see_entry(r, engine, t, trap);
		trap->regs.rip += SITE_SIZE;
		result = ENGINE_TRAP_CALL;
		break;
	case TRAP_RETURN:
		leave_frame(r, t, trap);
		see_return(r, engine, &t->capture, trap);
		leave_function(r, t, trap);
		break;
	case TRAP_ONESHOT:
		oneshot_fire(r->oneshots, t, trap);
		break;
	}
	return result;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/heap/heap.h"
#include "formats/heap/sum.h"

/* The heap of an instance of kmem, and which stacks its live objects are of. */
struct instance_heap {
	struct stacks *stacks;
	struct heap *heap;      /* NULL: it has no event so far */
	struct u64_map objects; /* by their address: their stack */
	struct u64_map blocks;  /* likewise, of pages */
	uint32_t at_hand;       /* the stack of the event that is applied */
	bool in_time;           /* that event is in the time of the part */
};

struct stacks {
	const struct trace_reader *reader;
	const struct trace_instance *instances;
	size_t nr_instances;
	struct stack *all;
	uint32_t count, room;
	struct u64_map by_hash; /* index; the next free key holds another one of the same hash */
	struct instance_heap heaps[TRACE_INSTANCES_MAX];
	struct stack_times *times; /* NULL: events and bytes are summed up */
};

static bool have_times(const struct stacks *stacks)
{
	for (size_t i = 0; i < stacks->nr_instances; i++)
		if (graph_is_of(&stacks->instances[i]) || syscall_is_of(&stacks->instances[i]))
			return true;
	return false;
}

static int check_value(const struct stacks *stacks, enum export_value value, struct error *err)
{
	const char *lacks = NULL;

	if (value == EXPORT_TIME && !have_times(stacks))
		lacks = "calls with their returns";
	if ((value == EXPORT_BYTES || value == EXPORT_LIVE) && !stacks_have_bytes(stacks))
		lacks = "allocations";
	if (!lacks)
		return 0;
	return error_set(err, EINVAL, "--value %s: the trace has no %s; use --value count",
			 export_value_names[value], lacks);
}

int stacks_create(const struct trace_reader *reader, enum export_value value, struct stacks **out,
		  struct error *err)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));
	int ret;

	if (!stacks)
		return error_set(err, ENOMEM, "out of memory");
	stacks->reader = reader;
	stacks->instances = trace_reader_instances(reader, &stacks->nr_instances);
	u64_map_init(&stacks->by_hash, sizeof(uint32_t));
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++) {
		u64_map_init(&stacks->heaps[i].objects, sizeof(uint32_t));
		u64_map_init(&stacks->heaps[i].blocks, sizeof(uint32_t));
	}
	ret = check_value(stacks, value, err);
	if (!ret && value == EXPORT_TIME) {
		stacks->times = stack_times_create(stacks, stacks->instances);
		ret = stacks->times ? 0 : error_set(err, ENOMEM, "out of memory");
	}
	if (ret)
		stacks_destroy(stacks);
	else
		*out = stacks;
	return ret;
}

void stacks_destroy(struct stacks *stacks)
{
	if (!stacks)
		return;
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++) {
		heap_destroy(stacks->heaps[i].heap);
		u64_map_deinit(&stacks->heaps[i].objects);
		u64_map_deinit(&stacks->heaps[i].blocks);
	}
	stack_times_destroy(stacks->times);
	u64_map_deinit(&stacks->by_hash);
	free(stacks->all);
	free(stacks);
}

bool stacks_have_bytes(const struct stacks *stacks)
{
	for (size_t i = 0; i < stacks->nr_instances; i++)
		for (size_t c = 0; c < stacks->instances[i].nr_classes; c++)
			if (kmem_class_is_known(&stacks->instances[i].classes[c]))
				return true;
	return false;
}

/* --- stacks ---------------------------------------------------------------------------------- */

static void add_frames(struct stack *stack, const struct event *event, enum event_field_type type)
{
	for (size_t i = 0; i < event->class->nr_fields; i++) {
		const struct event_field *field = &event->class->fields[i];

		if (field->type == type)
			stack->frames[stack->nr_frames++] = event_field_value(field, event->bytes);
	}
}

bool stack_event_has_chain(const struct event *event)
{
	return event_field_chain(event->class);
}

/* False: the event has no stack. */
static bool add_chain(struct stack *stack, const struct event *event)
{
	uint64_t frames[EVENT_STACK_FRAMES];
	const struct event_field *field = event_field_chain(event->class);
	unsigned int n;
	bool cut;

	if (!field)
		return false;
	n = event_field_frames(field, event->bytes, frames, &cut);
	if (cut)
		stack->frames[stack->nr_frames++] = EVENT_STACK_CUT;
	while (n-- > 0)
		stack->frames[stack->nr_frames++] = frames[n];
	return true;
}

/* 0: it has none. */
static uint64_t site_of(const struct event *event)
{
	for (size_t i = 0; i < event->class->nr_fields; i++)
		if (event->class->fields[i].type == EVENT_CODE)
			return event_field_value(&event->class->fields[i], event->bytes);
	return 0;
}

static bool is_same(const struct stack *a, const struct stack *b)
{
	return a->class == b->class && a->instance == b->instance && a->site == b->site &&
	       a->nr_frames == b->nr_frames &&
	       !memcmp(a->frames, b->frames, a->nr_frames * sizeof(a->frames[0]));
}

static uint64_t hash_of(const struct stack *stack)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash = (uintptr_t)stack->class ^ stack->site;

	for (unsigned int i = 0; i < stack->nr_frames; i++)
		hash = ((hash << 29 | hash >> 35) ^ stack->frames[i]) * factor;
	return hash;
}

static struct stack *append(struct stacks *stacks)
{
	uint32_t room = stacks->room ? 2 * stacks->room : 1024;
	struct stack *bigger;

	if (stacks->count == stacks->room) {
		bigger = room > stacks->room ? reallocarray(stacks->all, room, sizeof(*bigger))
					     : NULL;
		if (!bigger)
			return NULL;
		stacks->all = bigger;
		stacks->room = room;
	}
	return &stacks->all[stacks->count++];
}

void stack_of_event(struct stack *out, const struct event *event)
{
	out->class = event->class;
	out->instance = event->instance;
	out->site = site_of(event);
	out->nr_frames = 0;
	if (!add_chain(out, event))
		add_frames(out, event, EVENT_CODE);
	add_frames(out, event, EVENT_FUNCTION);
}

int64_t stacks_index(struct stacks *stacks, const struct stack *stack)
{
	struct stack *made;
	uint32_t *index;
	uint64_t key;

	for (key = hash_of(stack); (index = u64_map_find(&stacks->by_hash, key)); key++)
		if (is_same(&stacks->all[*index], stack))
			return *index;
	index = u64_map_insert(&stacks->by_hash, key, NULL);
	made = index ? append(stacks) : NULL;
	if (!made)
		return -ENOMEM;
	*made = *stack;
	memset(made->sums, 0, sizeof(made->sums));
	made->page_origin = 0;
	*index = stacks->count - 1;
	return *index;
}

struct stack *stacks_get(struct stacks *stacks, uint32_t index)
{
	return &stacks->all[index];
}

/* --- bytes ----------------------------------------------------------------------------------- */

static struct u64_map *map_of(struct instance_heap *h, const struct heap_change *change)
{
	return heap_change_origin(change)->type == KMEM_TYPE_PAGES ? &h->blocks : &h->objects;
}

static int begin_life(struct instance_heap *h, const struct heap_change *change)
{
	struct stack *stack = &h->stacks->all[h->at_hand];
	uint32_t *its = u64_map_insert(map_of(h, change), change->ptr, NULL);

	if (!its)
		return -ENOMEM;
	*its = h->at_hand;
	if (heap_change_origin(change)->type == KMEM_TYPE_PAGES)
		stack->page_origin = change->object->origin + 1;
	if (h->in_time)
		sum_add(&stack->sums[STACK_BYTES], change->object->bytes);
	sum_add(&stack->sums[STACK_LIVE_BYTES], change->object->bytes);
	stack->sums[STACK_LIVE_OBJECTS]++;
	return 0;
}

/* Each page is a block now. */
static int split(struct instance_heap *h, const struct heap_change *change, uint32_t stack)
{
	sum_add(&h->stacks->all[stack].sums[STACK_LIVE_OBJECTS], change->pieces - 1);
	for (uint32_t i = 1; i < change->pieces; i++) {
		const uint64_t ptr = change->ptr + (uint64_t)i * HEAP_PAGE_SIZE;
		uint32_t *its = u64_map_insert(&h->blocks, ptr, NULL);

		if (!its)
			return -ENOMEM;
		*its = stack;
	}
	return 0;
}

static int take_change(void *arg, const struct heap_change *change)
{
	struct instance_heap *h = arg;
	const uint32_t *its;
	uint64_t *sums;

	if (change->kind == HEAP_ALLOC)
		return change->object->selected ? begin_life(h, change) : 0;
	its = change->object ? u64_map_find(map_of(h, change), change->ptr) : NULL;
	if (!its)
		return 0;
	if (change->kind == HEAP_SPLIT)
		return split(h, change, *its);
	sums = h->stacks->all[*its].sums;
	sum_subtract(&sums[STACK_LIVE_OBJECTS], 1);
	sum_subtract(&sums[STACK_LIVE_BYTES], change->object->bytes);
	u64_map_remove(map_of(h, change), change->ptr);
	return 0;
}

static int apply(struct stacks *stacks, const struct event *event, uint32_t stack,
		 const struct part_place *place)
{
	struct instance_heap *h = &stacks->heaps[event->instance - stacks->instances];
	struct kmem_record record;

	if (!kmem_record_of(event, &record))
		return 0;
	if (!h->heap) {
		h->stacks = stacks;
		h->heap = heap_create(trace_reader_sidecar(stacks->reader), take_change, h);
	}
	if (!h->heap)
		return -ENOMEM;
	h->at_hand = stack;
	h->in_time = place->in_time;
	heap_prefetch(h->heap, trace_reader_soon(stacks->reader));
	return heap_apply_event(h->heap, event, &record, place->is_selected);
}

int stacks_note(struct stacks *stacks, const struct event *event, const struct part_place *place)
{
	struct stack stack;
	int64_t index;

	if (stacks->times || !kmem_class_is_known(event->class))
		return 0;
	stack_of_event(&stack, event);
	index = stacks_index(stacks, &stack);
	return index < 0 ? (int)index : apply(stacks, event, (uint32_t)index, place);
}

int stacks_add(struct stacks *stacks, const struct event *event)
{
	static const struct part_place of_part = {true, true, true};
	struct stack stack;
	int64_t index;

	if (stacks->times)
		return stack_times_add(stacks->times, event);
	if (event_class_is_return(event->class))
		return 0;
	stack_of_event(&stack, event);
	index = stacks_index(stacks, &stack);
	if (index < 0)
		return (int)index;
	stacks->all[index].sums[STACK_EVENTS]++;
	return apply(stacks, event, (uint32_t)index, &of_part);
}

/* Which pages are for objects is known at the end only. */
static bool is_backing(const struct stacks *stacks, const struct stack *stack)
{
	const struct heap *heap = stacks->heaps[stack->instance - stacks->instances].heap;

	return stack->page_origin && heap_is_backing(heap_origin(heap, stack->page_origin - 1));
}

const struct stack *stacks_finish(struct stacks *stacks, size_t *n)
{
	for (uint32_t i = 0; i < stacks->count; i++) {
		uint64_t *sums = stacks->all[i].sums;

		if (is_backing(stacks, &stacks->all[i]))
			sums[STACK_BYTES] = sums[STACK_LIVE_OBJECTS] = sums[STACK_LIVE_BYTES] = 0;
	}
	*n = stacks->count;
	return stacks->all;
}

/* --- texts ----------------------------------------------------------------------------------- */

struct text stack_event_text(const struct stack *stack)
{
	const bool is_named = strcmp(stack->instance->name, stack->class->system);
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%s%s:%s", is_named ? stack->instance->name : "",
		 is_named ? " " : "", stack->class->system, stack->class->name);
	return out;
}

/* Frames end at semicolons; names of functions are the guest's. */
static void print_frame(FILE *out, const char *name)
{
	for (; *name; name++)
		putc(*name == ';' ? ':' : *name >= ' ' && *name <= '~' ? *name : '?', out);
}

/* The mark is that of perf's stackcollapse scripts, which flame graphs know. */
static void print_inlined(FILE *out, const struct sidecar *sidecar, uint64_t frame)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	const size_t n = sidecar_call_frames(sidecar, frame, frames);

	for (size_t i = 1; i < n; i++) {
		putc(';', out);
		print_frame(out, frames[i].function);
		fputs("_[i]", out);
	}
}

static char *line_text(const struct stacks *stacks, const struct stack *stack)
{
	const struct sidecar *sidecar = trace_reader_sidecar(stacks->reader);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	print_frame(out, stack_event_text(stack).s);
	for (unsigned int i = 0; i < stack->nr_frames; i++) {
		putc(';', out);
		print_frame(out, sidecar_function_text(sidecar, stack->frames[i]).s);
		print_inlined(out, sidecar, stack->frames[i]);
	}
	if (!text_stream_close(out))
		return text;
	free(text);
	return NULL;
}

/* The end of a frame comes before all characters, so that stacks with the same frames in front are
 * neighbours. */
static int order_of(char c)
{
	return c == ';' ? 1 : (unsigned char)c;
}

static int compare(const void *a, const void *b)
{
	const char *x = ((const struct stack_line *)a)->text;
	const char *y = ((const struct stack_line *)b)->text;

	while (*x && *x == *y)
		x++, y++;
	return order_of(*x) - order_of(*y);
}

static size_t merge(struct stack_line *lines, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept && !strcmp(lines[kept - 1].text, lines[i].text)) {
			sum_add(&lines[kept - 1].value, lines[i].value);
			free(lines[i].text);
		} else {
			lines[kept++] = lines[i];
		}
	}
	return kept;
}

struct stack_line *stacks_lines(const struct stacks *stacks, enum export_value value, size_t *n)
{
	static const enum stack_sum sums[] = {[EXPORT_COUNT] = STACK_EVENTS,
					      [EXPORT_BYTES] = STACK_BYTES,
					      [EXPORT_LIVE] = STACK_LIVE_BYTES,
					      [EXPORT_TIME] = STACK_TIME};
	struct stack_line *lines = calloc((size_t)stacks->count + 1, sizeof(*lines));

	*n = 0;
	for (uint32_t i = 0; lines && i < stacks->count; i++) {
		const uint64_t sum = stacks->all[i].sums[sums[value]];

		if (!sum)
			continue;
		lines[*n] = (struct stack_line){line_text(stacks, &stacks->all[i]), sum};
		if (!lines[*n].text) {
			stacks_free_lines(lines, *n);
			return NULL;
		}
		++*n;
	}
	if (!lines)
		return NULL;
	qsort(lines, *n, sizeof(*lines), compare);
	*n = merge(lines, *n);
	return lines;
}

void stacks_free_lines(struct stack_line *lines, size_t n)
{
	for (size_t i = 0; lines && i < n; i++)
		free(lines[i].text);
	free(lines);
}

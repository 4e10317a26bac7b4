/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "formats/heap/heap.h"

/* The heap of an instance of kmem, and which stack its origins are of. */
struct instance_heap {
	struct stacks *stacks;
	struct heap *heap;  /* NULL: it has no event so far */
	uint32_t *stack_of; /* by origin */
	size_t room;
	uint32_t at_hand; /* the stack of the event that is applied */
};

struct stacks {
	const struct trace_reader *reader;
	const struct trace_instance *instances;
	size_t nr_instances;
	struct stack *all;
	uint32_t count, room;
	struct u64_map by_hash; /* index; the next free key holds another one of the same hash */
	struct instance_heap heaps[TRACE_INSTANCES_MAX];
};

struct stacks *stacks_create(const struct trace_reader *reader)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return NULL;
	stacks->reader = reader;
	stacks->instances = trace_reader_instances(reader, &stacks->nr_instances);
	u64_map_init(&stacks->by_hash, sizeof(uint32_t));
	return stacks;
}

void stacks_destroy(struct stacks *stacks)
{
	if (!stacks)
		return;
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++) {
		heap_destroy(stacks->heaps[i].heap);
		free(stacks->heaps[i].stack_of);
	}
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

/* False: the event has no stack. */
static bool add_chain(struct stack *stack, const struct event *event)
{
	uint64_t frames[EVENT_STACK_FRAMES];
	const struct event_field *field = NULL;
	unsigned int n;
	bool cut;

	for (size_t i = 0; !field && i < event->class->nr_fields; i++)
		if (event->class->fields[i].type == EVENT_STACK)
			field = &event->class->fields[i];
	if (!field)
		return false;
	n = event_field_frames(field, event->bytes, frames, &cut);
	if (cut)
		stack->frames[stack->nr_frames++] = EVENT_STACK_CUT;
	while (n-- > 0)
		stack->frames[stack->nr_frames++] = frames[n];
	return true;
}

static bool is_same(const struct stack *a, const struct stack *b)
{
	return a->class == b->class && a->instance == b->instance && a->nr_frames == b->nr_frames &&
	       !memcmp(a->frames, b->frames, a->nr_frames * sizeof(a->frames[0]));
}

static uint64_t hash_of(const struct stack *stack)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash = (uintptr_t)stack->class;

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

/* The index of the event's stack, or -ENOMEM. */
static int64_t find(struct stacks *stacks, const struct event *event)
{
	struct stack stack, *made;
	uint32_t *index;
	uint64_t key;

	stack.class = event->class;
	stack.instance = event->instance;
	stack.nr_frames = 0;
	if (!add_chain(&stack, event))
		add_frames(&stack, event, EVENT_CODE);
	add_frames(&stack, event, EVENT_FUNCTION);
	for (key = hash_of(&stack); (index = u64_map_find(&stacks->by_hash, key)); key++)
		if (is_same(&stacks->all[*index], &stack))
			return *index;
	index = u64_map_insert(&stacks->by_hash, key, NULL);
	made = index ? append(stacks) : NULL;
	if (!made)
		return -ENOMEM;
	memset(stack.sums, 0, sizeof(stack.sums));
	*made = stack;
	*index = stacks->count - 1;
	return *index;
}

/* --- bytes ----------------------------------------------------------------------------------- */

static void add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

static void subtract(uint64_t *sum, uint64_t value)
{
	*sum -= value < *sum ? value : *sum;
}

static int grow_origins(struct instance_heap *h, uint32_t origin)
{
	size_t room = h->room ? h->room : 256;
	uint32_t *bigger;

	while (room <= origin)
		room *= 2;
	if (room == h->room)
		return 0;
	bigger = reallocarray(h->stack_of, room, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	h->stack_of = bigger;
	h->room = room;
	return 0;
}

static int begin_life(struct instance_heap *h, const struct heap_object *object)
{
	uint64_t *sums = h->stacks->all[h->at_hand].sums;

	if (grow_origins(h, object->origin))
		return -ENOMEM;
	h->stack_of[object->origin] = h->at_hand;
	add(&sums[STACK_BYTES], object->bytes);
	add(&sums[STACK_LIVE_BYTES], object->bytes);
	sums[STACK_LIVE_OBJECTS]++;
	return 0;
}

static int take_change(void *arg, const struct heap_change *change)
{
	struct instance_heap *h = arg;
	uint64_t *sums;

	if (change->kind == HEAP_ALLOC)
		return begin_life(h, change->object);
	if (!change->object)
		return 0;
	sums = h->stacks->all[h->stack_of[change->object->origin]].sums;
	if (change->kind == HEAP_SPLIT) {
		add(&sums[STACK_LIVE_OBJECTS], change->pieces - 1);
		return 0;
	}
	subtract(&sums[STACK_LIVE_OBJECTS], 1);
	subtract(&sums[STACK_LIVE_BYTES], change->object->bytes);
	return 0;
}

static int apply(struct stacks *stacks, const struct event *event, uint32_t stack)
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
	heap_prefetch(h->heap, trace_reader_soon(stacks->reader));
	return heap_apply(h->heap, &record, event->vcpu, true);
}

int stacks_add(struct stacks *stacks, const struct event *event)
{
	int64_t index = find(stacks, event);

	if (index < 0)
		return (int)index;
	stacks->all[index].sums[STACK_EVENTS]++;
	return apply(stacks, event, (uint32_t)index);
}

/* Which pages are for objects is known at the end only. */
static void without_backing(struct instance_heap *h)
{
	const size_t n = heap_nr_origins(h->heap);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t *sums = h->stacks->all[h->stack_of[i]].sums;

		if (heap_is_backing(heap_origin(h->heap, i)))
			sums[STACK_BYTES] = sums[STACK_LIVE_OBJECTS] = sums[STACK_LIVE_BYTES] = 0;
	}
}

const struct stack *stacks_finish(struct stacks *stacks, size_t *n)
{
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++)
		if (stacks->heaps[i].heap)
			without_backing(&stacks->heaps[i]);
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
	}
	if (!fclose(out))
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
			add(&lines[kept - 1].value, lines[i].value);
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
					      [EXPORT_LIVE] = STACK_LIVE_BYTES};
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

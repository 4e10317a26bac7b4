/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-items.h"

#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"

enum { RAX = 0, RSP = 4, R10 = 10, R11 = 11, STACK_WORDS = 3, ROOM = 256 };
enum {
	PAGE_SIZE = 56, /* not a power of two, as in some kernels */
	LRU = 8,
	ORDER_AT = PAGE_SIZE + 9,
	HEAD_BIT = 16,
	ITEM_SIZE = 2 * PAGE_SIZE
};
enum { POINTER = 3, COUNT = 1, BATCH_WORDS = 16, OWNER_AT = 16 };

static const unsigned int argument[CAPTURE_ARGUMENTS] = {7, 6, 2, 1, 8, 9};

static struct capture_items describe(enum fake_items_how how, bool page_orders)
{
	struct capture_items i = {.pointer = POINTER, .count = COUNT, .page_orders = page_orders};

	if (how == FAKE_LIST) {
		i.from = ITEMS_LISTED;
		i.link = LRU;
	} else if (how == FAKE_BATCH) {
		i.from = ITEMS_COUNTED;
		i.count_size = 1;
		i.words_offset = BATCH_WORDS;
	} else if (how == FAKE_SHEAF) {
		i.from = ITEMS_COUNTED;
		i.count_size = 4;
		i.owner_offset = OWNER_AT;
		i.count_offset = -8 * (FAKE_ITEMS_MAX + 1) + 4;
		i.words_offset = -8 * FAKE_ITEMS_MAX;
	} else {
		i.from = ITEMS_ARRAY;
		i.count_size = how == FAKE_INT_ARRAY ? 4 : 0;
	}
	return i;
}

static struct trampoline_kernel kernel_figures(void)
{
	struct trampoline_kernel k = fake_cpu_kernel();

	k.page_flags = 0;
	k.page_head_bit = HEAD_BIT;
	k.page_order = ORDER_AT;
	return k;
}

struct fake_items *fake_items_create(enum fake_items_how how, bool page_orders,
				     enum trampoline_full full)
{
	struct fake_items *f = calloc(1, sizeof(*f));
	uint32_t args = 0x3fu << FIELD_ARG0;

	if (!f)
		abort();
	f->how = how;
	f->page_orders = page_orders;
	f->block = calloc(FAKE_ITEMS_MAX + 4, sizeof(uint64_t));
	f->expected = calloc(FAKE_ITEMS_MAX, sizeof(uint64_t));
	f->pages = calloc(FAKE_ITEMS_MAX, ITEM_SIZE);
	f->rings = fake_rings_create(1);
	f->cpu = fake_cpu_enter(0);
	f->kernel = kernel_figures();
	f->spec = (struct trampoline_spec){.capture = {.point = POINT_ENTRY,
						       .fields = CAPTURE(FIELD_KEY) |
								 CAPTURE(FIELD_CALL_SITE) | args |
								 CAPTURE(FIELD_STACK),
						       .stack_words = STACK_WORDS,
						       .items = describe(how, page_orders)},
					   .id = FAKE_ITEMS_ID,
					   .kernel = &f->kernel,
					   .full = full};
	if (how == FAKE_SHEAF)
		f->spec.capture.fields |= CAPTURE(FIELD_OWNER);
	if (!f->block || !f->expected || !f->pages ||
	    !fake_function_create(&f->spec, &f->rings, FAKE_RET, &f->function))
		abort();
	return f;
}

void fake_items_destroy(struct fake_items *f)
{
	fake_function_destroy(&f->function);
	fake_cpu_leave(f->cpu);
	fake_rings_destroy(&f->rings);
	free(f->pages);
	free(f->expected);
	free(f->block);
	free(f);
}

static uint64_t *link_of(const struct fake_items *f, uint64_t i)
{
	return (uint64_t *)(void *)(f->pages + i * ITEM_SIZE + LRU);
}

/* A struct page: a head with some order, or a single one with noise where the order would be. */
static uint64_t make_page(struct fake_items *f, uint64_t i)
{
	uint8_t *page = f->pages + i * ITEM_SIZE;
	uint64_t flags = fake_random(), order = flags & 63, address = (uint64_t)(uintptr_t)page;

	memcpy(page, &flags, sizeof(flags));
	page[ORDER_AT] = (uint8_t)(order | 0x40);
	return f->page_orders ? page_item(address, flags >> HEAD_BIT & 1 ? (unsigned int)order : 0) : address;
}

static uint64_t *first_word(struct fake_items *f)
{
	if (f->how == FAKE_BATCH)
		return f->block + BATCH_WORDS / 8;
	return f->how == FAKE_SHEAF ? f->block + 1 : f->block;
}

static void write_count(struct fake_items *f, uint64_t said)
{
	uint32_t number = (uint32_t)said;
	uint64_t noise = fake_random();

	f->block[FAKE_ITEMS_MAX + 1 + OWNER_AT / 8] = noise;
	if (f->how == FAKE_BATCH || f->how == FAKE_SHEAF)
		memcpy(f->block, &noise, sizeof(noise));
	if (f->how == FAKE_BATCH)
		*(uint8_t *)f->block = (uint8_t)said;
	else if (f->how == FAKE_SHEAF)
		memcpy((uint8_t *)f->block + 4, &number, sizeof(number));
	f->cpu->in.reg[argument[COUNT]] =
		f->how == FAKE_INT_ARRAY ? (noise & ~(uint64_t)UINT32_MAX) | number : said;
}

static uint64_t pointer_of(struct fake_items *f)
{
	if (f->how == FAKE_LIST)
		return (uint64_t)(uintptr_t)f->head;
	return (uint64_t)(uintptr_t)(f->how == FAKE_SHEAF ? f->block + FAKE_ITEMS_MAX + 1
							  : f->block);
}

void fake_items_prepare(struct fake_items *f, uint64_t count, uint64_t said)
{
	bool pages = f->how == FAKE_LIST || f->page_orders;
	uint64_t *words = first_word(f), *link = f->head;

	f->count = count;
	f->records = f->found = f->missed = f->others = 0;
	f->wrong = false;
	for (uint64_t i = 0; i < count; i++) {
		f->expected[i] = pages ? make_page(f, i) : fake_random();
		words[i] = pages ? (uint64_t)(uintptr_t)(f->pages + i * ITEM_SIZE) : f->expected[i];
		if (f->how == FAKE_LIST) {
			*link = (uint64_t)(uintptr_t)link_of(f, i);
			link = link_of(f, i);
		}
	}
	*link = (uint64_t)(uintptr_t)f->head;
	fake_cpu_randomise(f->cpu);
	write_count(f, said);
	f->cpu->in.reg[argument[POINTER]] = pointer_of(f);
	f->cpu->in.reg[RSP] = (uint64_t)(uintptr_t)f->cpu->stack + FAKE_STACK - ROOM;
}

void fake_items_close_list(struct fake_items *f, bool cyclic)
{
	*link_of(f, f->count - 1) = cyclic ? (uint64_t)(uintptr_t)link_of(f, 0) : 0;
	if (!cyclic)
		return;
	for (uint64_t i = f->count; i < CAPTURE_ITEMS_PER_CALL; i++)
		f->expected[i] = f->expected[i - f->count];
	f->count = CAPTURE_ITEMS_PER_CALL;
}

void fake_items_call(struct fake_items *f, uint64_t extra_flags)
{
	for (int i = 0; i < ROOM; i += 8)
		*(uint64_t *)(void *)(f->cpu->stack + FAKE_STACK - ROOM + i) = fake_random();
	f->cpu->in.flags |= extra_flags;
	f->cpu->target = (uint64_t)(uintptr_t)f->function.code;
	fake_cpu_run();
}

static uint64_t field(const struct fake_items *f, const uint8_t *record, enum record_field which)
{
	return *(const uint64_t *)(const void *)(record +
						 f->function.trampoline.layout.offset[which]);
}

static bool fields_good(const struct fake_items *f, const uint8_t *record)
{
	const uint64_t *in = f->cpu->in.reg;
	const uint8_t *stack = record + f->function.trampoline.layout.offset[FIELD_STACK];
	bool good =
		field(f, record, FIELD_KEY) == in[RSP] - 8 - RECORD_KEY_BIAS &&
		field(f, record, FIELD_CALL_SITE) == (uint64_t)(uintptr_t)fake_cpu_return_address &&
		!memcmp(stack, (const void *)(uintptr_t)in[RSP], STACK_WORDS * 8);

	if (f->how == FAKE_SHEAF)
		good &= field(f, record, FIELD_OWNER) ==
			f->block[FAKE_ITEMS_MAX + 1 + OWNER_AT / 8];
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
		good &= field(f, record, FIELD_ARG0 + i) == in[argument[i]];
	return good;
}

static uint64_t left(const struct fake_items *f)
{
	uint64_t n = f->count - f->found - f->missed;

	return n < CAPTURE_MAX_ITEMS ? n : CAPTURE_MAX_ITEMS;
}

/* The items of a record that is lost are missing. */
static void read_items(struct fake_items *f, const uint64_t *items, uint64_t n)
{
	while (n && left(f) && f->expected[f->found + f->missed] != items[0])
		f->missed += left(f);
	f->wrong |= n != left(f) ||
		    memcmp(items, f->expected + f->found + f->missed, n * sizeof(*items));
	f->found += n;
}

static void read_record(struct fake_items *f, const uint8_t *bytes)
{
	const struct record_layout *layout = &f->function.trampoline.layout;
	const struct ring_record *record = (const void *)bytes;

	f->wrong |= !record->tsc;
	if (ring_id(record) != FAKE_ITEMS_ID) {
		f->others++;
		return;
	}
	f->records++;
	f->wrong |= record->tsc < f->last_tsc || !fields_good(f, bytes);
	f->last_tsc = record->tsc;
	if (!f->wrong)
		read_items(f, (const void *)(bytes + layout->items), record->items);
}

void fake_items_drain(struct fake_items *f)
{
	struct ring_header *ring = fake_ring(&f->rings, 0);

	while (f->consumed != ring->reserve && !f->wrong) {
		uint8_t *at = fake_ring_data(&f->rings, 0) + (f->consumed & (FAKE_DATA - 1));
		const struct ring_record *record = (const void *)at;
		uint32_t size = f->function.trampoline.layout.size + 8 * record->items;

		if (ring_id(record) != FAKE_ITEMS_ID)
			size = f->other_size;
		if (!(record->commit & RING_COMMITTED) || size > ring->reserve - f->consumed) {
			f->wrong = true;
			return;
		}
		read_record(f, at);
		memset(at, 0, size);
		f->consumed += size;
	}
	ring->limit = f->consumed + FAKE_DATA - RING_SLACK;
}

bool fake_items_good(const struct fake_items *f)
{
	const uint8_t *data = fake_ring_data(&f->rings, 0);

	for (int i = 0; i < FAKE_DATA + RING_MAX_RECORD; i++)
		if (data[i]) {
			tap_diag("byte %d of the ring was written by none of its records", i);
			return false;
		}
	if (f->wrong)
		tap_diag("record %lu, after %lu items, is wrong", f->records, f->found);
	return !f->wrong && f->cpu->in.reg[RSP] == f->cpu->out.reg[RSP] &&
	       fake_cpu_preserved(f->cpu, 1u << RAX | 1u << R10 | 1u << R11);
}

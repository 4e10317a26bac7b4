/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trampoline of a call that frees a page if it drops its last reference. */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

enum { RAX = 0, RSP = 4, RSI = 6, R10 = 10, R11 = 11, ID = 7 };
enum { PAGE_SIZE = 56, REFERENCES = 52, HEAD_BIT = 6, ORDER_AT = PAGE_SIZE + 0 };

static struct fake_rings rings;
static struct fake_function function;
static struct fake_cpu *cpu;
static uint64_t consumed;
static _Alignas(8) uint8_t page[2 * PAGE_SIZE];

static void call(uint32_t references, bool is_head, uint8_t order)
{
	uint64_t flags = is_head ? 1 << HEAD_BIT : 0;

	memcpy(page, &flags, sizeof(flags));
	memcpy(page + REFERENCES, &references, sizeof(references));
	page[ORDER_AT] = order;
	fake_cpu_randomise(cpu);
	cpu->in.reg[RSI] = (uint64_t)(uintptr_t)page;
	cpu->in.reg[RSP] = (uint64_t)(uintptr_t)cpu->stack + FAKE_STACK - 512;
	cpu->target = (uint64_t)(uintptr_t)function.code;
	fake_cpu_run();
}

/* The items of the one record that the call has made; -1: anything else. */
static int take(uint64_t *item)
{
	struct ring_header *ring = fake_ring(&rings, 0);
	uint8_t *at = fake_ring_data(&rings, 0) + (consumed & (FAKE_DATA - 1));
	const struct ring_record *record = (const void *)at;
	uint32_t items = record->items, size = function.trampoline.layout.size + 8 * items;

	if (record->commit != ring_commit(ID) || ring->reserve != consumed + size)
		return -1;
	memcpy(item, at + function.trampoline.layout.items, sizeof(*item));
	memset(at, 0, size);
	consumed += size;
	ring->limit = consumed + FAKE_DATA - RING_SLACK;
	if (!fake_cpu_preserved(cpu, 1u << RAX | 1u << R10 | 1u << R11))
		return -1;
	return (int)items;
}

int main(void)
{
	struct trampoline_kernel kernel = fake_cpu_kernel();
	struct trampoline_spec spec = {
		.capture = {.point = POINT_ENTRY,
			    .fields = CAPTURE(FIELD_KEY) | CAPTURE(FIELD_ARG0 + 1),
			    .items = {.from = ITEMS_LAST,
				      .pointer = 1,
				      .count_offset = REFERENCES,
				      .page_orders = true}},
		.id = ID,
		.kernel = &kernel,
		.full = TRAMPOLINE_BLOCK};
	uint64_t item = 0, address = (uint64_t)(uintptr_t)page;

	kernel.page_head_bit = HEAD_BIT;
	kernel.page_order = ORDER_AT;
	rings = fake_rings_create(1);
	cpu = fake_cpu_enter(0);
	if (!fake_function_create(&spec, &rings, FAKE_RET, &function))
		abort();
	call(1, false, 3);
	ok(take(&item) == 1 && item == page_item(address, 0), "the last reference to a page makes it an item");
	call(1, true, 9);
	ok(take(&item) == 1 && item == page_item(address, 9), "a compound page has its order");
	call(2, false, 0);
	ok(!take(&item), "with another reference there is none");
	call(0, false, 0);
	ok(!take(&item), "nor is there without any");
	call(UINT32_MAX, true, 1);
	ok(!take(&item), "nor with a damaged count");
	is_u64(fake_ring(&rings, 0)->lost, 0, "nothing is lost");
	fake_function_destroy(&function);
	fake_cpu_leave(cpu);
	fake_rings_destroy(&rings);
	return tap_done();
}

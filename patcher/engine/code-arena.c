/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/engine/code-arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"

enum { INT3 = 0xcc };

void code_arena_init(struct code_arena *a, uint64_t gva, uint8_t *bytes, uint32_t size)
{
	*a = (struct code_arena){.gva = gva, .bytes = bytes, .size = size};
	memset(bytes, INT3, size);
}

void code_arena_deinit(struct code_arena *a)
{
	free(a->taken);
	*a = (struct code_arena){0};
}

/* The free place ahead of taken[i], or behind all. */
static struct code_extent gap_at(const struct code_arena *a, size_t i)
{
	return (struct code_extent){
		.begin = i ? a->taken[i - 1].end : 0,
		.end = i < a->nr_taken ? a->taken[i].begin : a->size,
	};
}

static void take(struct code_arena *a, size_t i, uint32_t begin, const uint8_t *code, uint32_t size)
{
	uint32_t end = begin + ((size + CODE_ARENA_ALIGN - 1) & ~(CODE_ARENA_ALIGN - 1U));

	memmove(a->taken + i + 1, a->taken + i, (a->nr_taken - i) * sizeof(*a->taken));
	a->taken[i] = (struct code_extent){begin, end};
	a->nr_taken++;
	memcpy(a->bytes + begin, code, size);
}

static uint32_t free_bytes(const struct code_arena *a)
{
	uint32_t sum = 0;

	for (size_t i = 0; i <= a->nr_taken; i++)
		sum += gap_at(a, i).end - gap_at(a, i).begin;
	return sum;
}

/* Returns the index of the piece. */
static int add(struct code_arena *a, code_write_fn *write, void *arg, uint8_t *code,
	       struct error *err)
{
	uint32_t smallest = 0;

	for (size_t i = 0; i <= a->nr_taken; i++) {
		struct code_extent gap = gap_at(a, i);
		int size;

		if (gap.end == gap.begin || gap.end - gap.begin < smallest)
			continue;
		size = write(arg, a->gva + gap.begin, code, err);
		if (size < 0)
			return size;
		smallest = (uint32_t)size;
		if (gap.end - gap.begin < smallest)
			continue;
		take(a, i, gap.begin, code, smallest);
		return (int)i;
	}
	return error_set(err, ENOSPC, "no room for %u bytes of code: %u of %u are free", smallest,
			 free_bytes(a), a->size);
}

int code_arena_add(struct code_arena *a, code_write_fn *write, void *arg, size_t max, uint64_t *gva,
		   bool *reused, struct error *err)
{
	uint8_t *code = malloc(max);
	struct code_extent new;
	int ret;

	if (code && array_grow(&a->taken, sizeof(*a->taken), a->nr_taken, &a->room))
		ret = add(a, write, arg, code, err);
	else
		ret = error_set(err, ENOMEM, "out of memory");
	free(code);
	if (ret < 0)
		return ret;
	new = a->taken[ret];
	*gva = a->gva + new.begin;
	*reused = new.begin < a->used;
	a->used = new.end > a->used ? new.end : a->used;
	return 0;
}

void code_arena_remove(struct code_arena *a, uint64_t gva)
{
	for (size_t i = 0; i < a->nr_taken; i++) {
		struct code_extent e = a->taken[i];

		if (a->gva + e.begin != gva)
			continue;
		memset(a->bytes + e.begin, INT3, e.end - e.begin);
		a->nr_taken--;
		memmove(a->taken + i, a->taken + i + 1, (a->nr_taken - i) * sizeof(*a->taken));
		return;
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pieces of code that come and go in one memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/code-arena.h"
#include "tests/lib/tap.h"

enum { SIZE = 4096, GVA = 0x10000, MANY = 20000, MAX = 300, INT3 = 0xcc };

static uint8_t memory[SIZE];
static struct code_arena arena;

struct piece {
	uint64_t gva;
	int size;
	uint8_t value;
	bool reused;
};

static int write_piece(void *arg, uint64_t gva, uint8_t *bytes, struct error *err)
{
	struct piece *p = arg;

	(void)err;
	p->gva = gva;
	if (p->size > 0)
		memset(bytes, p->value, (size_t)p->size);
	return p->size;
}

static int add(struct piece *p, struct error *err)
{
	uint64_t gva = 0;
	int ret = code_arena_add(&arena, write_piece, p, MAX, &gva, &p->reused, err);

	return !ret && gva != p->gva ? -EINVAL : ret;
}

/* The piece's bytes stand there, and INT3 up to the next multiple of the alignment. */
static bool stands(const struct piece *p)
{
	const uint8_t *bytes = memory + (p->gva - GVA);
	bool good = p->gva % CODE_ARENA_ALIGN == 0;
	int i = 0;

	for (; i < p->size; i++)
		good &= bytes[i] == p->value;
	for (; i % CODE_ARENA_ALIGN; i++)
		good &= bytes[i] == INT3;
	return good;
}

static bool is_empty(void)
{
	for (size_t i = 0; i < SIZE; i++)
		if (memory[i] != INT3)
			return false;
	return true;
}

static void test_few(void)
{
	struct piece a = {.size = 17, .value = 1}, b = {.size = 16, .value = 2}, c = {.size = 33},
		     large = {.size = MAX}, bad = {.size = -ERANGE};
	struct error err = {0};

	code_arena_init(&arena, GVA, memory, 128);
	ok(!add(&a, &err) && !add(&b, &err) && stands(&a) && stands(&b), "two pieces stand");
	is_u64(b.gva, GVA + 32, "the second behind the first, aligned");
	ok(!a.reused && !b.reused, "where no code stood before");
	ok(!add(&c, &err) && add(&large, &err) == -ENOSPC, "a large one is refused: %s", err.text);
	code_arena_remove(&arena, b.gva);
	ok(memory[32] == INT3, "removed code is INT3");
	b.size = 15;
	ok(!add(&b, &err) && b.gva == GVA + 32 && b.reused,
	   "its place is used again, which is said");
	ok(add(&bad, &err) == -ERANGE, "an error of the writer is returned");
	code_arena_remove(&arena, a.gva);
	code_arena_remove(&arena, b.gva);
	code_arena_remove(&arena, c.gva);
	ok(!memcmp(memory, memory + 1, 127) && memory[0] == INT3, "all is INT3 in the end");
	code_arena_deinit(&arena);
}

static void test_many(void)
{
	static struct piece pieces[64];
	struct error err;
	bool good = true;
	int full = 0;

	memset(pieces, 0, sizeof(pieces));
	code_arena_init(&arena, GVA, memory, SIZE);
	for (int i = 0; i < MANY; i++) {
		struct piece *p = &pieces[rand() % 64];

		if (p->size) {
			good &= stands(p);
			code_arena_remove(&arena, p->gva);
			p->size = 0;
			continue;
		}
		*p = (struct piece){.size = 1 + rand() % MAX, .value = (uint8_t)(1 + i % 200)};
		if (add(p, &err)) {
			full++;
			p->size = 0;
		}
	}
	ok(good, "%d pieces come and go, none overwrites another", MANY);
	ok(full > 0, "the memory was full %d times", full);
	for (int i = 0; i < 64; i++)
		if (pieces[i].size)
			code_arena_remove(&arena, pieces[i].gva);
	ok(is_empty(), "all is INT3 in the end");
	code_arena_deinit(&arena);
}

int main(void)
{
	srand(20080722);
	test_few();
	test_many();
	return tap_done();
}

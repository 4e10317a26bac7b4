/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "patcher/probe/call-table.h"
#include "tests/lib/tap.h"

#define STACK 0xffffc90000100000ull /* 16 KiB-aligned, as a task's */
enum { STACK_SIZE = 16384, PAGE = 4096 };

static struct call_table *table;

static struct call_table_push_result push(uint64_t key, uint64_t word)
{
	struct call_table_push_result result;
	struct open_call *call = call_table_push(table, key, &result);

	if (!call)
		abort();
	call->words[0] = word;
	return result;
}

/* The word pushed with the key, 0 if it is not there. */
static uint64_t pop(uint64_t key)
{
	const struct open_call *call = call_table_pop(table, key);

	return call ? call->words[0] : 0;
}

static uint64_t pop_inner(uint64_t key)
{
	const struct open_call *call = call_table_pop(table, key);

	return call ? call->inner_result : UINT64_MAX;
}

static void note_inner(uint64_t key, uint64_t result)
{
	call_table_note_inner(table, call_table_chain(table, key), key, result);
}

static void test_nesting(void)
{
	uint64_t outer = STACK + 0x3f00, inner = STACK + 0x3e00, innermost = STACK + 0x3d00;

	push(outer, 1);
	push(inner, 2);
	push(innermost, 3);
	is_u64(pop(innermost), 3, "the innermost of nested calls is taken out by its key");
	is_u64(pop(innermost), 0, "a call is taken out once");
	is_u64(pop(inner), 2, "the call around the innermost one is taken out by its key");
	is_u64(pop(outer), 1, "the outermost call is taken out by its key");
	is_u64(call_table_clear(table), 0, "after all returns no call is open");
}

static void test_superseded(void)
{
	uint64_t key = STACK + 0x3f00;
	struct call_table_push_result result;

	push(key, 1);
	result = push(key, 2);
	is_u64(result.superseded, 1, "a call with the key of an open one supersedes it");
	is_u64(result.lost, 0, "a superseded call is not lost");
	is_u64(pop(key), 2, "a return goes to the call that superseded the other");
	is_u64(pop(key), 0, "a superseded call is no longer there");
}

static void test_dead(void)
{
	struct call_table_push_result result;
	uint64_t other = STACK + 4 * STACK_SIZE + 0x100;

	push(STACK + 0x3e00, 1);
	push(STACK + 0x3d00, 2);
	push(other, 3);
	result = push(STACK + 0x3f00, 4);
	is_u64(result.lost, 2, "a call above open ones on a stack finds these lost");
	is_u64(result.superseded, 0, "lost calls are not superseded");
	is_u64(pop(STACK + 0x3e00) + pop(STACK + 0x3d00), 0, "lost calls are no longer there");
	is_u64(pop(other), 3, "a call on another stack stays");
	is_u64(pop(STACK + 0x3f00), 4, "the new call is there");
}

static bool is_second(void *arg, const struct open_call *call)
{
	(void)arg;
	return call->words[0] == 2;
}

/* Those of functions that are not traced any more may have returned. */
static void test_leaving(void)
{
	struct call_table_push_result result;

	push(STACK + 0x3e00, 1);
	push(STACK + 0x3d00, 2);
	call_table_set_leaving(table, is_second, NULL);
	result = push(STACK + 0x3f00, 3);
	is_u64(result.left, 1, "a call whose return passes unseen is not lost");
	is_u64(result.lost, 1, "another one is");
	call_table_set_leaving(table, NULL, NULL);
	is_u64(pop(STACK + 0x3f00), 3, "the new call is there");
}

/* Interrupt stacks are only page-aligned, with a guard page between them. */
static void test_shared_window(void)
{
	uint64_t lower = STACK + PAGE - 8, upper = STACK + 2 * PAGE + 8;

	push(lower, 1);
	is_u64(push(upper, 2).lost, 0, "a call beyond a guard page is on another stack");
	note_inner(lower - 64, 77);
	is_u64(pop_inner(upper), 0, "a result is not noted in a call on another stack");
	is_u64(pop_inner(lower), 77, "a result is noted in the call on the same stack");
}

static void test_inner(void)
{
	uint64_t far = STACK + 0x3f00, near = STACK + 0x3e00, self = STACK + 0x3d00;

	push(far, 1);
	push(near, 2);
	note_inner(self, 42);
	is_u64(pop_inner(near), 42, "a result is noted in the nearest enclosing call");
	is_u64(pop_inner(far), 0, "a result is not noted in calls farther out");
	push(self, 3);
	note_inner(self, 43);
	is_u64(pop_inner(self), 0, "a result is not noted in the call itself");
	push(STACK + STACK_SIZE + 8, 4);
	note_inner(STACK + STACK_SIZE - 8, 44);
	is_u64(pop_inner(STACK + STACK_SIZE + 8), 0,
	       "a result is not noted in a call on the next stack");
}

static void test_many(void)
{
	enum { STACKS = 5000, DEPTH = 3 };
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < STACKS; i++)
		for (uint64_t j = 0; j < DEPTH; j++)
			push(STACK + i * 2 * STACK_SIZE + 0x3f00 - j * 0x100, i * DEPTH + j + 1);
	for (uint64_t i = 0; i < STACKS; i++)
		for (uint64_t j = DEPTH; j-- > 0;)
			wrong += pop(STACK + i * 2 * STACK_SIZE + 0x3f00 - j * 0x100) !=
				 i * DEPTH + j + 1;
	is_u64(wrong, 0, "15000 open calls on 5000 stacks are all found");
	for (uint64_t i = 0; i < STACKS; i++)
		push(STACK + i * 2 * STACK_SIZE, 1);
	is_u64(call_table_clear(table), STACKS, "clearing returns how many calls were open");
	is_u64(pop(STACK), 0, "clearing removes the calls");
}

static void test_enclosing(void)
{
	uint64_t far = STACK + 0x3f00, near = STACK + 0x3e00, inner = STACK + 0x3d00;

	ok(!call_table_enclosing(table, inner), "the outermost call has no enclosing one");
	push(far, 1);
	push(near, 2);
	is_u64(call_table_enclosing(table, inner)->words[0], 2,
	       "the innermost enclosing call is found");
	is_u64(call_table_enclosing(table, near)->words[0], 1, "a call does not enclose itself");
	ok(!call_table_enclosing(table, far), "a deeper call does not enclose");
	ok(!call_table_enclosing(table, STACK - 8), "a call on another stack does not enclose");
	is_u64(call_table_clear(table), 2, "looking for an enclosing call takes none out");
}

/* The memory of a call is used again. */
static void test_clean(void)
{
	struct call_table_push_result result;
	struct open_call *call = call_table_push(table, STACK, &result);
	bool clean;

	call->task = (struct event_task){.pid = 7, .tgid = 6, .comm = "task", .cgroup = 5};
	call->number = call->attributed_site = call->items_at_entry = call->items_seen = 4;
	call_table_clear(table);
	call = call_table_push(table, STACK, &result);
	clean = !call->number && !call->attributed_site && !call->items_at_entry &&
		!call->items_seen && !call->inner_result && !call->ignored;
	ok(clean, "a new call has nothing of one before");
	ok(!call->task.pid && !call->task.tgid && !call->task.comm[0] && !call->task.cgroup,
	   "nor its task");
	call_table_clear(table);
}

/* A guest can make up any number of calls; it must not take the host's memory with them. */
static void test_cap(void)
{
	enum { CALLS = 2000 };
	struct call_table_push_result result;
	uint64_t refused = 0, open;

	for (uint64_t i = 1; i <= CALLS; i++)
		refused += !call_table_push(table, STACK + STACK_SIZE - 8 * i, &result);
	open = call_table_clear(table);
	ok(refused && open >= 256, "of 2000 calls on one stack %llu are accepted",
	   (unsigned long long)open);
	is_u64(open + refused, CALLS, "a refused call is not added");
	ok(call_table_push(table, STACK, &result), "after clearing there is room again");
	call_table_clear(table);
}

/* A kernel with KASAN. */
static void test_large_stacks(void)
{
	uint64_t outer = STACK + STACK_SIZE + 0x10, inner = STACK + STACK_SIZE - 0x10;

	push(outer, 1);
	ok(!call_table_enclosing(table, inner), "calls in two stacks of 16 KiB do not nest");
	call_table_clear(table);
	call_table_set_stack(table, 2 * STACK_SIZE);
	push(outer, 1);
	ok(call_table_enclosing(table, inner), "those in one stack of 32 KiB do");
	is_u64(push(outer + 0x10, 2).lost, 1, "a call below another on it is lost");
	call_table_clear(table);
	call_table_set_stack(table, STACK_SIZE);
}

/* A guest that forges stacks gets no more than its share of memory. */
static void test_budget(void)
{
	struct call_table_push_result result;
	struct call_table *small;
	struct budget budget;
	unsigned int n = 0;

	budget_init(&budget, 20 * sizeof(struct open_call));
	if (call_table_create(&budget, &small, NULL))
		abort();
	while (n < 100 && call_table_push(small, 0xffffc90000000000 + n * 0x100000ul, &result))
		n++;
	ok(n > 10 && n < 20 && budget.refused == 1, "calls fit into the budget, or are refused: %u",
	   n);
	call_table_destroy(small);
	is_u64(budget.used, 0, "the table gives all of it back");
}

int main(void)
{
	if (call_table_create(NULL, &table, NULL))
		return 1;
	test_nesting();
	test_superseded();
	test_dead();
	test_leaving();
	test_shared_window();
	test_inner();
	call_table_clear(table);
	test_enclosing();
	test_large_stacks();
	test_many();
	test_clean();
	test_cap();
	test_budget();
	call_table_destroy(table);
	call_table_destroy(NULL);
	return tap_done();
}

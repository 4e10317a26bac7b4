/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lists of tasks in hostile guest memory, with facts from a hostile journal: the input changes
 * both, in a tiny kernel (tests/lib/fake-kernel.h) with three processes.
 *
 * Input: one byte of which facts to change, 4 bytes for each of those; then records of a 2-byte
 * place around the tasks and an 8-byte word.
 */
#include <stdlib.h>
#include <string.h>
#include "introspect/tasks/stack-scan.h"
#include "tests/lib/fake-tasks.h"

#define OURS 0xffffffffa0000000ull
enum { TASKS = FAKE_HEAP_GPA, NR_TASKS = 3, AREA = (NR_TASKS + 1) * FAKE_TASK_BYTES, WORD = 8 };

static struct fake_kernel fake;
static uint8_t clean[AREA];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The list's head lies behind the tasks. */
static uint64_t head(void)
{
	return fake_direct(TASKS + NR_TASKS * FAKE_TASK_BYTES);
}

static void create(void)
{
	if (fake_kernel_create(&fake, FAKE_6_12, 4))
		abort();
	fake_list_init(&fake, head() + FAKE_TASK_TASKS);
	for (uint64_t i = 0; i < NR_TASKS; i++)
		fake_list_add(&fake, head() + FAKE_TASK_TASKS,
			      fake_task(&fake, TASKS + i * FAKE_TASK_BYTES) + FAKE_TASK_TASKS);
	memcpy(clean, fake.ram + TASKS, AREA);
}

static struct task_stacks facts(void)
{
	return (struct task_stacks){.root = FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT,
				    .first = head(),
				    .cpu_bases = head() + 0x1000,
				    .runqueues = head() + 0x2000,
				    .levels = 4,
				    .tasks = FAKE_TASK_TASKS,
				    .signal = FAKE_TASK_SIGNAL,
				    .threads = FAKE_THREAD_HEAD,
				    .thread = FAKE_TASK_THREAD_NODE,
				    .stack = FAKE_TASK_STACK,
				    .sp = FAKE_TASK_SP,
				    .on_cpu = FAKE_TASK_ON_CPU,
				    .stack_bytes = TASK_STACK_BYTES};
}

/* Returns how many bytes of the input were used. */
static size_t change_facts(struct task_stacks *s, const uint8_t *data, size_t size)
{
	uint32_t *const numbers[] = {&s->cpus,    &s->tasks, &s->signal,     &s->thread,
				     &s->threads, &s->stack, &s->fair_tasks, &s->rt_queues};
	size_t at = 1;

	for (size_t i = 0; i < 8; i++) {
		if (!(data[0] & 1 << i) || size - at < sizeof(uint32_t))
			continue;
		memcpy(numbers[i], data + at, sizeof(uint32_t));
		at += sizeof(uint32_t);
	}
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct task_stacks stacks = facts();
	bool found;
	size_t at;

	if (!fake.ram)
		create();
	if (!size)
		return 0;
	at = change_facts(&stacks, data, size);
	if (!task_stacks_valid(&stacks))
		return 0;
	for (; size - at >= 2 + WORD; at += 2 + WORD) {
		uint16_t place;

		memcpy(&place, data + at, sizeof(place));
		memcpy(fake.ram + TASKS + place % (AREA / WORD) * WORD, data + at + 2, WORD);
	}
	task_stacks_find(fake.kernel.guest, &stacks,
			 &(struct code_span){.gva = OURS, .size = 2 << 20}, &found, NULL);
	task_stacks_scan(fake.kernel.guest, &stacks, head() - 0x4000,
			 &(struct code_span){.gva = OURS, .size = 2 << 20});
	memcpy(fake.ram + TASKS, clean, AREA);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-tasks.h"

#include <stdlib.h>
#include <string.h>

enum { SIGNAL = 0x1000, STACK = 0x4000, KERNEL_CS = 0x10 };

static uint8_t *at(struct fake_kernel *fake, uint64_t gva)
{
	const uint64_t image = FAKE_LINK_TEXT + FAKE_SLIDE;
	uint64_t gpa = gva - image < FAKE_IMAGE_SIZE ? FAKE_PHYS_TEXT + gva - image
						     : gva - FAKE_PAGE_OFFSET;

	if (gpa >= FAKE_RAM)
		abort();
	return fake->ram + gpa;
}

void fake_write64(struct fake_kernel *fake, uint64_t gva, uint64_t value)
{
	uint8_t bytes[sizeof(value)], *to = at(fake, gva);

	memcpy(bytes, &value, sizeof(value));
	for (size_t i = 0; i < sizeof(bytes); i++)
		__atomic_store_n(&to[i], bytes[i], __ATOMIC_RELAXED);
}

uint64_t fake_read64(struct fake_kernel *fake, uint64_t gva)
{
	uint64_t value;

	memcpy(&value, at(fake, gva), sizeof(value));
	return value;
}

/* --- lists: next, previous ------------------------------------------------------------------- */

static void join(struct fake_kernel *fake, uint64_t node, uint64_t next)
{
	fake_write64(fake, node, next);
	fake_write64(fake, next + 8, node);
}

void fake_list_init(struct fake_kernel *fake, uint64_t head)
{
	join(fake, head, head);
}

void fake_list_add(struct fake_kernel *fake, uint64_t head, uint64_t node)
{
	join(fake, fake_read64(fake, head + 8), node);
	join(fake, node, head);
}

/* The node keeps its links, as readers may still be at it. */
void fake_list_remove(struct fake_kernel *fake, uint64_t node)
{
	join(fake, fake_read64(fake, node + 8), fake_read64(fake, node));
}

/* --- tasks ----------------------------------------------------------------------------------- */

uint64_t fake_task(struct fake_kernel *fake, uint64_t gpa)
{
	uint64_t task = fake_direct(gpa), signal = task + SIGNAL, stack = task + STACK;

	memset(fake->ram + gpa, 0, FAKE_TASK_BYTES);
	fake_write64(fake, task + FAKE_TASK_SIGNAL, signal);
	fake_list_init(fake, signal + FAKE_THREAD_HEAD);
	fake_list_add(fake, signal + FAKE_THREAD_HEAD, task + FAKE_TASK_THREAD_NODE);
	fake_write64(fake, task + FAKE_TASK_STACK, stack);
	fake_write64(fake, task + FAKE_TASK_SP, stack + FAKE_TASK_LEFT_OFF);
	return task;
}

uint64_t fake_task_stack(struct fake_kernel *fake, uint64_t task, uint64_t offset)
{
	return fake_read64(fake, task + FAKE_TASK_STACK) + offset;
}

void fake_task_interrupt(struct fake_kernel *fake, uint64_t task, uint64_t offset, uint64_t ip)
{
	uint64_t word = fake_task_stack(fake, task, offset);

	fake_write64(fake, word, ip);
	fake_write64(fake, word + 8, KERNEL_CS);
}

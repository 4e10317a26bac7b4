// SPDX-License-Identifier: GPL-2.0-or-later
#include "introspect/task-stacks.h"

#include <errno.h>

enum {
	STACK_BYTES = 16384, /* THREAD_SIZE (arch/x86/include/asm/page_64_types.h) */
	PAGE_BYTES = 4096,
	MAX_TASKS = 1 << 22, /* PID_MAX_LIMIT */
	KERNEL_CS = 0x10,    /* __KERNEL_CS */
	WORDS = PAGE_BYTES / sizeof(uint64_t),
};

/* Offsets in struct task_struct, and of the list of threads in struct signal_struct. */
struct task_layout {
	uint32_t tasks, signal, thread_node, stack, thread_sp, on_cpu;
	uint32_t thread_head;
};

struct search {
	const struct kernel *kernel;
	struct task_layout layout;
	uint64_t start, size;
	unsigned int tasks; /* seen */
	bool found;
};

static int find_layout(const struct kernel *kernel, struct task_layout *out, struct error *err)
{
	const struct {
		const char *structure, *member;
		uint32_t *offset;
	} fields[] = {
		{"task_struct", "tasks", &out->tasks},
		{"task_struct", "signal", &out->signal},
		{"task_struct", "thread_node", &out->thread_node},
		{"task_struct", "stack", &out->stack},
		{"task_struct", "thread.sp", &out->thread_sp},
		{"task_struct", "on_cpu", &out->on_cpu},
		{"signal_struct", "thread_head", &out->thread_head},
	};
	struct btf_field field;
	int ret = 0;

	if (!kernel->image->btf)
		return error_set(err, ENOENT, "the kernel image has no BTF");
	for (size_t i = 0; !ret && i < sizeof(fields) / sizeof(fields[0]); i++) {
		ret = btf_field(kernel->image->btf, fields[i].structure, fields[i].member, &field,
				err);
		*fields[i].offset = ret ? 0 : field.offset;
	}
	return ret;
}

/* A pt_regs goes ip, cs, flags, sp, ss; its words may lie on two pages. */
static void scan(struct search *s, uint64_t from, uint64_t end)
{
	uint64_t words[WORDS], previous = 0;

	for (uint64_t at = from; at < end; at += sizeof(words)) {
		size_t bytes = end - at < sizeof(words) ? (size_t)(end - at) : sizeof(words);

		if (kernel_read(s->kernel, at, words, bytes, NULL))
			return;
		for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
			if (previous - s->start < s->size && (uint16_t)words[i] == KERNEL_CS)
				s->found = true;
			previous = words[i];
		}
	}
}

/* Of a task that does not run, its stack from where it left off; else all of it. */
static int scan_task(struct search *s, uint64_t task, struct error *err)
{
	const struct task_layout *l = &s->layout;
	uint64_t stack = 0, sp = 0;
	uint32_t on_cpu = 1;
	int ret = kernel_read(s->kernel, task + l->stack, &stack, sizeof(stack), err);

	if (!ret)
		ret = kernel_read(s->kernel, task + l->on_cpu, &on_cpu, sizeof(on_cpu), err);
	if (!ret)
		ret = kernel_read(s->kernel, task + l->thread_sp, &sp, sizeof(sp), err);
	if (ret)
		return ret;
	if (on_cpu || sp - stack >= STACK_BYTES)
		sp = stack;
	scan(s, sp & ~UINT64_C(7), stack + STACK_BYTES);
	if (++s->tasks > MAX_TASKS)
		return error_set_at(err, E2BIG, task, "a list of tasks without end");
	return 0;
}

static int scan_threads(struct search *s, uint64_t leader, struct error *err)
{
	uint64_t signal = 0, head, node;
	int ret = kernel_read(s->kernel, leader + s->layout.signal, &signal, sizeof(signal), err);

	if (ret)
		return ret;
	head = signal + s->layout.thread_head;
	for (node = head; !ret;) {
		ret = kernel_read(s->kernel, node, &node, sizeof(node), err);
		if (ret || node == head)
			return ret;
		ret = scan_task(s, node - s->layout.thread_node, err);
	}
	return ret;
}

int task_stacks_find(const struct kernel *kernel, uint64_t start, uint64_t size, bool *found,
		     struct error *err)
{
	struct search s = {.kernel = kernel, .start = start, .size = size};
	uint64_t first = kernel_symbol(kernel, "init_task"), link;
	int ret = find_layout(kernel, &s.layout, err);

	if (ret)
		return ret;
	if (!first)
		return error_set(err, ENOENT, "the kernel has no symbol init_task");
	/* the first one's threads are the CPUs' idle tasks, which nothing preempts */
	link = first + s.layout.tasks;
	for (;;) {
		ret = kernel_read(kernel, link, &link, sizeof(link), err);
		if (ret || link == first + s.layout.tasks)
			break;
		ret = scan_threads(&s, link - s.layout.tasks, err);
		if (ret)
			break;
	}
	*found = s.found;
	return ret;
}

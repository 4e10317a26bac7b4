/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/tasks/stack-scan.h"

#include <errno.h>
#include "introspect/tasks/percpu.h"

enum {
	MAX_STACK_BYTES = 1 << 17,
	PAGE_BYTES = 4096,
	MAX_TASKS = 1 << 22, /* PID_MAX_LIMIT */
	MAX_CPUS = 8192,     /* NR_CPUS */
	MAX_OFFSET = 1 << 20,
	RT_QUEUES = 100,   /* MAX_RT_PRIO */
	KERNEL_CS = 0x10,  /* __KERNEL_CS */
	LIST_HEAD = 2 * 8, /* bytes of a struct list_head: next, previous */
	WORDS = PAGE_BYTES / sizeof(uint64_t),
};
#define KERNEL_HALF 0xff00000000000000ull
#define MAX_GPA (1ull << 52)

struct search {
	struct guest *guest;
	const struct task_stacks *stacks;
	const struct code_span *code;
	uint64_t steps, max_steps; /* along lists */
	bool found;
	uint64_t last; /* word that was scanned */
	struct error *err;
};

/* --- facts ----------------------------------------------------------------------------------- */

struct wanted_field {
	const char *structure, *member;
	uint32_t *offset;
};

static int find_fields(const struct kernel *kernel, const struct wanted_field *fields, size_t n,
		       struct error *err)
{
	struct btf_field field;
	int ret = kernel_image_check_btf(kernel->image, err);

	for (size_t i = 0; !ret && i < n; i++) {
		ret = btf_field(kernel->image->btf, fields[i].structure, fields[i].member, &field,
				err);
		*fields[i].offset = ret ? 0 : field.offset;
	}
	return ret;
}

static int find_lists(const struct kernel *kernel, struct task_stacks *out, struct error *err)
{
	const struct wanted_field fields[] = {
		{"task_struct", "tasks", &out->tasks},
		{"task_struct", "signal", &out->signal},
		{"task_struct", "thread_node", &out->thread},
		{"task_struct", "stack", &out->stack},
		{"task_struct", "thread.sp", &out->sp},
		{"signal_struct", "thread_head", &out->threads},
	};

	/* kernels for one CPU have none */
	find_fields(kernel, &(struct wanted_field){"task_struct", "on_cpu", &out->on_cpu}, 1, NULL);
	return find_fields(kernel, fields, sizeof(fields) / sizeof(fields[0]), err);
}

/* In a kernel with groups of real-time tasks, a member of a queue may be a group. */
static bool has_rt_groups(const struct kernel *kernel)
{
	struct btf_field field;

	return !btf_field(kernel->image->btf, "sched_rt_entity", "my_q", &field, NULL);
}

static void find_runqueues(const struct kernel *kernel, struct task_stacks *out)
{
	const struct wanted_field fair[] = {
		{"rq", "cfs_tasks", &out->fair_tasks},
		{"task_struct", "se.group_node", &out->fair_task},
	};
	const struct wanted_field rt[] = {
		{"rq", "rt.active.queue", &out->rt_queues},
		{"task_struct", "rt.run_list", &out->rt_task},
	};
	const struct wanted_field ext[] = {
		{"rq", "scx.runnable_list", &out->ext_tasks},
		{"task_struct", "scx.runnable_node", &out->ext_task},
	};
	int32_t displacement;

	out->cpu_bases = kernel_symbol(kernel, "__per_cpu_offset");
	if (!out->cpu_bases ||
	    percpu_displacement(kernel, "runqueues", NULL, &displacement, NULL) ||
	    find_fields(kernel, fair, 2, NULL))
		return;
	out->runqueues = (uint64_t)displacement;
	out->cpus = kernel->guest->nr_vcpus;
	if (has_rt_groups(kernel) || find_fields(kernel, rt, 2, NULL))
		out->rt_queues = out->rt_task = 0;
	if (find_fields(kernel, ext, 2, NULL))
		out->ext_tasks = out->ext_task = 0;
}

/* Where tasks of the kernel are preempted, one that exits may be on a runqueue only. */
static int check_runqueues(const struct kernel *kernel, const struct task_stacks *stacks,
			   struct error *err)
{
	if (stacks->cpus || !kernel_symbol(kernel, "preempt_schedule"))
		return 0;
	return error_set(err, ENOTSUP,
			 "the kernel preempts its tasks, and BTF does not show its runqueues");
}

int task_stacks_init(const struct kernel *kernel, struct task_stacks *out, struct error *err)
{
	int ret;

	*out = (struct task_stacks){.first = kernel_symbol(kernel, "init_task"),
				    .stack_bytes = task_stack_bytes(kernel->image)};
	if (!out->first)
		return error_set(err, ENOENT, "the kernel has no symbol init_task");
	ret = kernel_root(kernel, &out->root, &out->levels, err);
	if (!ret)
		ret = find_lists(kernel, out, err);
	if (ret)
		return ret;
	find_runqueues(kernel, out);
	return check_runqueues(kernel, out, err);
}

static bool is_stack_size(uint64_t bytes)
{
	return bytes >= PAGE_BYTES && bytes <= MAX_STACK_BYTES && !(bytes & (bytes - 1));
}

/* INIT_TASK_DATA (include/asm-generic/vmlinux.lds.h); the symbols had other names to 6.9. */
uint32_t task_stack_bytes(const struct kernel_image *image)
{
	static const char *const names[][2] = {{"__start_init_stack", "__end_init_stack"},
					       {"__start_init_task", "__end_init_task"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t start = symbols_address(image->symbols, names[i][0]);
		uint64_t bytes = symbols_address(image->symbols, names[i][1]) - start;

		if (start && is_stack_size(bytes))
			return (uint32_t)bytes;
	}
	return TASK_STACK_BYTES;
}

/* The image has it of the first task, __top_init_kernel_stack, since there is something to leave
 * free. */
uint32_t task_user_regs(const struct kernel_image *image)
{
	enum { REGS_BYTES = 168, MOST_FREE = 64 };
	const uint64_t end = symbols_address(image->symbols, "__end_init_stack");
	const uint64_t behind = end - symbols_address(image->symbols, "__top_init_kernel_stack");
	const bool is_known = end && behind >= REGS_BYTES && behind <= REGS_BYTES + MOST_FREE;

	return task_stack_bytes(image) - (is_known ? (uint32_t)behind : REGS_BYTES);
}

static bool is_kernel_address(uint64_t gva)
{
	return gva >= KERNEL_HALF;
}

bool task_stacks_valid(const struct task_stacks *s)
{
	const uint32_t offsets[] = {s->tasks,     s->signal,  s->threads,    s->thread,
				    s->stack,     s->sp,      s->fair_tasks, s->fair_task,
				    s->rt_queues, s->rt_task, s->on_cpu,     s->ext_tasks,
				    s->ext_task};

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		if (offsets[i] >= MAX_OFFSET)
			return false;
	return is_stack_size(s->stack_bytes) && !(s->root % PAGE_BYTES) && s->root < MAX_GPA &&
	       is_kernel_address(s->first) && (s->levels == 4 || s->levels == 5) &&
	       s->cpus <= MAX_CPUS && (!s->cpus || is_kernel_address(s->cpu_bases));
}

/* --- memory ---------------------------------------------------------------------------------- */

static int read_page(struct search *s, uint64_t gva, void *to, size_t size)
{
	struct page_walk walk;
	int ret = page_walk(s->guest, s->stacks->root, s->stacks->levels, gva, &walk, s->err);

	return ret ? ret : guest_phys_read(s->guest, walk.gpa, to, size, s->err);
}

static int read_bytes(struct search *s, uint64_t gva, void *to, size_t size)
{
	size_t left = PAGE_BYTES - gva % PAGE_BYTES;
	int ret = read_page(s, gva, to, size < left ? size : left);

	return ret || size <= left ? ret
				   : read_page(s, gva + left, (uint8_t *)to + left, size - left);
}

/* A pt_regs goes ip, cs, flags, sp, ss; its words may lie on two pages. */
static int scan(struct search *s, uint64_t from, uint64_t size)
{
	uint64_t words[WORDS], previous = 0, at = from & ~UINT64_C(7);
	int ret = 0;

	while (!ret && size >= sizeof(uint64_t)) {
		uint64_t left = PAGE_BYTES - at % PAGE_BYTES;
		size_t n = (size_t)(size < left ? size : left) / sizeof(uint64_t);

		ret = read_page(s, at, words, n * sizeof(uint64_t));
		for (size_t i = 0; !ret && i < n; i++) {
			if ((uint16_t)words[i] == KERNEL_CS && code_span_has(s->code, previous))
				s->found = true;
			previous = words[i];
		}
		s->last = previous;
		at += n * sizeof(uint64_t);
		size -= n * sizeof(uint64_t);
	}
	return ret;
}

/* The word at the top of a stack: its last one before an unmapped page, or before the next multiple
 * of its size if other memory follows. 0: it leads nowhere else. */
static uint64_t stack_below(struct search *s, uint64_t sp, bool guarded)
{
	uint64_t word = s->last, top = sp | (s->stacks->stack_bytes - 1);

	if (!guarded && read_bytes(s, top & ~UINT64_C(7), &word, sizeof(word)))
		return 0;
	return is_kernel_address(word) && word - sp >= s->stacks->stack_bytes ? word : 0;
}

bool task_stacks_scan(struct guest *guest, const struct task_stacks *stacks, uint64_t sp,
		      const struct code_span *code)
{
	enum { MOST_STACKS = 4 };
	struct search s = {.guest = guest, .stacks = stacks, .code = code};

	for (int i = 0; i < MOST_STACKS && sp && !s.found; i++) {
		bool guarded;

		s.last = 0;
		/* stops at the first unmapped page: nothing is mapped behind the stacks of
		 * interrupts */
		guarded = scan(&s, sp, stacks->stack_bytes);
		sp = stack_below(&s, sp, guarded);
	}
	return s.found;
}

/* --- tasks ----------------------------------------------------------------------------------- */

/*
 * The stack of a task: all of it while the task runs, else from its saved stack pointer on. Without
 * on_cpu that is so for the running task, too: what it was preempted at lies above the stack
 * pointer that was saved then, and where it is now the vCPU shows.
 */
static int scan_task(struct search *s, uint64_t task)
{
	const struct task_stacks *t = s->stacks;
	uint64_t stack = 0, sp = 0;
	uint32_t on_cpu = 0;
	int ret = read_bytes(s, task + t->stack, &stack, sizeof(stack));

	/* a zombie has no stack */
	if (ret || !stack)
		return ret;
	if (t->on_cpu)
		ret = read_bytes(s, task + t->on_cpu, &on_cpu, sizeof(on_cpu));
	if (!ret)
		ret = read_bytes(s, task + t->sp, &sp, sizeof(sp));
	if (ret)
		return ret;
	if (on_cpu || sp - stack >= t->stack_bytes)
		sp = stack;
	return scan(s, sp, stack + t->stack_bytes - sp);
}

/* Go to the next node, which must link back. */
static int step(struct search *s, uint64_t *node)
{
	uint64_t next = 0, back = 0;
	int ret = read_bytes(s, *node, &next, sizeof(next));

	if (!ret)
		ret = read_bytes(s, next + LIST_HEAD / 2, &back, sizeof(back));
	if (!ret && back != *node)
		ret = error_set_at(s->err, EPROTO, *node, "a list of tasks is damaged");
	if (!ret && ++s->steps > s->max_steps)
		ret = error_set_at(s->err, E2BIG, *node, "a list of tasks is endless");
	*node = next;
	return ret;
}

/* Call fn for each task of a list, whose links lie at `offset` in a task. */
static int each(struct search *s, uint64_t head, uint32_t offset,
		int (*fn)(struct search *s, uint64_t task))
{
	uint64_t node = head;
	int ret;

	for (;;) {
		ret = step(s, &node);
		if (ret || node == head)
			return ret;
		ret = fn(s, node - offset);
		if (ret)
			return ret;
	}
}

static int scan_threads(struct search *s, uint64_t leader)
{
	uint64_t signal = 0;
	int ret = read_bytes(s, leader + s->stacks->signal, &signal, sizeof(signal));

	return ret ? ret : each(s, signal + s->stacks->threads, s->stacks->thread, scan_task);
}

/*
 * A task that exits leaves the list before its last steps. It may be preempted on these steps: then
 * it is ready to run, and on a runqueue.
 */
static int scan_runqueue(struct search *s, unsigned int cpu)
{
	const struct task_stacks *t = s->stacks;
	uint64_t base = 0, rq;
	int ret = read_bytes(s, t->cpu_bases + cpu * sizeof(base), &base, sizeof(base));

	rq = base + t->runqueues;
	if (!ret)
		ret = each(s, rq + t->fair_tasks, t->fair_task, scan_task);
	for (uint64_t i = 0; !ret && t->rt_queues && i < RT_QUEUES; i++)
		ret = each(s, rq + t->rt_queues + i * LIST_HEAD, t->rt_task, scan_task);
	if (!ret && t->ext_tasks)
		ret = each(s, rq + t->ext_tasks, t->ext_task, scan_task);
	return ret;
}

/* RAM has room for so many stacks; each task is in up to three lists. */
static uint64_t max_steps(struct guest *guest, const struct task_stacks *stacks)
{
	const struct guest_region *regions;
	uint64_t tasks = 0;
	size_t n = 0;

	if (guest->memory->regions(guest, &regions, &n, NULL))
		return 0;
	for (size_t i = 0; i < n && tasks < MAX_TASKS; i++)
		tasks += regions[i].size / stacks->stack_bytes;
	return 3 * (tasks < MAX_TASKS ? tasks : MAX_TASKS) + RT_QUEUES * (uint64_t)stacks->cpus;
}

int task_stacks_find(struct guest *guest, const struct task_stacks *stacks,
		     const struct code_span *code, bool *found, struct error *err)
{
	struct search s = {.guest = guest,
			   .stacks = stacks,
			   .code = code,
			   .max_steps = max_steps(guest, stacks),
			   .err = err};
	/* threads of the first task are the CPUs' idle tasks, which are never preempted */
	int ret = each(&s, stacks->first + stacks->tasks, stacks->tasks, scan_threads);

	for (unsigned int cpu = 0; !ret && cpu < stacks->cpus; cpu++)
		ret = scan_runqueue(&s, cpu);
	*found = s.found;
	return ret;
}

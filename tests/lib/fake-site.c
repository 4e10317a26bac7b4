/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-site.h"

#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>
#include "tests/lib/tap.h"

enum {
	RAX = 0,
	RCX,
	RDX,
	RSP = 4,
	RBP = 5,
	RSI = 6,
	RDI,
	R10 = 10,
	R11 = 11,
	CPU = 1,
	CPUS = 2,
	ROOM = 128
};

/* struct kernfs_node, cgroup, css_set and task_struct */
static struct {
	uint64_t pad[3], id;
} node = {.id = UINT64_C(0x1122334455667788)};
static struct {
	uint64_t pad[6];
	void *kn;
} cgroup = {.kn = &node};
static struct {
	uint64_t pad;
	void *dfl_cgrp;
} css_set = {.dfl_cgrp = &cgroup};
static struct {
	uint64_t pad[5];
	uint32_t tgid, pid;
	char comm[DIRECT_COMM_SIZE];
	uint64_t stack;
	void *cgroups;
} task = {.comm = "fifteen-letters", .pid = 0x12345678, .tgid = 0x55555555, .cgroups = &css_set};

const unsigned int fake_argument_regs[CAPTURE_ARGUMENTS] = {7, 6, 2, 1, 8, 9};
uint32_t *const fake_site_pid = &task.pid;
uint32_t *const fake_site_tgid = &task.tgid;
uint64_t *const fake_site_cgroup = &node.id;
uint64_t *const fake_site_stack = &task.stack;
void **const fake_site_cgroup_path[FAKE_CGROUP_STEPS] = {&task.cgroups, &css_set.dfl_cgrp,
							 &cgroup.kn};

/* A system call's registers: struct pt_regs, and the places of its arguments there. */
static uint64_t registers[21];
static const unsigned int syscall_places[DIRECT_SYSCALL_ARGS] = {14, 13, 12, 7, 9, 8};
static const unsigned int ia32_places[DIRECT_SYSCALL_ARGS] = {5, 11, 12, 13, 14, 4};

const char *const fake_site_kinds[FAKE_SITE_KINDS + 1] = {"shared", "private", "shared return",
							  "private return", "inside"};

bool fake_site_is_shared(const struct fake_site *s)
{
	return s->kind == FAKE_SHARED || s->kind == FAKE_SHARED_RETURN || s->kind == FAKE_INSIDE;
}

bool fake_site_is_return(const struct fake_site *s)
{
	return s->kind == FAKE_SHARED_RETURN || s->kind == FAKE_PRIVATE_RETURN;
}

uint32_t fake_site_fields(const struct fake_site *s)
{
	if (s->kind == FAKE_INSIDE)
		return DIRECT_TASK_FIELDS;
	return fake_site_is_return(s) ? DIRECT_RETURN_FIELDS : DIRECT_ENTRY_FIELDS;
}

/* Two rings of twice the size take less than four. The deadline is in rings `own`; NULL: in these. */
static struct fake_group make_group(uint32_t data_bytes, const struct fake_rings *own)
{
	struct fake_group g = {.memory = fake_rings_create(2 * CPUS)};

	g.rings = (struct trampoline_rings){(uint64_t)(uintptr_t)g.memory.memory, data_bytes, CPUS,
					    FAKE_PATIENCE, fake_deadline(own ? own : &g.memory)};
	return g;
}

#define OFFSET(object, member) ((uint32_t)((char *)&(object).member - (char *)&(object)))

static void set_offsets(struct trampoline_kernel *k)
{
	k->task_pid = OFFSET(task, pid);
	k->task_tgid = OFFSET(task, tgid);
	k->task_comm = OFFSET(task, comm);
	k->task_stack = OFFSET(task, stack);
	k->stack_bytes = FAKE_STACK;
	k->user_regs = FAKE_STACK - FAKE_USER_REGS;
	k->cgroup_path[0] = OFFSET(task, cgroups);
	k->cgroup_path[1] = OFFSET(css_set, dfl_cgrp);
	k->cgroup_path[2] = OFFSET(cgroup, kn);
	k->cgroup_path[3] = OFFSET(node, id);
}

void fake_site_init(struct fake_site *s, enum fake_site_kind kind)
{
	*s = (struct fake_site){
		.kind = kind, .cpu = fake_cpu_enter(CPU), .kernel = fake_cpu_kernel()};
	set_offsets(&s->kernel);
	s->cpu->current_task = (uint64_t)(uintptr_t)&task;
	s->own = make_group(FAKE_DATA, NULL);
	for (unsigned int i = 0; i < FAKE_GROUPS; i++)
		s->groups[i] =
			make_group(i < FAKE_GROUPS / 2 ? FAKE_DATA : 2 * FAKE_DATA, &s->own.memory);
	s->spec = (struct trampoline_spec){
		.capture = fake_capture(POINT_ENTRY, CAPTURE(FIELD_KEY) | CAPTURE(FIELD_ARG1), 0),
		.id = FAKE_OWN_ID};
	if (fake_site_is_return(s))
		s->spec.capture =
			fake_capture(POINT_RETURN, CAPTURE(FIELD_KEY) | CAPTURE(FIELD_RESULT), 0);
	fake_site_clear(s, 0, FAKE_DATA - RING_SLACK);
}

void fake_site_add(struct fake_site *s, unsigned int group, uint32_t fields,
		   enum trampoline_full full, const struct gate *gate)
{
	s->records[s->nr_records] =
		(struct direct_spec){.id = FAKE_SITE_ID + (uint32_t)s->nr_records,
				     .fields = fields,
				     .rings = s->groups[group].rings,
				     .full = full,
				     .gate = gate};
	s->nr_records++;
}

static int generate_site(struct fake_site *s, uint64_t gva, struct decoder *decoder,
			 struct error *err)
{
	const struct shared_spec spec = {.gva = gva,
					 .records = s->records,
					 .nr_records = s->nr_records,
					 .kernel = &s->kernel,
					 .unprivileged = true,
					 .point = fake_site_is_return(s) ? POINT_RETURN
									 : POINT_ENTRY};

	return shared_generate(&spec, decoder, &s->shared, err);
}

static int generate_inside(struct fake_site *s, uint64_t gva, struct decoder *decoder,
			   struct error *err)
{
	const struct displaced_insn nop = {.gva = (uint64_t)(uintptr_t)s->function.code,
					   .size = 5,
					   .kind = INSN_OTHER,
					   .bytes = {0x0f, 0x1f, 0x44, 0x00, 0x00}};
	const struct inside_spec spec = {.gva = gva,
					 .records = s->records,
					 .nr_records = s->nr_records,
					 .kernel = &s->kernel,
					 .insn = &nop,
					 .unprivileged = true};

	return inside_generate(&spec, decoder, &s->shared, err);
}

static bool generate_shared(struct fake_site *s)
{
	const bool jumps = fake_site_is_return(s) || s->kind == FAKE_INSIDE;
	const uint64_t gva = fake_function_begin(&s->function, jumps ? 0xe9 : 0xe8);
	struct decoder *decoder;
	struct error err = {0};

	if (decoder_create(&decoder, &err))
		abort();
	if ((s->kind == FAKE_INSIDE ? generate_inside : generate_site)(s, gva, decoder, &err))
		tap_diag("%s", err.text);
	decoder_destroy(decoder);
	s->code_gva = gva;
	s->slow = s->shared.slow;
	memcpy((void *)(uintptr_t)gva, s->shared.bytes, s->shared.size);
	return !err.code;
}

bool fake_site_generate(struct fake_site *s)
{
	bool good;

	if (fake_site_is_shared(s))
		return generate_shared(s);
	s->spec.kernel = &s->kernel;
	s->spec.extra = s->records;
	s->spec.nr_extra = s->nr_records;
	good = fake_function_create(&s->spec, &s->own.memory, FAKE_THUNK, &s->function);
	s->code_gva = s->spec.gva;
	s->slow = s->function.trampoline.extra;
	return good;
}

void fake_site_deinit(struct fake_site *s)
{
	fake_function_destroy(&s->function);
	fake_cpu_leave(s->cpu);
	fake_rings_destroy(&s->own.memory);
	for (unsigned int i = 0; i < FAKE_GROUPS; i++)
		fake_rings_destroy(&s->groups[i].memory);
}

static uint8_t other_stack[FAKE_STACK];

/* The task's, or another one, whose last word may be where the CPU was on the task's. */
static void choose_stack(struct fake_site *s)
{
	uint8_t *const end = s->cpu->stack + FAKE_STACK - sizeof(uint64_t);
	const bool is_task = fake_random() & 1;
	uint64_t from = (uintptr_t)other_stack + fake_random() % FAKE_STACK;

	task.stack = (uintptr_t)(is_task ? s->cpu->stack : other_stack);
	fake_random_fill(other_stack, FAKE_STACK);
	if (is_task)
		from = (uintptr_t)end - fake_random() % (ROOM - sizeof(from));
	if (fake_random() & 1)
		memcpy(end, &from, sizeof(from));
	memcpy(s->stack + FAKE_STACK - sizeof(from), end, sizeof(from));
}

void fake_site_prepare(struct fake_site *s)
{
	struct fake_cpu *cpu = s->cpu;

	fake_cpu_randomise(cpu);
	cpu->in.reg[RSP] = (uint64_t)(uintptr_t)cpu->stack + FAKE_STACK - ROOM;
	fake_random_fill(s->stack, FAKE_STACK);
	memcpy(cpu->stack, s->stack, FAKE_STACK);
	cpu->target = (uint64_t)(uintptr_t)s->function.code;
	choose_stack(s);
	fake_random_fill(registers, sizeof(registers));
	for (size_t i = 0; i < s->nr_records; i++)
		if (s->records[i].fields & DIRECT_SYSCALL)
			cpu->in.reg[RDI] = (uint64_t)(uintptr_t)registers;
}

void fake_site_call(struct fake_site *s)
{
	s->tsc_before = __rdtsc();
	fake_cpu_run();
	s->tsc_after = __rdtsc();
}

struct steps {
	const struct fake_site *site;
	int count;
};

static void on_step(void *arg, uint64_t rip)
{
	struct steps *s = arg;

	s->count += fake_function_contains(&s->site->function, rip) &&
		    rip != s->site->function.site_end;
}

int fake_site_count(struct fake_site *s)
{
	struct steps steps = {.site = s};

	fake_host_install(NULL, on_step, &steps);
	s->cpu->in.flags |= FAKE_FLAG_TRAP;
	fake_site_call(s);
	return steps.count;
}

/* A result may fill RAX and RDX; results that big are not for private trampolines. */
static uint32_t may_change(const struct fake_site *s)
{
	const uint32_t always = 1u << R10 | 1u << R11;

	if (s->kind == FAKE_INSIDE)
		return 0;
	if (!fake_site_is_return(s))
		return always | 1u << RAX;
	return always | 1u << RCX | 1u << RSI |
	       (s->kind == FAKE_PRIVATE_RETURN ? 1u << RDX | 1u << RDI : 0u);
}

bool fake_site_preserved(const struct fake_site *s)
{
	return fake_cpu_preserved(s->cpu, may_change(s)) &&
	       (s->kind != FAKE_INSIDE || s->cpu->in.flags == s->cpu->out.flags) &&
	       s->cpu->in.reg[RSP] == s->cpu->out.reg[RSP] &&
	       !memcmp(s->cpu->stack + FAKE_STACK - ROOM, s->stack + FAKE_STACK - ROOM, ROOM);
}

struct ring_header *fake_site_ring(const struct fake_group *group)
{
	return (struct ring_header *)(void *)(group->memory.memory +
					      CPU * ring_stride(group->rings.data_bytes));
}

uint8_t *fake_site_data(const struct fake_group *group)
{
	return (uint8_t *)fake_site_ring(group) + RING_HEADER_BYTES;
}

const struct fake_group *fake_site_group(const struct fake_site *s, unsigned int i)
{
	unsigned int group = 0;

	while (s->groups[group].rings.gva != s->records[i].rings.gva)
		group++;
	return &s->groups[group];
}

static bool long_is(const uint8_t *at, uint64_t expected, const char *what)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	if (word != expected)
		tap_diag("%s is %#llx, not %#llx", what, (unsigned long long)word,
			 (unsigned long long)expected);
	return word == expected;
}

static bool word_is(const uint8_t *at, uint32_t expected, const char *what)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	if (word != expected)
		tap_diag("%s is %#x, not %#x", what, word, expected);
	return word == expected;
}

static bool syscall_is(const uint8_t *at, const unsigned int *places)
{
	for (size_t i = 0; i < DIRECT_SYSCALL_ARGS; i++)
		if (!long_is(at + i * sizeof(uint64_t), registers[places[i]],
			     "an argument of a system call"))
			return false;
	return true;
}

/* What follows the first words: *n of them. */
static bool rest_is(const struct fake_site *s, const struct direct_stack *stack, uint32_t most,
		    uint32_t *n)
{
	const uint64_t end = task.stack + FAKE_STACK;
	const uint8_t *memory;
	uint64_t from;
	uint32_t words = 0;

	memcpy(&from, s->stack + FAKE_STACK - sizeof(from), sizeof(from));
	if (from >= task.stack && from < end)
		words = (uint32_t)(end - from) / 8;
	if (words > most - *n)
		words = most - *n;
	memory = (const uint8_t *)(uintptr_t)from;
	if (words && task.stack == (uintptr_t)s->cpu->stack)
		memory = s->stack + (from - task.stack);
	if (!word_is((const uint8_t *)&(uint32_t){direct_stack_rest(stack, FAKE_STACK, *n, most)},
		     words, "the words of the stack before") ||
	    (words && memcmp(stack->words + *n, memory, words * 8)))
		return false;
	*n += words;
	return true;
}

/* Up to the end of the stack; what lies behind in the record is as it was. */
static bool stack_is(const struct fake_site *s, const uint8_t *at, uint64_t sp, uint32_t most)
{
	uint32_t n = (uint32_t)((uintptr_t)s->cpu->stack + FAKE_STACK - sp) / 8;
	struct direct_stack stack;

	memcpy(&stack, at, offsetof(struct direct_stack, words) + most * sizeof(uint64_t));
	if (!long_is((const uint8_t *)&stack.sp, sp, "sp") ||
	    !long_is((const uint8_t *)&stack.bp, s->cpu->in.reg[RBP], "bp") ||
	    !long_is((const uint8_t *)&stack.task, task.stack, "the task's stack") ||
	    !word_is((const uint8_t *)&(uint32_t){direct_stack_words(&stack, FAKE_STACK, most)}, n,
		     "the number of words") ||
	    !long_is((const uint8_t *)stack.words, (uintptr_t)fake_cpu_return_address,
		     "the caller") ||
	    memcmp(stack.words + 1, s->stack + FAKE_STACK - (n - 1) * 8, (n - 1) * 8) ||
	    !rest_is(s, &stack, most, &n))
		return false;
	for (uint32_t i = n; i < most; i++)
		if (stack.words[i])
			return false;
	return true;
}

static uint64_t cgroup_id(void)
{
	return task.cgroups && css_set.dfl_cgrp && cgroup.kn ? node.id : 0;
}

static bool task_is(const uint8_t *at, uint32_t fields, const struct direct_layout *layout)
{
	return (!(fields & DIRECT_PID) || word_is(at + layout->pid, task.pid, "pid")) &&
	       (!(fields & DIRECT_TGID) || word_is(at + layout->tgid, task.tgid, "tgid")) &&
	       (!(fields & DIRECT_COMM) ||
		!memcmp(at + layout->comm, task.comm, sizeof(task.comm))) &&
	       (!(fields & DIRECT_CGROUP) || long_is(at + layout->cgroup, cgroup_id(), "cgroup"));
}

bool fake_site_recorded(const struct fake_site *s, unsigned int i, uint64_t position)
{
	const struct fake_group *group = fake_site_group(s, i);
	const uint8_t *at = fake_site_data(group) + (position & (group->rings.data_bytes - 1));
	const struct direct_record *r = (const struct direct_record *)(const void *)at;
	uint32_t fields = s->records[i].fields;
	const struct direct_layout layout = direct_layout_of(fields, s->records[i].fetch);
	const uint64_t *in = s->cpu->in.reg;
	const uint64_t frame = in[RSP] - sizeof(uint64_t); /* of the return address */
	const uint32_t ip = fake_site_is_return(s) ? 0 : (uint32_t)s->function.site_end;

	return word_is(at, ring_commit(s->records[i].id), "commit word") &&
	       word_is(at + 4, ip, "ip") && r->tsc >= s->tsc_before && r->tsc <= s->tsc_after &&
	       (!(fields & DIRECT_PARENT) ||
		word_is(at + layout.parent, (uint32_t)(uintptr_t)fake_cpu_return_address,
			"parent")) &&
	       task_is(at, fields, &layout) &&
	       (!(fields & DIRECT_FRAME) ||
		long_is(at + layout.frame, frame - DIRECT_FRAME_BIAS, "frame")) &&
	       (!(fields & DIRECT_RESULT) || long_is(at + layout.result, in[RAX], "result")) &&
	       (!(fields & DIRECT_SYSCALL) ||
		syscall_is(at + layout.syscall,
			   fields & DIRECT_SYSCALL_IA32 ? ia32_places : syscall_places)) &&
	       (!(fields & DIRECT_STACK) ||
		stack_is(s, at + layout.stack, frame, layout.stack_words));
}

uint64_t fake_site_register(const struct fake_site *s, enum fetch_register reg)
{
	const bool returns = fake_site_is_return(s);
	uint64_t value = UINT64_MAX; /* %orig_ax */

	if (reg == FETCH_SP)
		return s->cpu->in.reg[RSP] - (returns ? 0 : 8);
	if (reg == FETCH_FLAGS)
		return s->cpu->in.flags;
	if (reg == FETCH_USER_REGS)
		return task.stack + s->kernel.user_regs;
	if (reg == FETCH_IP)
		return returns ? (uint64_t)(uintptr_t)fake_cpu_return_address
			       : s->function.site_end - 4;
	if (reg == FETCH_CS)
		__asm__("mov %%cs, %0" : "=r"(value));
	else if (reg == FETCH_SS)
		__asm__("mov %%ss, %0" : "=r"(value));
	return reg <= FETCH_R15 ? s->cpu->in.reg[reg] : value;
}

/* What the records of a call and of three nested ones may lie in. Clearing all rings takes 20 times
 * as long. */
static void clear(struct fake_group *group, uint64_t start, uint64_t room)
{
	struct ring_header *ring = fake_site_ring(group);
	const size_t at = start & (group->rings.data_bytes - 1);
	const size_t behind = group->rings.data_bytes + RING_MAX_RECORD - at;

	memset(fake_ring(&group->memory, 0), 0, sizeof(*ring)); /* has the deadline */
	*ring = (struct ring_header){.reserve = start, .limit = start + room};
	memset(fake_site_data(group) + at, 0, behind < RING_SLACK ? behind : RING_SLACK);
	if (behind < RING_SLACK + RING_MAX_RECORD)
		memset(fake_site_data(group), 0, RING_SLACK);
}

void fake_site_clear(struct fake_site *s, uint64_t start, uint64_t room)
{
	for (unsigned int i = 0; i < FAKE_GROUPS; i++)
		clear(&s->groups[i], start, room);
	clear(&s->own, start, room);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trampolines run on this CPU, one call at a time: what they record for every kind of capture, and
 * that they leave registers, flags and stack as the guest's code expects them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <x86intrin.h>
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };
enum { PAGES = 8, HEAD = 2, TAIL = 3, NOT_SLAB = 4, ID = 0x7fffabcd, START = 64 };
/* The second one's tail has a mask and not an address. */
enum { HEAD_2 = 6, TAIL_2 = 7 };

/* The task's stack lies so many bytes below the CPU's: 0, it is that one. */
static uint64_t stack_below;

static const uint64_t page_offset = UINT64_C(0xffff923f40000000), cache = 0xffff923f41234500;
/* How a slab's page is marked: a byte, a bit that is set, one that is clear, and others. */
static const struct slab_test slab_marks[] = {{4, 0xff000000, 0xf5000000},
					      {4, 0x01000000, 0x01000000},
					      {4, 0x02000000, 0},
					      {4, 0x0b000000, 0x01000000}};
static struct slab_test slab_mark = {4, 0xff000000, 0xf5000000};

/* struct page: flags, compound_head, slab_cache; larger than in most kernels */
static _Alignas(256) uint64_t fake_pages[PAGES][16];

/* struct kernfs_node, cgroup, css_set and task_struct */
static struct {
	uint64_t pad, id;
} node = {.id = UINT64_C(0x123456789abcdef0)};
static struct {
	uint64_t pad[2];
	void *kn;
} cgroup = {.kn = &node};
static struct {
	void *dfl_cgrp;
} css_set = {.dfl_cgrp = &cgroup};
static struct {
	uint64_t pad[3];
	char comm[CAPTURE_COMM_SIZE];
	uint32_t pid, tgid;
	void *cgroups;
	uint64_t stack;
} task = {.comm = "fifteen-letters", .pid = 0x12345678, .tgid = 0x55555555, .cgroups = &css_set};

static struct trampoline_kernel kernel_figures(void)
{
	struct trampoline_kernel k = fake_cpu_kernel();

	k.task_pid = (uint32_t)((char *)&task.pid - (char *)&task);
	k.task_comm = (uint32_t)((char *)task.comm - (char *)&task);
	k.task_tgid = (uint32_t)((char *)&task.tgid - (char *)&task);
	k.task_stack = (uint32_t)((char *)&task.stack - (char *)&task);
	k.stack_bytes = FAKE_STACK;
	k.cgroup_path[0] = (uint32_t)((char *)&task.cgroups - (char *)&task);
	k.cgroup_path[1] = 0;
	k.cgroup_path[2] = (uint32_t)((char *)&cgroup.kn - (char *)&cgroup);
	k.cgroup_path[3] = (uint32_t)((char *)&node.id - (char *)&node);
	k.page_offset = page_offset;
	k.vmemmap = (uint64_t)(uintptr_t)fake_pages;
	k.pages = PAGES;
	k.page_size = sizeof(fake_pages[0]);
	k.page_compound_head = 8;
	k.page_lowest_mask = INT32_MIN;
	k.page_slab_cache = 24;
	k.slab = slab_mark;
	fake_pages[HEAD][0] = UINT64_C(0xf512345600000000);
	fake_pages[HEAD][3] = cache;
	fake_pages[TAIL][1] = (uint64_t)(uintptr_t)fake_pages[HEAD] + 1;
	memcpy(fake_pages[HEAD_2], fake_pages[HEAD], sizeof(fake_pages[HEAD]));
	fake_pages[TAIL_2][1] = UINT64_C(0xffffffffffffff01);
	fake_pages[NOT_SLAB][0] = UINT64_C(0xf612345600000000);
	fake_pages[NOT_SLAB][3] = cache;
	return k;
}

static uint64_t expected_cache(uint64_t object)
{
	uint64_t page = (object - page_offset) >> 12;

	return page == HEAD || page == TAIL || page == HEAD_2 || page == TAIL_2 ? cache : 0;
}

/* One trampoline on one CPU, number 1 of 2. */
struct bench {
	struct fake_rings rings;
	struct fake_cpu *cpu;
	struct trampoline_kernel kernel;
	struct trampoline_spec spec;
	struct fake_function function;
	struct ring_header *ring;
	uint64_t tsc_before, tsc_after;
	uint8_t stack[FAKE_STACK];
};

static bool bench_init(struct bench *b, struct capture capture, enum trampoline_full full,
		       enum fake_leave leave)
{
	*b = (struct bench){.rings = fake_rings_create(2), .cpu = fake_cpu_enter(1)};
	b->kernel = kernel_figures();
	b->spec = (struct trampoline_spec){
		.capture = capture, .id = ID, .kernel = &b->kernel, .full = full};
	b->cpu->current_task = (uint64_t)(uintptr_t)&task;
	task.stack = (uint64_t)(uintptr_t)b->cpu->stack - stack_below;
	b->ring = fake_ring(&b->rings, 1);
	return fake_function_create(&b->spec, &b->rings, leave, &b->function);
}

static void bench_deinit(struct bench *b)
{
	fake_function_destroy(&b->function);
	fake_cpu_leave(b->cpu);
	fake_rings_destroy(&b->rings);
}

/* Call the function with random registers, flags and stack, `room` bytes below the stack's end. */
static void call(struct bench *b, uint32_t room, uint64_t rax)
{
	struct fake_cpu *cpu = b->cpu;

	fake_cpu_randomise(cpu);
	cpu->in.reg[RAX] = rax;
	cpu->in.reg[RSP] = (uint64_t)(uintptr_t)cpu->stack + FAKE_STACK - room;
	fake_random_fill(b->stack, FAKE_STACK);
	memcpy(cpu->stack, b->stack, FAKE_STACK);
	cpu->target = (uint64_t)(uintptr_t)b->function.code;
	b->tsc_before = __rdtsc();
	fake_cpu_run();
	b->tsc_after = __rdtsc();
}

static bool preserved(const struct bench *b)
{
	static const uint32_t entry_free = 1u << RAX | 1u << R10 | 1u << R11;
	static const uint32_t return_free =
		1u << RCX | 1u << RDX | 1u << RSI | 1u << RDI | 1u << R10 | 1u << R11;
	const struct capture *capture = &b->spec.capture;
	uint32_t may_change = capture->point == POINT_ENTRY ? entry_free : return_free;
	const struct fake_cpu *cpu = b->cpu;
	uint32_t room = (uint32_t)((uint64_t)(uintptr_t)cpu->stack + FAKE_STACK - cpu->in.reg[RSP]);

	if (capture->parameters == 1)
		may_change |= 1u << RSI;
	if (capture->parameters && capture->parameters < 3)
		may_change |= 1u << RDX;
	if (capture->parameters && capture->parameters < 4)
		may_change |= 1u << RCX;
	return fake_cpu_preserved(cpu, may_change) &&
	       !memcmp(cpu->stack + FAKE_STACK - room, b->stack + FAKE_STACK - room, room);
}

/* Early in boot a pointer of the path is NULL. */
static uint64_t expected_cgroup(void)
{
	return task.cgroups && css_set.dfl_cgrp && cgroup.kn ? node.id : 0;
}

static uint64_t expected_word(const struct bench *b, enum record_field field)
{
	static const unsigned int args[] = {RDI, RSI, RDX, RCX, R8, R9};
	const uint64_t *in = b->cpu->in.reg;

	switch (field) {
	case FIELD_KEY:
		return in[RSP] - 8 - RECORD_KEY_BIAS;
	case FIELD_CALL_SITE:
		return (uint64_t)(uintptr_t)fake_cpu_return_address;
	case FIELD_RESULT:
		return in[RAX];
	case FIELD_SLAB_CACHE:
		return expected_cache(in[RAX]);
	case FIELD_PID:
		return task.pid;
	case FIELD_TGID:
		return task.tgid;
	case FIELD_CGROUP:
		return expected_cgroup();
	default:
		return in[args[field - FIELD_ARG0]];
	}
}

static bool stack_recorded(const struct bench *b, const uint8_t *got)
{
	uint64_t above = b->cpu->in.reg[RSP]; /* what lies behind the return address */
	uint64_t end = (uint64_t)(uintptr_t)b->cpu->stack + FAKE_STACK;
	uint32_t size = b->spec.capture.stack_words * 8u;
	uint32_t present = end - above < size ? (uint32_t)(end - above) : size;
	static const uint8_t zeros[CAPTURE_MAX_STACK * 8];

	return !memcmp(got, (const void *)(uintptr_t)above, present) &&
	       !memcmp(got + present, zeros, size - present);
}

/* From the return address up to the end of the stack. */
static bool chain_recorded(const struct bench *b, const uint8_t *got)
{
	const struct direct_stack *chain = (const void *)got;
	const uint64_t sp = b->cpu->in.reg[RSP] - sizeof(uint64_t);
	const uint64_t end = (uint64_t)(uintptr_t)b->cpu->stack + FAKE_STACK;
	const uint32_t present = (uint32_t)((end - sp) / sizeof(uint64_t));
	const uint32_t words = b->spec.capture.chain_words;
	const uint32_t n = direct_stack_words(chain, FAKE_STACK, words);
	uint32_t rest = 0;

	for (uint32_t i = n; i < words; i++)
		rest |= chain->words[i] != 0;
	return chain->sp == sp && chain->bp == b->cpu->in.reg[RBP] && chain->task == task.stack &&
	       n == (present < words ? present : words) && !rest &&
	       chain->words[0] == expected_word(b, FIELD_CALL_SITE) &&
	       !memcmp(chain->words + 1, (const void *)(uintptr_t)(sp + 8), 8 * (n - 1));
}

static bool fields_recorded(const struct bench *b, const uint8_t *record)
{
	const struct record_layout *layout = &b->function.trampoline.layout;

	for (unsigned int f = 0; f < FIELD_COUNT; f++) {
		const uint8_t *at = record + layout->offset[f];
		bool good;

		if (!layout->offset[f])
			continue;
		if (f == FIELD_STACK)
			good = stack_recorded(b, at);
		else if (f == FIELD_CHAIN)
			good = chain_recorded(b, at);
		else if (f == FIELD_COMM)
			good = !memcmp(at, task.comm, CAPTURE_COMM_SIZE);
		else
			good = *(const uint64_t *)at == expected_word(b, f);
		if (!good) {
			tap_diag("field %u is wrong", f);
			return false;
		}
	}
	return true;
}

static bool recorded(const struct bench *b, uint64_t position)
{
	const uint8_t *data = fake_ring_data(&b->rings, 1) + (position & (FAKE_DATA - 1));
	const struct ring_record *r = (const struct ring_record *)data;
	const struct record_layout *layout = &b->function.trampoline.layout;

	return r->commit == ring_commit(ID) && !r->items && r->tsc >= b->tsc_before &&
	       r->tsc <= b->tsc_after && fields_recorded(b, data) &&
	       b->ring->reserve == position + layout->size;
}

/* Laps around the ring, with records that run on into the tail, read one by one. */
static bool good_for_laps(struct bench *b)
{
	static const uint64_t objects[] = {
		(TAIL << 12) + 0x123, HEAD << 12,   NOT_SLAB << 12, 5 << 12,
		PAGES << 12,          (uint64_t)-1, TAIL_2 << 12,   HEAD_2 << 12};
	enum { OBJECTS = sizeof(objects) / sizeof(objects[0]) };
	uint32_t size = b->function.trampoline.layout.size;

	for (uint64_t i = 0, position = 0; position < 3 * FAKE_DATA; i++, position += size) {
		uint64_t which = i % (OBJECTS + 1);
		uint64_t object = which == OBJECTS ? i & 16 : page_offset + objects[which];

		call(b, (uint32_t)(fake_random() % 80) * 8, object);
		if (!preserved(b) || !recorded(b, position))
			return false;
		memset(fake_ring_data(&b->rings, 1) + (position & (FAKE_DATA - 1)), 0, size);
		b->ring->limit = position + size + FAKE_DATA - RING_SLACK;
	}
	return !fake_ring(&b->rings, 0)->reserve && !b->ring->lost;
}

static bool capture_works(struct capture capture)
{
	bool good = true;

	capture_fit_chain(&capture);
	for (int i = 0; i < 4 && good; i++) {
		struct bench b;

		good = bench_init(&b, capture, i & 1 ? TRAMPOLINE_DROP : TRAMPOLINE_BLOCK,
				  i & 2 ? FAKE_THUNK : FAKE_RET) &&
		       good_for_laps(&b);
		bench_deinit(&b);
	}
	return good;
}

static uint32_t possible_fields(enum probe_point point)
{
	uint32_t all = CAPTURE(FIELD_COUNT) - 1;

	if (point == POINT_ENTRY)
		return all & ~(CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SLAB_CACHE) |
			       CAPTURE(FIELD_SAVED) | CAPTURE(FIELD_OWNER));
	return all & ~(0x3fu << FIELD_ARG0 | CAPTURE(FIELD_SAVED) | CAPTURE(FIELD_OWNER));
}

static void test_captures(enum probe_point point, const char *name)
{
	uint32_t possible = possible_fields(point);
	bool good = true;

	ok(capture_works(fake_capture(point, 0, 0)), "%s: a record without fields has its time",
	   name);
	ok(capture_works(fake_capture(point, possible, CAPTURE_MAX_STACK)),
	   "%s: all fields are recorded together", name);
	for (unsigned int f = 0; f < FIELD_COUNT; f++)
		if (possible & CAPTURE(f))
			ok(capture_works(fake_capture(point, CAPTURE(f), 3)),
			   "%s: field %u is recorded alone", name, f);
	for (int i = 0; i < 100 && good; i++)
		good = capture_works(
			fake_capture(point, (uint32_t)fake_random() & possible,
				     (uint8_t)(1 + fake_random() % CAPTURE_MAX_STACK)));
	ok(good, "%s: random combinations of fields are recorded", name);
}

/* On another stack than the task's the copy ends with the page. */
static void test_other_stack(enum probe_point point, const char *name)
{
	stack_below = 1 << 20;
	ok(capture_works(fake_capture(point, CAPTURE(FIELD_CHAIN) | CAPTURE(FIELD_KEY), 0)),
	   "%s: what another stack than the task's holds is recorded up to its page's end", name);
	stack_below = 0;
}

static void test_no_cgroup(enum probe_point point, const char *name)
{
	void **const path[] = {&task.cgroups, &css_set.dfl_cgrp, &cgroup.kn};
	const uint32_t fields = CAPTURE(FIELD_CGROUP) | CAPTURE(FIELD_PID);

	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		void *next = *path[i];

		*path[i] = NULL;
		ok(capture_works(fake_capture(point, fields, 0)),
		   "%s: without pointer %zu to a cgroup it is 0", name, i);
		*path[i] = next;
	}
}

static void test_slab_marks(void)
{
	for (size_t i = 0; i < sizeof(slab_marks) / sizeof(slab_marks[0]); i++) {
		slab_mark = slab_marks[i];
		ok(capture_works(fake_capture(POINT_RETURN, CAPTURE(FIELD_SLAB_CACHE), 0)),
		   "a slab is known by %#x among the bits %#x", slab_mark.value, slab_mark.mask);
	}
	slab_mark = slab_marks[0];
}

/* A function with few parameters has registers to spare. */
static void test_parameters(void)
{
	uint32_t all = possible_fields(POINT_ENTRY);

	for (uint8_t n = 1; n <= CAPTURE_ARGUMENTS + 1; n++) {
		struct capture capture = fake_capture(POINT_ENTRY, all, CAPTURE_MAX_STACK);

		for (unsigned int i = n; i < CAPTURE_ARGUMENTS; i++)
			capture.fields &= ~CAPTURE(FIELD_ARG0 + i);
		capture.parameters = n;
		ok(capture_works(capture),
		   "entry: all fields of a function with %u parameters are recorded", n);
	}
}

/* What the fake host does at an OUT. */
struct host {
	struct bench *bench;
	enum { HOST_RETRY, HOST_SKIP, HOST_NOTHING } answer;
	unsigned int rings;
	bool at_trap;
};

static uint64_t on_out(void *arg, uint64_t rip)
{
	struct host *h = arg;
	const struct trampoline *t = &h->bench->function.trampoline;
	uint64_t gva = h->bench->spec.gva;

	h->rings++;
	h->at_trap = rip == gva + t->slow.trap;
	if (h->answer == HOST_SKIP)
		return gva + t->slow.skip;
	if (h->answer == HOST_NOTHING)
		return rip + 2;
	h->bench->ring->limit = START + 8;
	return gva + t->slow.retry;
}

static void test_full(enum probe_point point, enum trampoline_full full, const char *name)
{
	struct capture capture =
		fake_capture(point, CAPTURE(FIELD_KEY) | CAPTURE(FIELD_CALL_SITE), 0);
	struct bench b;
	struct host host = {.bench = &b};
	bool rings = full == TRAMPOLINE_BLOCK;

	ok(bench_init(&b, capture, full, FAKE_RET), "%s: a trampoline is generated", name);
	fake_host_install(on_out, NULL, &host);
	b.ring->reserve = START;
	b.ring->limit = START - 8;
	host.answer = HOST_SKIP;
	call(&b, 64, 1);
	ok(preserved(&b) && b.ring->reserve == START, "%s: a full ring stays as it is", name);
	is_u64(host.rings, rings, "a full ring without doorbell rings the host in block mode only");
	is_u64(b.ring->lost, !rings, "a skipped record is counted as lost in drop mode only");
	b.ring->doorbell = 1;
	call(&b, 64, 2);
	is_u64(host.rings, rings + 1u, "a full ring with doorbell rings the host");
	ok(host.at_trap && preserved(&b) && b.ring->reserve == START,
	   "%s: the OUT is where the trampoline says", name);
	host.answer = HOST_NOTHING;
	call(&b, 64, 3);
	ok(preserved(&b) && b.ring->reserve == START,
	   "%s: a record whose OUT is not served is not written", name);
	is_u64(b.ring->lost, !rings + 1u, "a record whose OUT is not served is counted as lost");
	host.answer = HOST_RETRY;
	call(&b, 64, 4);
	ok(preserved(&b) && recorded(&b, START), "%s: a record is written once there is room",
	   name);
	is_u64(host.rings, rings + 3u, "a writer that waits for room rings the host once");
	bench_deinit(&b);
}

/* A host that makes room while the trampoline waits for it. */
static void *make_room(void *arg)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	struct ring_header *ring = arg;

	nanosleep(&moment, NULL);
	__atomic_store_n(&ring->limit, START + 8, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A host that makes room late, but before the time is over: all calls must be recorded. */
static bool spin_with_host(struct bench *b, unsigned int tries)
{
	uint64_t lost = b->ring->lost;
	bool good = true;

	for (unsigned int i = 0; i < tries; i++) {
		pthread_t thread;

		b->ring->reserve = START;
		b->ring->limit = START - 8;
		fake_ring(&b->rings, 0)->spin_deadline = 0;
		if (pthread_create(&thread, NULL, make_room, b->ring))
			abort();
		call(b, 64, 2 + i);
		pthread_join(thread, NULL);
		good &= preserved(b) && recorded(b, START);
	}
	return good && b->ring->lost == lost;
}

/* Ticks that a call takes for which there is no room; it must be counted, and write nothing. */
static uint64_t wait_in_vain(struct bench *b, const char *what)
{
	uint64_t lost = b->ring->lost;

	b->ring->reserve = START;
	b->ring->limit = START - 8;
	call(b, 64, 1);
	ok(preserved(b) && b->ring->reserve == START && b->ring->lost == lost + 1,
	   "%s: a writer without room ends, writes nothing, and counts one lost record", what);
	return b->tsc_after - b->tsc_before;
}

static void test_patience(struct bench *b, const char *name)
{
	uint64_t *until = &fake_ring(&b->rings, 0)->spin_deadline;
	uint64_t ticks = wait_in_vain(b, name), first = *until;

	ok(ticks >= FAKE_PATIENCE, "%s: a writer without room waits for its patience", name);
	ok(first - b->tsc_before - FAKE_PATIENCE < FAKE_PATIENCE,
	   "the first writer that waits sets the deadline for all CPUs");
	ok(wait_in_vain(b, "after the deadline") < FAKE_PATIENCE && *until == first,
	   "after the deadline no writer waits");
	*until = __rdtsc() + (UINT64_C(1) << 40);
	ok(wait_in_vain(b, "deadline of another clock") < FAKE_PATIENCE,
	   "a deadline that is too far away has passed");
	*until = 0;
	ok(wait_in_vain(b, "deadline cleared") >= FAKE_PATIENCE,
	   "once the host has cleared the deadline writers wait again");
}

static void test_spin(enum probe_point point, const char *name)
{
	enum { TRIES = 20 };
	struct capture capture =
		fake_capture(point, CAPTURE(FIELD_KEY) | CAPTURE(FIELD_CALL_SITE), 0);
	struct bench b;
	struct host host = {.bench = &b};

	ok(bench_init(&b, capture, TRAMPOLINE_SPIN, FAKE_RET), "%s: a trampoline is generated",
	   name);
	fake_host_install(on_out, NULL, &host);
	b.ring->doorbell = 1;
	test_patience(&b, name);
	ok(spin_with_host(&b, TRIES),
	   "%s: a record is written once there is room, and registers are preserved", name);
	is_u64(host.rings, 0, "a writer that spins never rings the host");
	bench_deinit(&b);
}

int main(void)
{
	test_captures(POINT_ENTRY, "entry");
	test_no_cgroup(POINT_ENTRY, "entry");
	test_no_cgroup(POINT_RETURN, "return");
	test_other_stack(POINT_ENTRY, "entry");
	test_other_stack(POINT_RETURN, "return");
	test_captures(POINT_RETURN, "return");
	test_slab_marks();
	test_parameters();
	test_full(POINT_ENTRY, TRAMPOLINE_BLOCK, "entry, block");
	test_full(POINT_ENTRY, TRAMPOLINE_DROP, "entry, drop");
	test_full(POINT_RETURN, TRAMPOLINE_BLOCK, "return, block");
	test_full(POINT_RETURN, TRAMPOLINE_DROP, "return, drop");
	test_spin(POINT_ENTRY, "entry, spin");
	test_spin(POINT_RETURN, "return, spin");
	return tap_done();
}

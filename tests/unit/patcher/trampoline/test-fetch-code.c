/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the code of a dynamic probe records, compared with an interpreter of the same program:
 * random programs on random registers, over memory that is there, or not.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "patcher/fetch/fetch.h"
#include "patcher/trampoline/code.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { POOL = 512, PROGRAMS = 1500, STUB = 16, R_RSP = 4, NO_MEMORY = -14 };

#define KERNEL_POOL 0xffff888000000000ull
#define USER_POOL 0x00007f0000000000ull
#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined"), noinline))

/* --- the guest's memory ---------------------------------------------------------------------- */

static uint8_t kernel_pool[POOL], user_pool[POOL];

NOT_SANITIZED static const uint8_t *find(uint64_t address, bool user)
{
	const uint64_t offset = address - (user ? USER_POOL : KERNEL_POOL);

	return offset < POOL ? (user ? user_pool : kernel_pool) + offset : NULL;
}

/* The bytes in front of a fault are copied, as the kernel does. */
NOT_SANITIZED static long copy(uint8_t *to, uint64_t from, uint64_t size, bool user)
{
	for (uint64_t i = 0; i < size; i++) {
		const uint8_t *at = find(from + i, user);

		if (!at)
			return NO_MEMORY;
		*(volatile uint8_t *)&to[i] = *at;
	}
	return 0;
}

NOT_SANITIZED static long copy_text(uint8_t *to, uint64_t from, uint64_t size, bool user)
{
	for (uint64_t i = 0; i < size; i++) {
		const uint8_t *at = find(from + i, user);

		if (!at)
			return NO_MEMORY;
		*(volatile uint8_t *)&to[i] = *at;
		if (!*at)
			return (long)i + 1;
	}
	to[size - 1] = 0;
	return (long)size;
}

/* As a function of the guest does, they change all registers that they may. */
#define HELPER(name, function, user)                                                              \
	NOT_SANITIZED static long name(uint8_t *to, uint64_t from, uint64_t size)                 \
	{                                                                                         \
		long ret = function(to, from, size, user);                                        \
                                                                                                  \
		__asm__ volatile("mov $-1, %%rcx; mov %%rcx, %%rdx; mov %%rcx, %%rsi;"            \
				 "mov %%rcx, %%rdi; mov %%rcx, %%r8; mov %%rcx, %%r9;"            \
				 "mov %%rcx, %%r10; mov %%rcx, %%r11" ::                          \
					 : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"); \
		return ret;                                                                       \
	}

HELPER(read_kernel, copy, false)
HELPER(read_user, copy, true)
HELPER(text_kernel, copy_text, false)
HELPER(text_user, copy_text, true)

/* A jump to it, in the lowest 2 GiB, where code can call it. */
static uint64_t stub(uint8_t *page, unsigned int i, long (*function)(uint8_t *, uint64_t, uint64_t))
{
	uint8_t *at = page + (size_t)i * STUB;
	const uint8_t code[] = {0x48, 0xb8}, jump[] = {0xff, 0xe0};
	const uint64_t to = (uint64_t)(uintptr_t)function;

	memcpy(at, code, sizeof(code));
	memcpy(at + 2, &to, sizeof(to));
	memcpy(at + 10, jump, sizeof(jump));
	return (uint64_t)(uintptr_t)at;
}

static struct fetch_helpers make_helpers(void)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (page == MAP_FAILED)
		abort();
	return (struct fetch_helpers){stub(page, 0, read_kernel), stub(page, 1, read_user),
				      stub(page, 2, text_kernel), stub(page, 3, text_user)};
}

/* --- random programs ------------------------------------------------------------------------- */

static uint64_t below(uint64_t n)
{
	return fake_random() % n;
}

/* Mostly one into the pools, or near their ends. */
static uint64_t some_address(void)
{
	const uint64_t offset = below(8) ? below(POOL) : POOL - 20 + below(40);

	return below(10) ? (below(3) ? KERNEL_POOL : USER_POOL) + offset : fake_random();
}

static void fill_pools(void)
{
	for (size_t i = 0; i < POOL; i += sizeof(uint64_t)) {
		uint64_t k = some_address(), u = some_address();

		if (!below(3))
			k &= UINT64_C(0x00ffffffffffffff) >> 8 * below(7); /* ends of strings */
		memcpy(kernel_pool + i, &k, sizeof(k));
		memcpy(user_pool + i, &u, sizeof(u));
	}
}

static enum fetch_register some_register(enum fake_site_kind kind)
{
	static const enum fetch_register entry[] = {FETCH_DI, FETCH_R8,  FETCH_R9, FETCH_BX,
						    FETCH_BP, FETCH_R12, FETCH_SP, FETCH_R15,
						    FETCH_SI, FETCH_DX,  FETCH_CX};
	static const enum fetch_register ret[] = {FETCH_AX, FETCH_BX,  FETCH_BP,
						  FETCH_SP, FETCH_R13, FETCH_R14};

	if (kind == FAKE_SHARED_RETURN || kind == FAKE_PRIVATE_RETURN)
		return ret[below(6)];
	/* a private trampoline preserves its function's parameters only: one */
	return entry[below(kind == FAKE_PRIVATE ? 8 : 11)];
}

static void add_steps(struct fetch_arg *arg)
{
	const size_t derefs = below(3);

	for (size_t i = 0; i < derefs; i++)
		arg->ops[arg->nr_ops++] = (struct fetch_op){
			.kind = FETCH_DEREF, .user = !below(4), .at = (int64_t)below(64) - 32};
	arg->ops[arg->nr_ops] = (struct fetch_op){
		.kind = FETCH_MEMORY, .user = !below(4), .at = (int64_t)below(64) - 32};
	if (!below(3)) {
		arg->ops[arg->nr_ops].kind = FETCH_TEXT;
		arg->show = FETCH_STRING;
		arg->size = FETCH_STRING_SIZE;
	} else if (!below(3)) {
		arg->count = (uint8_t)(1 + below(16 / arg->size));
	}
	arg->nr_ops++;
}

static struct fetch_arg some_argument(enum fake_site_kind kind)
{
	struct fetch_arg arg = {.name = "a", .size = (uint8_t)(1 << below(4)), .count = 1};

	arg.nr_ops = 1;
	if (!below(8)) {
		arg.ops[0].kind = FETCH_COMM;
		arg.show = FETCH_STRING;
		arg.size = FETCH_STRING_SIZE;
		return arg;
	}
	if (below(4))
		arg.ops[0] = (struct fetch_op){.reg = some_register(kind)};
	else
		arg.ops[0] =
			(struct fetch_op){.kind = FETCH_CONSTANT, .at = (int64_t)some_address()};
	if (below(3))
		add_steps(&arg);
	if (!below(4) && arg.show != FETCH_STRING && arg.count == 1) {
		arg.bit_offset = (uint8_t)below(8u * arg.size);
		arg.bit_width = (uint8_t)(1 + below(8u * arg.size - arg.bit_offset));
	}
	return arg;
}

static void some_probe(struct fetch_probe *probe, enum fake_site_kind kind)
{
	const size_t n = 1 + below(8);

	*probe = (struct fetch_probe){0};
	for (size_t i = 0; i < n; i++) {
		struct fetch_arg arg = some_argument(kind);

		if (probe->bytes + fetch_room(&arg) > FETCH_MAX_BYTES ||
		    probe->nr_fields + fetch_nr_fields(&arg) > FETCH_MAX_FIELDS)
			break;
		arg.field = probe->nr_fields;
		probe->nr_fields = (uint8_t)(probe->nr_fields + fetch_nr_fields(&arg));
		arg.at = probe->bytes;
		probe->bytes = (uint16_t)(probe->bytes + fetch_room(&arg));
		probe->args[probe->nr_args++] = arg;
	}
}

/* --- the interpreter ------------------------------------------------------------------------- */

static bool read_at(const struct fetch_op *op, uint64_t value, void *to, uint64_t size)
{
	const uint64_t from = value + (uint64_t)op->at;
	const bool user = op->user || (int64_t)from >= 0;

	return (op->kind == FETCH_TEXT ? copy_text : copy)(to, from, size, user) >= 0;
}

/* False: a fault. `out` is zeroed. */
static bool interpret(const struct fake_site *s, const struct fetch_arg *arg, uint8_t *out)
{
	uint64_t value = arg->ops[0].kind == FETCH_CONSTANT ? (uint64_t)arg->ops[0].at
							    : s->cpu->in.reg[arg->ops[0].reg];
	size_t i;

	if (arg->ops[0].kind == FETCH_REGISTER && arg->ops[0].reg == FETCH_SP)
		value = s->cpu->in.reg[R_RSP] - (fake_site_is_return(s) ? 0 : 8);
	for (i = 1; i + 1 < arg->nr_ops; i++)
		if (!read_at(&arg->ops[i], value, &value, sizeof(value)))
			return false;
	if (arg->nr_ops == 1)
		memcpy(out, &value, arg->size);
	else if (!read_at(&arg->ops[i], value, out, (uint64_t)arg->size * arg->count))
		return false;
	if (arg->bit_width) {
		memcpy(&value, out, sizeof(value));
		value = value >> arg->bit_offset & UINT64_MAX >> (64 - arg->bit_width);
		memcpy(out, &value, sizeof(value));
	}
	return true;
}

struct expected {
	uint8_t bytes[FETCH_MAX_BYTES + sizeof(uint64_t)];
	unsigned int faults;
};

static void expect(const struct fake_site *s, const struct fetch_program *program, bool nested,
		   struct expected *out)
{
	uint64_t faults = 0;

	*out = (struct expected){0};
	for (size_t i = 0; i < program->nr_args; i++) {
		const struct fetch_arg *arg = &program->args[i];
		uint8_t *to = out->bytes + fetch_place(program, arg);
		bool fault = nested && fetch_reads_memory(arg);

		if (arg->ops[0].kind == FETCH_COMM)
			memcpy(to, "fifteen-letters", FETCH_STRING_SIZE);
		else if (!fault)
			fault = !interpret(s, arg, to);
		if (!fault)
			continue;
		memset(to, 0, fetch_room(arg));
		faults |= fetch_field_bits(arg);
	}
	if (program->has_faults)
		memcpy(out->bytes, &faults, sizeof(faults));
	out->faults = (unsigned int)__builtin_popcountll(faults);
}

/* --- tests ----------------------------------------------------------------------------------- */

static bool call_good(struct fake_site *s, const struct fetch_program *program, uint64_t start,
		      bool nested, unsigned int *faults)
{
	const struct direct_layout layout =
		direct_layout_with(s->records[0].fields, program->bytes);
	const uint8_t *at = fake_site_data(&s->groups[0]) + (start & (FAKE_DATA - 1));
	struct expected expected;

	fake_site_clear(s, start, FAKE_DATA - RING_SLACK);
	fake_site_ring(&s->groups[0])->fetching = nested;
	fake_site_prepare(s);
	for (unsigned int i = 0; i < FAKE_REGS; i++)
		if (i != R_RSP && below(2))
			s->cpu->in.reg[i] = some_address();
	fake_site_call(s);
	expect(s, program, nested, &expected);
	*faults += expected.faults;
	return fake_site_preserved(s) && fake_site_recorded(s, 0, start) &&
	       fake_site_ring(&s->groups[0])->fetching == nested &&
	       fake_site_ring(&s->groups[0])->reserve == start + layout.size &&
	       !memcmp(at + layout.values, expected.bytes, program->bytes);
}

/* A record of another tracer follows, with rings of another size. */
static bool program_good(enum fake_site_kind kind, const struct fetch_program *program,
			 unsigned int *faults)
{
	struct fake_site s;
	uint32_t fields;
	bool good;

	fake_site_init(&s, kind);
	/* the registers are random, and the first argument points to no system call's */
	fields = fake_site_fields(&s) & ~(uint32_t)(DIRECT_SYSCALL | DIRECT_STACK);
	fake_site_add(&s, 0, (uint32_t)fake_random() & fields, TRAMPOLINE_BLOCK, NULL);
	s.records[0].fetch = program;
	fake_site_add(&s, 2, fields, TRAMPOLINE_BLOCK, NULL);
	good = fake_site_generate(&s);
	for (uint64_t i = 0; good && i < 4; i++)
		good = call_good(&s, program, 8 * (i * 37), i == 3, faults) &&
		       fake_site_recorded(&s, 1, 8 * (i * 37));
	fake_site_deinit(&s);
	return good;
}

static void test_kind(enum fake_site_kind kind, const struct fetch_helpers *helpers)
{
	unsigned int faults = 0, programs = 0;
	bool good = true;

	for (; good && programs < PROGRAMS; programs++) {
		struct fetch_probe probe;
		struct fetch_program program;

		fill_pools();
		some_probe(&probe, kind);
		program = fetch_program_of(&probe, helpers);
		good = program_good(kind, &program, &faults);
	}
	ok(good && faults > PROGRAMS / 4,
	   "%s: %u random programs record what the interpreter reads, and %u faults",
	   fake_site_kinds[kind], programs, faults);
}

static void test_missing(void)
{
	const struct fetch_helpers none = {0};
	struct fetch_probe probe;
	struct fetch_program program;
	unsigned int faults = 0;
	struct error err;

	if (fetch_parse("p f +8(%di):u32 %si", &probe, &err))
		abort();
	program = fetch_program_of(&probe, &none);
	fill_pools();
	/* what nested calls record */
	ok(program.has_faults && program.bytes == 24, "a probe that reads memory can have faults");
	program.helpers = none;
	for (enum fake_site_kind kind = 0; kind <= FAKE_SHARED; kind++) {
		struct fake_site s;

		fake_site_init(&s, kind);
		fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
		s.records[0].fetch = &program;
		ok(fake_site_generate(&s) && call_good(&s, &program, 0, true, &faults) &&
			   faults == 1,
		   "%s: a fetch inside another one of the same CPU records a fault",
		   fake_site_kinds[kind]);
		fake_site_ring(&s.groups[0])->fetching = 0;
		fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
		fake_site_prepare(&s);
		fake_site_call(&s);
		ok(fake_site_preserved(&s) && fake_site_recorded(&s, 0, 0) &&
			   fake_site_data(&s.groups[0])[sizeof(struct direct_record)] == 1,
		   "%s: in a guest without the functions it takes, each read is a fault",
		   fake_site_kinds[kind]);
		fake_site_deinit(&s);
	}
}

static void test_refused(void)
{
	static const struct fetch_op impossible[] = {
		{.kind = FETCH_REGISTER, .reg = FETCH_AX},
		{.kind = FETCH_REGISTER, .reg = FETCH_R10},
		{.kind = FETCH_SYMBOL},
		{.kind = FETCH_DEREF},
		{.kind = FETCH_TEXT},
	};
	struct fetch_probe probe = {.nr_args = 1, .bytes = 8};
	struct fetch_program program;
	struct error err = {0};

	probe.args[0] = (struct fetch_arg){.name = "a", .size = 8, .count = 1, .nr_ops = 1};
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		probe.args[0].ops[0] = impossible[i];
		program = fetch_program_of(&probe, &(struct fetch_helpers){0});
		ok(fetch_check(&program, POINT_ENTRY, &err),
		   "impossible program %zu is refused: %s", i, err.text);
	}
}

int main(void)
{
	const struct fetch_helpers helpers = make_helpers();

	for (enum fake_site_kind kind = 0; kind < FAKE_SITE_KINDS; kind++)
		test_kind(kind, &helpers);
	test_missing();
	test_refused();
	return tap_done();
}

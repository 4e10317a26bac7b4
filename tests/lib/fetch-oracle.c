/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fetch-oracle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "patcher/trampoline/code.h"

enum { STUB = 16, R_RSP = 4, NO_MEMORY = -14 };

/* Code of the trampoline calls these on a small stack. */
#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined"), noinline))

static struct fetch_draw at_random;

/* --- the guest's memory ---------------------------------------------------------------------- */

static uint8_t kernel_pool[FETCH_POOL], user_pool[FETCH_POOL];

NOT_SANITIZED static const uint8_t *find(uint64_t address, bool user)
{
	const uint64_t offset = address - (user ? FETCH_USER_POOL : FETCH_KERNEL_POOL);

	return offset < FETCH_POOL ? (user ? user_pool : kernel_pool) + offset : NULL;
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

struct fetch_helpers fetch_oracle_helpers(void)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (page == MAP_FAILED)
		abort();
	return (struct fetch_helpers){stub(page, 0, read_kernel), stub(page, 1, read_user),
				      stub(page, 2, text_kernel), stub(page, 3, text_user)};
}

/* Characters: as many as a string has room for, or some less or more. */
static void fill_text(uint8_t *pool)
{
	const size_t n = FETCH_LONG_STRING - 4 + fetch_draw_below(&at_random, 8);
	const size_t from = fetch_draw_below(&at_random, FETCH_POOL - n);

	for (size_t i = 0; i < n; i++)
		pool[from + i] = (uint8_t)(1 + fetch_draw_below(&at_random, 255));
	pool[from + n] = 0;
}

void fetch_oracle_fill(void)
{
	for (size_t i = 0; i < FETCH_POOL; i += sizeof(uint64_t)) {
		uint64_t k = fetch_draw_address(&at_random), u = fetch_draw_address(&at_random);

		if (!fetch_draw_below(&at_random, 3))
			k &= UINT64_C(0x00ffffffffffffff) >>
			     8 * fetch_draw_below(&at_random, 7); /* ends of strings */
		memcpy(kernel_pool + i, &k, sizeof(k));
		memcpy(user_pool + i, &u, sizeof(u));
	}
	if (!fetch_draw_below(&at_random, 2))
		fill_text(fetch_draw_below(&at_random, 2) ? kernel_pool : user_pool);
}

void fetch_oracle_put_text(size_t length)
{
	memset(kernel_pool, 'x', FETCH_POOL - 1);
	kernel_pool[length] = kernel_pool[FETCH_POOL - 1] = 0;
}

/* --- the interpreter ------------------------------------------------------------------------- */

static bool read_at(const struct fetch_op *op, uint64_t value, void *to, uint64_t size)
{
	const uint64_t from = value + (uint64_t)op->at;
	const bool user = op->user || (int64_t)from >= 0;

	return (op->kind == FETCH_TEXT ? copy_text : copy)(to, from, size, user) >= 0;
}

struct expected {
	uint8_t bytes[FETCH_MAX_BYTES + FETCH_LARGE_HEAD];
	uint8_t strings[FETCH_MAX_LONG_STRINGS][FETCH_LONG_STRING];
	uint32_t lengths[FETCH_MAX_LONG_STRINGS];
	unsigned int nr_strings, words, faults;
};

/* The characters that are recorded, with the NUL if there is room for it. */
static bool read_string(const struct fetch_op *op, uint64_t value, struct expected *out)
{
	const uint64_t from = value + (uint64_t)op->at;
	const bool user = op->user || (int64_t)from >= 0;
	uint8_t *const to = out->strings[out->nr_strings];
	uint32_t n = 0;

	for (; n < FETCH_LONG_STRING && (!n || to[n - 1]); n++) {
		const uint8_t *at = find(from + n, user);

		if (!at)
			return false;
		to[n] = *at;
	}
	/* it is longer than that, as far as memory goes */
	if (to[n - 1] && !find(from + n, user))
		return false;
	out->lengths[out->nr_strings++] = n;
	out->words += (n + 7) / 8;
	return true;
}

static void cut_bits(const struct fetch_arg *arg, uint8_t *at)
{
	uint64_t value = 0;

	memcpy(&value, at, arg->size);
	value = value >> arg->bit_offset & UINT64_MAX >> (64 - arg->bit_width);
	memcpy(at, &value, arg->size);
}

/* False: a fault. `out` is zeroed. */
static bool interpret(const struct fake_site *s, const struct fetch_arg *arg, uint8_t *out,
		      struct expected *expected)
{
	uint64_t value = arg->ops[0].kind == FETCH_CONSTANT
				 ? (uint64_t)arg->ops[0].at
				 : fake_site_register(s, arg->ops[0].reg) >> arg->ops[0].at;
	size_t i;

	for (i = 1; i + 1 < arg->nr_ops; i++)
		if (!read_at(&arg->ops[i], value, &value, sizeof(value)))
			return false;
	if (fetch_is_long(arg)) {
		const unsigned int number = expected->nr_strings;

		if (!read_string(&arg->ops[i], value, expected))
			return false;
		memcpy(out, &expected->lengths[number], sizeof(uint32_t));
		return true;
	}
	if (arg->nr_ops == 1)
		memcpy(out, &value, arg->size);
	else if (!read_at(&arg->ops[i], value, out, (uint64_t)arg->size * arg->count))
		return false;
	for (i = 0; arg->bit_width && i < arg->count; i++)
		cut_bits(arg, out + i * arg->size);
	return true;
}

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
		else if (arg->ops[0].kind == FETCH_LITERAL)
			memcpy(to, arg->symbol, strnlen(arg->symbol, FETCH_STRING_SIZE));
		else if (!fault)
			fault = !interpret(s, arg, to, out);
		if (!fault)
			continue;
		memset(to, 0, fetch_room(arg));
		faults |= fetch_field_bits(arg);
	}
	out->faults = (unsigned int)__builtin_popcountll(faults);
	if (!program->has_faults)
		return;
	memcpy(out->bytes, &faults, fetch_fault_bytes(program));
	memcpy(out->bytes + program->head - sizeof(out->words), &out->words, sizeof(out->words));
}

/* --- the comparison -------------------------------------------------------------------------- */

/* What lies behind a string in its last word may be anything. */
static bool has_strings(const struct expected *expected, const uint8_t *at)
{
	for (unsigned int i = 0; i < expected->nr_strings; i++) {
		if (memcmp(at, expected->strings[i], expected->lengths[i]) != 0)
			return false;
		at += (expected->lengths[i] + 7) / 8 * 8;
	}
	return true;
}

bool fetch_oracle_call(struct fake_site *s, const struct fetch_program *program, uint64_t start,
		       bool nested, unsigned int *faults)
{
	const struct direct_layout layout = direct_layout_of(s->records[0].fields, program);
	const uint8_t *at = fake_site_data(&s->groups[0]) + (start & (FAKE_DATA - 1));
	struct expected expected;

	fake_site_clear(s, start, FAKE_DATA - RING_SLACK);
	fake_site_ring(&s->groups[0])->fetching = nested;
	fake_site_prepare(s);
	for (unsigned int i = 0; i < FAKE_REGS; i++)
		if (i != R_RSP && fetch_draw_below(&at_random, 2))
			s->cpu->in.reg[i] = fetch_draw_address(&at_random);
	fake_site_call(s);
	expect(s, program, nested, &expected);
	*faults += expected.faults;
	return fake_site_preserved(s) && fake_site_recorded(s, 0, start) &&
	       fake_site_ring(&s->groups[0])->fetching == nested &&
	       fake_site_ring(&s->groups[0])->reserve ==
		       start + layout.size + expected.words * sizeof(uint64_t) &&
	       !memcmp(at + layout.values, expected.bytes, program->bytes) &&
	       has_strings(&expected, at + layout.size);
}

/* The record behind it has rings of another size. */
bool fetch_oracle_agrees(enum fake_site_kind kind, const struct fetch_program *program,
			 unsigned int *faults)
{
	struct fake_site s;
	uint32_t fields;
	bool good;

	fake_site_init(&s, kind);
	/* the registers are random, and the first argument points to no system call's */
	fields = fake_site_fields(&s) & ~(uint32_t)DIRECT_SYSCALL;
	fake_site_add(&s, 0, (uint32_t)fake_random() & fields, TRAMPOLINE_BLOCK, NULL);
	s.records[0].fetch = program;
	fake_site_add(&s, 2, fields & ~(uint32_t)DIRECT_STACK, TRAMPOLINE_BLOCK, NULL);
	good = fake_site_generate(&s);
	for (uint64_t i = 0; good && i < 4; i++)
		good = fetch_oracle_call(&s, program, 8 * (i * 37), i == 3, faults) &&
		       fake_site_recorded(&s, 1, 8 * (i * 37));
	fake_site_deinit(&s);
	return good;
}

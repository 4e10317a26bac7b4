// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/guest/scratch-stub.h"

#include <stdlib.h>
#include <string.h>

struct emitter {
	const struct stub *stub;
	uint8_t *code;
	size_t at;
};

static void put(struct emitter *e, const char *bytes, size_t size)
{
	if (e->at + size > STUB_SIZE)
		abort();
	memcpy(e->code + e->at, bytes, size);
	e->at += size;
}

static void put32(struct emitter *e, uint32_t value)
{
	char bytes[sizeof(value)];

	memcpy(bytes, &value, sizeof(value));
	put(e, bytes, sizeof(bytes));
}

/* A distance from the end of the instruction, `behind` bytes after these four. */
static void put_relative(struct emitter *e, uint64_t target, size_t behind)
{
	put32(e, (uint32_t)(target - (e->stub->gva + e->at + sizeof(uint32_t) + behind)));
}

static void store_rax(struct emitter *e, size_t field)
{
	put(e, "\x48\x89\x05", 3); /* mov %rax, field(%rip) */
	put_relative(e, e->stub->slot + field, 0);
}

void stub_write(const struct stub *stub, uint8_t code[STUB_SIZE])
{
	struct emitter e = {.stub = stub, .code = code};

	put(&e, "\xfa\x50\x52", 3);     /* cli; push %rax; push %rdx */
	put(&e, "\x65\x8b\x04\x25", 4); /* mov %gs:cpu_number, %eax */
	put32(&e, (uint32_t)stub->cpu_number);
	put(&e, "\x89\x05", 2); /* mov %eax, cpu(%rip) */
	put_relative(&e, stub->slot + offsetof(struct stub_slot, cpu), 0);
	put(&e, "\x65\x48\x8b\x04\x25", 5); /* mov %gs:current_task, %rax */
	put32(&e, (uint32_t)stub->current_task);
	store_rax(&e, offsetof(struct stub_slot, task));
	put(&e, "\x0f\x31", 2);         /* rdtsc */
	put(&e, "\x48\xc1\xe2\x20", 4); /* shl $32, %rdx */
	put(&e, "\x48\x09\xd0", 3);     /* or %rdx, %rax */
	store_rax(&e, offsetof(struct stub_slot, tsc));
	put(&e, "\x48\xc7\x05", 3); /* movq $round, round(%rip) */
	put_relative(&e, stub->slot + offsetof(struct stub_slot, round), sizeof(stub->round));
	put32(&e, stub->round);
	put(&e, "\xf0\xff\x05", 3); /* lock incl runs(%rip) */
	put_relative(&e, stub->slot + offsetof(struct stub_slot, runs), 0);
	put(&e, "\x5a\x58\xfb\xe9", 4); /* pop %rdx; pop %rax; sti; jmp back */
	put_relative(&e, stub->back, 0);
}

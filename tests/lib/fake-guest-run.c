/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few instructions that vCPUs of a fake guest execute. */
#include <string.h>
#include "introspect/guest/memory.h"
#include "tests/lib/fake-guest.h"

enum {
	MAX_STEPS = 10000,
	CALL = 0xe8,
	HLT = 0xf4,
};

static uint64_t pop(struct fake_guest *fg, struct fake_vcpu *v)
{
	uint64_t value;

	memcpy(&value, fg->base.ram + (v->regs.rsp - FAKE_PAGE_OFFSET), sizeof(value));
	v->regs.rsp += sizeof(value);
	return value;
}

static void push(struct fake_guest *fg, struct fake_vcpu *v, uint64_t value)
{
	v->regs.rsp -= sizeof(value);
	memcpy(fg->base.ram + (v->regs.rsp - FAKE_PAGE_OFFSET), &value, sizeof(value));
}

static int64_t displacement(const uint8_t *at, size_t size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)*at;
	memcpy(&wide, at, sizeof(wide));
	return wide;
}

/* Run an instruction that is no branch; returns its size, 0: it is none of these. */
static size_t run_plain(struct fake_vcpu *v, const uint8_t *at)
{
	if (at[0] == 0x90)
		return 1;
	if (!memcmp(at, "\x0f\x1f\x44\0\0", 5))
		return 5;
	if (!memcmp(at, "\x0f\x1f\0", 3))
		return 3;
	if (!memcmp(at, "\x48\x89\xf8", 3)) {
		v->regs.rax = v->regs.rdi;
		return 3;
	}
	if (!memcmp(at, "\x48\x85\xff", 3)) {
		v->zero = !v->regs.rdi;
		return 3;
	}
	if (!memcmp(at, "\x48\xb8", 2)) {
		memcpy(&v->regs.rax, at + 2, sizeof(uint64_t));
		return 10;
	}
	return 0;
}

/* Run a relative branch; false: it is none. */
static bool run_branch(struct fake_guest *fg, struct fake_vcpu *v, const uint8_t *at)
{
	size_t opcode = at[0] == 0x0f ? 2 : 1;
	size_t size = at[0] == 0x74 || at[0] == 0xeb ? 1 : 4;
	bool conditional = at[0] == 0x74 || (at[0] == 0x0f && at[1] == 0x84);
	uint64_t next = v->regs.rip + opcode + size;

	if (!conditional && at[0] != CALL && at[0] != 0xe9 && at[0] != 0xeb)
		return false;
	if (at[0] == CALL)
		push(fg, v, next);
	v->regs.rip = next;
	if (!conditional || v->zero)
		v->regs.rip += (uint64_t)displacement(at + opcode, size);
	return true;
}

/* Whether the trap handler took it. */
static bool run_trap(struct fake_guest *fg, unsigned int vcpu)
{
	struct fake_vcpu *v = &fg->vcpus[vcpu];
	struct guest_trap trap = {.vcpu = vcpu, .time_ns = ++fg->clock, .regs = v->regs};

	if (!fg->trap_fn || !fg->trap_fn(fg->trap_arg, &trap))
		return false;
	v->regs = trap.regs;
	return true;
}

static bool run_out(struct fake_guest *fg, unsigned int vcpu, uint8_t port)
{
	if (port == GUEST_TRAP_PORT && run_trap(fg, vcpu))
		return true;
	fg->vcpus[vcpu].regs.rip += GUEST_TRAP_SIZE;
	return false;
}

/* In the image, or in memory that was added. NULL: nowhere. */
static const uint8_t *fetch(struct fake_guest *fg, uint64_t rip)
{
	enum { INSN_MAX = 10 };
	uint64_t offset = rip - fake_gva(0), gpa;

	if (offset < FAKE_BANNER)
		return fake_text(fg, offset);
	if (kernel_in_image(&fg->kernel, rip) || kernel_translate(&fg->kernel, rip, &gpa, NULL))
		return NULL;
	return guest_phys_hva(&fg->guest, gpa, INSN_MAX);
}

int fake_guest_run(struct fake_guest *fg, unsigned int vcpu)
{
	struct fake_vcpu *v = &fg->vcpus[vcpu];
	int traps = 0;

	for (int i = 0; i < MAX_STEPS; i++) {
		const uint8_t *at = fetch(fg, v->regs.rip);
		size_t plain;

		if (!at)
			return -1;
		if (fake_breaks_at(&fg->breaks, v->regs.rip)) {
			traps += run_trap(fg, vcpu);
			continue;
		}
		plain = run_plain(v, at);
		v->regs.rip += plain;
		if (plain || run_branch(fg, v, at))
			continue;
		if (at[0] == HLT)
			return traps;
		if (at[0] == 0xc3)
			v->regs.rip = pop(fg, v);
		else if (at[0] == 0xe6)
			traps += run_out(fg, vcpu, at[1]);
		else
			return -1;
	}
	return -1;
}

int fake_guest_call(struct fake_guest *fg, unsigned int vcpu, uint64_t from, uint64_t function)
{
	uint64_t behind = fake_branch(fg, from, CALL, function);

	fake_code(fg, behind, "\xf4", 1);
	fg->vcpus[vcpu].regs.rip = fake_gva(from);
	fg->vcpus[vcpu].regs.rsp = fake_stack_top(vcpu);
	return fake_guest_run(fg, vcpu);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fault/faulty-guest.h"

#include <errno.h>
#include "tests/fault/faults.h"

static struct guest real;
static struct guest_memory_ops memory;
static struct guest_control_ops control;
static struct guest_trap_ops traps;
static struct guest_clock_ops clock_ops;
static struct guest_scratch_ops scratch;

/* An operation that fails, or what it is otherwise. */
#define FALLIBLE_OP(group, name, parameters, arguments)                               \
	static int faulty_##name parameters                                           \
	{                                                                             \
		if (fault_is_due("guest " #name))                                     \
			return error_set(err, EIO, "the fake guest fails to " #name); \
		return real.group->name arguments;                                    \
	}

FALLIBLE_OP(memory, read,
	    (struct guest * guest, uint64_t gpa, void *to, size_t size, struct error *err),
	    (guest, gpa, to, size, err))
FALLIBLE_OP(memory, write,
	    (struct guest * guest, uint64_t gpa, const void *from, size_t size, struct error *err),
	    (guest, gpa, from, size, err))
FALLIBLE_OP(control, stop, (struct guest * guest, struct error *err), (guest, err))
FALLIBLE_OP(control, try_stop, (struct guest * guest, struct error *err), (guest, err))
FALLIBLE_OP(control, get_regs,
	    (struct guest * guest, unsigned int vcpu, struct guest_regs *out, struct error *err),
	    (guest, vcpu, out, err))
FALLIBLE_OP(control, set_regs,
	    (struct guest * guest, unsigned int vcpu, const struct guest_regs *regs,
	     struct error *err),
	    (guest, vcpu, regs, err))
FALLIBLE_OP(control, get_sregs,
	    (struct guest * guest, unsigned int vcpu, struct guest_sregs *out, struct error *err),
	    (guest, vcpu, out, err))
FALLIBLE_OP(traps, set_break,
	    (struct guest * guest, uint64_t gva, uint64_t gpa, bool on, struct error *err),
	    (guest, gva, gpa, on, err))
FALLIBLE_OP(clock, tsc_clock,
	    (struct guest * guest, unsigned int vcpu, struct tsc_clock *out, struct error *err),
	    (guest, vcpu, out, err))
FALLIBLE_OP(scratch, add,
	    (struct guest * guest, size_t size, struct guest_region *out, struct error *err),
	    (guest, size, out, err))
FALLIBLE_OP(scratch, remove,
	    (struct guest * guest, const struct guest_region *region, struct error *err),
	    (guest, region, err))

/* No backend fails to remove a handler. */
static int faulty_set_handler(struct guest *guest, guest_trap_fn *fn, void *arg, struct error *err)
{
	if (fn && fault_is_due("guest set_handler"))
		return error_set(err, EIO, "the fake guest fails to set_handler");
	return real.traps->set_handler(guest, fn, arg, err);
}

void faulty_guest_init(struct fake_guest *fg)
{
	real = fg->guest;
	memory = *real.memory;
	memory.read = faulty_read;
	memory.write = faulty_write;
	control = *real.control;
	control.stop = faulty_stop;
	control.try_stop = faulty_try_stop;
	control.get_regs = faulty_get_regs;
	control.set_regs = faulty_set_regs;
	control.get_sregs = faulty_get_sregs;
	traps = *real.traps;
	traps.set_handler = faulty_set_handler;
	traps.set_break = faulty_set_break;
	clock_ops = *real.clock;
	clock_ops.tsc_clock = faulty_tsc_clock;
	scratch = *real.scratch;
	scratch.add = faulty_add;
	scratch.remove = faulty_remove;
	fg->guest.memory = &memory;
	fg->guest.control = &control;
	fg->guest.traps = &traps;
	fg->guest.clock = &clock_ops;
	fg->guest.scratch = &scratch;
}

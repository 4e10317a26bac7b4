/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_GUEST_H
#define SONDE_INTROSPECT_GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/budget.h"
#include "formats/base/error.h"
#include "introspect/guest/clock.h"
#include "introspect/guest/control.h"
#include "introspect/guest/memory.h"

/*
 * A guest behind one interface: our own VMM (vmm/machine/guest.c), a libvirt domain
 * (vmm/libvirt/backend/guest.c), a memory dump (introspect/guest/dump.c). Introspection, patching
 * and tracing must not know which one they have.
 *
 * To add a backend: embed `struct guest` first in your own struct and fill it in. Each group of
 * operations is one struct of functions: memory and scratch memory (memory.h), control (control.h),
 * traps (below), clock (clock.h). Leave `scratch` and `traps` NULL without their capabilities.
 */
enum guest_cap {
	/* `out %al, $GUEST_TRAP_PORT` in guest text calls the trap handler. */
	GUEST_CAP_PORT_TRAP = 1 << 0,
	GUEST_CAP_SCRATCH = 1 << 1, /* scratch memory can be added */
	GUEST_CAP_WRITE = 1 << 2,   /* memory can be written */
	GUEST_CAP_BREAK = 1 << 3,   /* traps->set_break works: breakpoints call the trap handler */
	GUEST_STOPS_TO_READ = 1 << 4, /* each read of its memory stops it for a moment */
};

/* The port whose OUT instruction (2 bytes: e6 PORT) is a trap. An 8-bit port no PC device decodes.
 */
enum { GUEST_TRAP_PORT = 0xe4, GUEST_TRAP_SIZE = 2 };

/*
 * A trap taken by a vCPU. regs.rip is the address of the OUT instruction or of the breakpoint. The
 * handler runs on the vCPU's thread, for several vCPUs at once. It may read and write guest memory,
 * may change any register, and must set regs.rip to where the vCPU continues. With rip unchanged
 * the vCPU executes what stands there now (the backend first completes the OUT); a breakpoint must
 * have been removed before that. `time_ns` is the trace clock.
 *
 * `gap_ns` other than 0 is no trap but a notice (GUEST_CAP_BREAK): for this time until now, no
 * breakpoint was in place and the guest may have run. The guest is stopped, all breakpoints are in
 * place again, and no other field is set.
 */
struct guest_trap {
	unsigned int vcpu;
	uint64_t time_ns;
	uint64_t gap_ns;
	struct guest_regs regs;
};
/* False: the trap is not Sonde's. The backend then treats the OUT as the guest's own port write. */
typedef bool guest_trap_fn(void *arg, struct guest_trap *trap);

/* GUEST_CAP_PORT_TRAP or GUEST_CAP_BREAK. 0 or a negative errno with *err set. */
struct guest_trap_ops {
	/* Call `fn` on each trap. NULL removes the handler, and waits until none is running. */
	int (*set_handler)(struct guest *guest, guest_trap_fn *fn, void *arg, struct error *err);
	/*
	 * GUEST_CAP_BREAK: whether a vCPU calls the trap handler before it executes the
	 * instruction at `gva`, which lies at `gpa`. The guest is stopped by the caller. The
	 * backend may write an INT3 to gpa, and nothing else. Setting it to what it is does
	 * nothing.
	 */
	int (*set_break)(struct guest *guest, uint64_t gva, uint64_t gpa, bool on,
			 struct error *err);
};

struct guest {
	const char *name; /* of the backend: "kvm", "libvirt", "dump" */
	const struct guest_memory_ops *memory;
	const struct guest_control_ops *control;
	const struct guest_clock_ops *clock;
	const struct guest_trap_ops *traps;
	const struct guest_scratch_ops *scratch;
	uint32_t caps; /* enum guest_cap */
	unsigned int nr_vcpus;
	uint64_t max_scratch;  /* bytes that one scratch->add can give; 0: no such limit */
	struct budget *budget; /* of memory that it can make us use; NULL: no bound */
};

/* Whether places in guest text can call the trap handler, by an OUT or by a breakpoint. */
static inline bool guest_has_traps(const struct guest *guest)
{
	return guest->caps & (GUEST_CAP_PORT_TRAP | GUEST_CAP_BREAK);
}

#endif

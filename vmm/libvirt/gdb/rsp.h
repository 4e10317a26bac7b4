/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_GDB_RSP_H
#define SONDE_VMM_LIBVIRT_GDB_RSP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * A client of GDB's remote serial protocol (GDB manual, appendix E) over a connected stream socket,
 * for a guest that is stopped, unless it was let run here. The peer is not trusted: packets and
 * waits are bounded.
 */
enum {
	RSP_MAX_PACKET = 16384, /* bytes of a packet's payload that we take */
	RSP_MAX_WRITE = 1024,   /* bytes of memory in one packet of ours */
	RSP_TIMEOUT_MS = 5000,
};

struct rsp {
	int fd;
	uint8_t buffer[4096];
	size_t at, end; /* of what is unread in it */
};

/* `fd` stays the caller's. */
void rsp_init(struct rsp *rsp, int fd);

/*
 * Send a packet and take the reply to it, NUL-terminated: of stop notices that come before it none
 * is left. -ETIMEDOUT, -ECONNRESET, -EPROTO (the stream makes no sense), -EMSGSIZE.
 */
int rsp_request(struct rsp *rsp, const char *packet, char reply[static RSP_MAX_PACKET + 1],
		struct error *err);

/*
 * QEMU's own (docs/system/gdb): addresses are guest-physical from here on, or virtual again, which
 * outlives the connection.
 */
int rsp_set_physical(struct rsp *rsp, bool physical, struct error *err);
/* -EFAULT where there is no memory. */
int rsp_write(struct rsp *rsp, uint64_t address, const void *from, size_t size, struct error *err);
int rsp_read(struct rsp *rsp, uint64_t address, void *to, size_t size, struct error *err);

/* Registers of a vCPU, which QEMU calls thread vcpu + 1. */
struct rsp_registers {
	struct guest_regs regs;
	struct guest_sregs sregs; /* lstar and idt_base are not told: 0 */
	uint16_t cs;
};
int rsp_registers(struct rsp *rsp, unsigned int vcpu, struct rsp_registers *out, struct error *err);

/* Sets the general registers and RIP. */
int rsp_set_registers(struct rsp *rsp, unsigned int vcpu, const struct guest_regs *regs,
		      struct error *err);

/* Sets CR3 alone. Of a vCPU in 32-bit code its lower half only. */
int rsp_set_cr3(struct rsp *rsp, unsigned int vcpu, uint64_t cr3, struct error *err);

/* The reply to `g` of an x86-64 guest (QEMU, gdb-xml/i386-64bit.xml); pure. */
int rsp_parse_registers(const char *hex, struct rsp_registers *out, struct error *err);

/*
 * Breakpoints of software, at virtual addresses: under emulation QEMU knows them beside the code,
 * under KVM it writes INT3, with the page tables of the chosen vCPU. A debugger that goes away
 * leaves them. -EFAULT if QEMU cannot.
 */
int rsp_choose(struct rsp *rsp, unsigned int vcpu, struct error *err);
int rsp_breakpoint(struct rsp *rsp, uint64_t gva, bool on, struct error *err);
/* All that anybody has left. */
int rsp_forget_breakpoints(struct rsp *rsp, unsigned int nr_vcpus, struct error *err);

/*
 * Let all vCPUs run, until one is about to execute a breakpoint, rsp_interrupt(), or somebody else
 * stops them: that is told once. Nothing else may be asked meanwhile, as any byte stops them.
 */
struct rsp_stop {
	bool trap;      /* by a breakpoint */
	bool interrupt; /* by rsp_interrupt(), or as if */
	bool known;     /* of which vCPU */
	unsigned int vcpu;
};
enum { RSP_SIGNAL_INT = 2, RSP_SIGNAL_TRAP = 5 };
int rsp_continue(struct rsp *rsp, struct error *err);
int rsp_interrupt(struct rsp *rsp, struct error *err);
/* -ETIMEDOUT after RSP_TIMEOUT_MS; -ECONNRESET also if the guest is gone. */
int rsp_await_stop(struct rsp *rsp, struct rsp_stop *out, struct error *err);
/* Whether something has been received that nobody has looked at. */
bool rsp_has_more(const struct rsp *rsp);
/* A stop reply (GDB manual, Stop Reply Packets); pure. */
int rsp_parse_stop(const char *packet, struct rsp_stop *out, struct error *err);

#endif

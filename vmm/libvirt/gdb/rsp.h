/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_GDB_RSP_H
#define SONDE_VMM_LIBVIRT_GDB_RSP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * A client of GDB's remote serial protocol (GDB manual, appendix E) over a connected stream socket.
 * The guest is stopped, except between rsp_continue() and rsp_await_stop(). The peer is not
 * trusted: packets and waits are bounded.
 *
 * Packets have no numbers: a reply belongs to the oldest request without one. So the client keeps
 * in step: one request at a time, one acknowledgement for it, and then its reply. Whatever breaks
 * that order, a timeout first of all, loses the connection: a late reply could be taken for that
 * to another request, and the acknowledgement of a late reply would stop a running guest. From then
 * on all calls return that first error and send nothing (rsp_is_lost()). Open a new connection.
 *
 * Errors of all requests, which lose the connection: -ETIMEDOUT, -ECONNRESET, -EBADMSG (malformed
 * or not expected; the error's text has the packet). Others, as -EFAULT, do not.
 */
enum {
	RSP_MAX_PACKET = 16384, /* bytes of payload in a received packet */
	RSP_MAX_WRITE = 1024,   /* bytes of memory in a sent packet */
	RSP_TIMEOUT_MS = 20000, /* for each reply: QEMU may be starved of CPU time */
};

struct rsp {
	int fd;
	int timeout_ms;       /* RSP_TIMEOUT_MS, unless the caller changes it */
	unsigned int unacked; /* packets that the gdbstub has not acknowledged */
	struct error lost;    /* why the connection is lost; code 0: it is not */
	uint8_t buffer[4096];
	size_t at, end; /* the unread part of `buffer` */
};

/* `fd` stays the caller's. */
void rsp_init(struct rsp *rsp, int fd);
bool rsp_is_lost(const struct rsp *rsp);

/*
 * Send a packet and receive its reply, NUL-terminated. Stop notices that arrive before the reply
 * are dropped.
 */
int rsp_request(struct rsp *rsp, const char *packet, char reply[static RSP_MAX_PACKET + 1],
		struct error *err);

/*
 * QEMU's extension (docs/system/gdb): from now on, addresses of memory are guest-physical, or
 * virtual again. The mode outlives the connection.
 */
int rsp_set_physical(struct rsp *rsp, bool physical, struct error *err);
/* -EFAULT: no memory at `address`. -EOPNOTSUPP: the gdbstub does not know the request. */
int rsp_write(struct rsp *rsp, uint64_t address, const void *from, size_t size, struct error *err);
int rsp_read(struct rsp *rsp, uint64_t address, void *to, size_t size, struct error *err);

/* Registers of a vCPU. QEMU's thread number is vcpu + 1. -EFAULT: no such vCPU. */
struct rsp_registers {
	struct guest_regs regs;
	struct guest_sregs sregs; /* lstar and idt_base are not in the reply: 0 */
	uint16_t cs;
};
int rsp_registers(struct rsp *rsp, unsigned int vcpu, struct rsp_registers *out, struct error *err);

/* Sets the general registers and RIP, and reads all: somebody may have reset the machine before. */
int rsp_set_registers(struct rsp *rsp, unsigned int vcpu, const struct guest_regs *regs,
		      struct rsp_registers *after, struct error *err);

/* Sets CR3 only. QEMU sets just its lower half while the vCPU is in 32-bit code. */
int rsp_set_cr3(struct rsp *rsp, unsigned int vcpu, uint64_t cr3, struct error *err);

/* The reply to `g` of an x86-64 guest (QEMU, gdb-xml/i386-64bit.xml); pure. -EBADMSG: malformed. */
int rsp_parse_registers(const char *hex, struct rsp_registers *out, struct error *err);

/*
 * Software breakpoints, at virtual addresses. Under emulation QEMU keeps them beside the code.
 * Under KVM QEMU writes INT3, at the place that the chosen vCPU's page tables map. They stay when
 * the debugger disconnects. -EFAULT: QEMU cannot set or remove it.
 */
int rsp_choose(struct rsp *rsp, unsigned int vcpu, struct error *err);
int rsp_breakpoint(struct rsp *rsp, uint64_t gva, bool on, struct error *err);
/* Removes all breakpoints, those of earlier debuggers included. */
int rsp_forget_breakpoints(struct rsp *rsp, unsigned int nr_vcpus, struct error *err);

/*
 * Run all vCPUs until one is about to execute a breakpoint, rsp_interrupt() is called, or a user of
 * QEMU's monitor stops them. QEMU sends one stop notice. Nothing else may be sent meanwhile: any
 * byte stops the guest.
 */
struct rsp_stop {
	bool trap;      /* a breakpoint was hit */
	bool interrupt; /* rsp_interrupt(), or a received byte */
	bool known;     /* `vcpu` is valid */
	unsigned int vcpu;
};
enum { RSP_SIGNAL_INT = 2, RSP_SIGNAL_TRAP = 5 };
int rsp_continue(struct rsp *rsp, struct error *err);
int rsp_interrupt(struct rsp *rsp, struct error *err);
/* -ETIMEDOUT: no stop within rsp->timeout_ms. -ECONNRESET: also if the domain has ended. */
int rsp_await_stop(struct rsp *rsp, struct rsp_stop *out, struct error *err);
/* Whether received bytes are still unread; poll() does not report those. */
bool rsp_has_more(const struct rsp *rsp);
/* A stop reply (GDB manual, Stop Reply Packets); pure. -EBADMSG: it is none. */
int rsp_parse_stop(const char *packet, struct rsp_stop *out, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_GDB_STUB_H
#define SONDE_VMM_LIBVIRT_GDB_STUB_H

#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/gdb/rsp.h"

/*
 * QEMU's gdbstub of a stopped domain, over a socket pair of which QEMU is passed one end through
 * libvirt: nobody listens anywhere. Opened for the length of a stop and closed before the guest
 * runs, so that a tracer that dies leaves nothing behind; it stays open only while there are
 * breakpoints. QEMU has only one: a server that waits for a debugger is replaced.
 */
struct gdbstub {
	struct libvirt_domain *domain;
	struct rsp rsp;
	int fd; /* -1: closed */
};

/* -EBUSY: a debugger is connected to it, or another sonde. */
int gdbstub_check_free(struct libvirt_domain *domain, struct error *err);

/* The guest must be stopped: QEMU would stop it. -EBUSY: another sonde has it. Memory addresses are
 * guest-physical. */
int gdbstub_open(struct gdbstub *stub, struct libvirt_domain *domain, struct error *err);
/* The guest stays as it is. Also of one that is not open. */
void gdbstub_close(struct gdbstub *stub);
/* Let go of it without a word, which would stop a guest that runs: QEMU keeps its end. */
void gdbstub_drop(struct gdbstub *stub);

#endif

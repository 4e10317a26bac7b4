/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_GDB_STUB_H
#define SONDE_VMM_LIBVIRT_GDB_STUB_H

#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/gdb/rsp.h"

/*
 * QEMU's gdbstub of a stopped domain. The connection is a socket pair, of which libvirt passes one
 * end to QEMU; no socket listens. It is opened for the length of a stop and closed before the guest
 * runs, so that a tracer that dies leaves nothing behind. It stays open while there are
 * breakpoints. QEMU has one gdbstub: an administrator's is never replaced, even without a debugger.
 */
struct gdbstub {
	struct libvirt_domain *domain;
	struct rsp rsp;
	int fd; /* -1: closed */
};

/* -EBUSY: the gdbstub listens for a debugger, or a debugger or another sonde is connected. */
int gdbstub_check_free(struct libvirt_domain *domain, struct error *err);

/* The guest must be stopped; otherwise QEMU stops it. Addresses of memory are guest-physical.
 * -EBUSY: as above. */
int gdbstub_open(struct gdbstub *stub, struct libvirt_domain *domain, struct error *err);
/* The guest stays stopped. A stub that is not open may be closed, too. -errno: libvirt does not
 * answer, and it stays open. */
int gdbstub_close(struct gdbstub *stub, struct error *err);
/* Close only sonde's end, without sending a byte, which would stop a running guest. */
void gdbstub_drop(struct gdbstub *stub);

#endif

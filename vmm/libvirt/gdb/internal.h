/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_GDB_INTERNAL_H
#define SONDE_VMM_LIBVIRT_GDB_INTERNAL_H

#include <jansson.h>
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/gdb/rsp.h"

/* rsp.c: packets. It has the requests on memory; vcpu.c has those on vCPUs. */
int rsp_send(struct rsp *rsp, const char *packet, struct error *err);
/* Receives and acknowledges the next packet; NUL-terminated. */
int rsp_receive(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1], struct error *err);
/* The reply to what rsp_send() has sent, whatever it is. */
int rsp_await_reply(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1], struct error *err);
/* Drop stop notices: until all that was sent is acknowledged; and those that have been received. No
 * other packet may come. */
int rsp_await_acknowledgement(struct rsp *rsp, struct error *err);
int rsp_drop_notices(struct rsp *rsp, struct error *err);
int rsp_give(struct rsp *rsp, const char *bytes, size_t size, struct error *err);

/* A request whose reply has to be OK. -EFAULT: the gdbstub refuses. -EOPNOTSUPP: it does not know
 * the request. */
int rsp_expect_ok(struct rsp *rsp, const char *packet, struct error *err);

/* The connection is lost, for this reason: "WHAT in a gdbstub packet: 'PACKET'". Returns -code. */
int rsp_lose(struct rsp *rsp, struct error *err, int code, const char *what, const char *packet);

/* The label of sonde's character device. */
#define GDBSTUB_CHARDEV "sonde-gdb"

/* owner.c: -EBUSY if the gdbstub has a server that is not sonde's, with or without a debugger.
 * `devices` is the "return" value of query-chardev. A device that is in use, and not known to be
 * used by another part of QEMU, counts as the gdbstub's. */
int gdbstub_check_others(struct libvirt_domain *domain, const json_t *devices, struct error *err);

#endif

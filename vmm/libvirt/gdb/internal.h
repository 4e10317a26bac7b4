/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_GDB_INTERNAL_H
#define SONDE_VMM_LIBVIRT_GDB_INTERNAL_H

#include "vmm/libvirt/gdb/rsp.h"

/* Packets, for what is asked with them: rsp.c memory, rsp-vcpu.c registers, breakpoints, running.
 */
int rsp_send(struct rsp *rsp, const char *packet, struct error *err);
/* The next packet, acknowledged and NUL-terminated. */
int rsp_receive(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1], struct error *err);
/* The next byte, or a negative errno. */
int rsp_take(struct rsp *rsp, struct error *err);
int rsp_give(struct rsp *rsp, const char *bytes, size_t size, struct error *err);

/* A request whose reply is OK; -EFAULT for its errors. */
int rsp_expect_ok(struct rsp *rsp, const char *packet, struct error *err);

#endif

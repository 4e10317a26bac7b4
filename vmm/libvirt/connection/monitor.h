/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_MONITOR_H
#define SONDE_VMM_LIBVIRT_CONNECTION_MONITOR_H

#include <jansson.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"

/* Commands for a domain's QEMU, sent through libvirt. Each marks the domain as tainted. */

/*
 * Run a QMP command. `arguments` is an object, whose reference the call takes over, or NULL. A
 * descriptor `fd` >= 0 is passed to QEMU. The caller json_decref()s *result, the "return" value;
 * `result` may be NULL. -EREMOTEIO: QEMU's error, with its text. -EPROTO: a malformed reply.
 */
int libvirt_qmp(struct libvirt_domain *domain, const char *command, json_t *arguments, int fd,
		json_t **result, struct error *err);

/* Run a command of the human monitor. The caller free()s *reply, at most LIBVIRT_HMP_MAX bytes. */
enum { LIBVIRT_HMP_MAX = 4 << 20 };
int libvirt_hmp(struct libvirt_domain *domain, const char *command, char **reply,
		struct error *err);

/* Whether KVM runs the domain's vCPUs; otherwise QEMU emulates them. */
int libvirt_domain_has_kvm(struct libvirt_domain *domain, bool *out, struct error *err);

/*
 * Whether this connection can pass descriptors to QEMU, which the gdbstub needs. Check it before
 * the domain is stopped. Changes nothing. -ENOTSUP: it cannot; -EACCES: not allowed.
 */
int libvirt_domain_check_files(struct libvirt_domain *domain, struct error *err);

/* libvirt_reply_registers() of the domain, which keeps running. Errors also as libvirt_hmp(). */
int libvirt_read_registers(struct libvirt_domain *domain, struct guest_sregs *out, unsigned int n,
			   struct error *err);

#endif

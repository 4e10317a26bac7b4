/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_MONITOR_H
#define SONDE_VMM_LIBVIRT_CONNECTION_MONITOR_H

#include <jansson.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"

/* A domain's QEMU monitors, reached through libvirt. */

/*
 * A QMP command, with its arguments (an object, taken over, or NULL). *result is its "return"
 * value, to be json_decref()ed, and may be NULL if nobody wants it. `fd` >= 0 is passed along.
 * -EPROTO for replies that are none, -EREMOTEIO with QEMU's text for its errors.
 */
int libvirt_qmp(struct libvirt_domain *domain, const char *command, json_t *arguments, int fd,
		json_t **result, struct error *err);

/* A command of the human monitor; *reply is to be free()d, and at most LIBVIRT_HMP_MAX bytes. */
enum { LIBVIRT_HMP_MAX = 4 << 20 };
int libvirt_hmp(struct libvirt_domain *domain, const char *command, char **reply,
		struct error *err);

/* Whether its vCPUs run by KVM: else QEMU emulates them. */
int libvirt_domain_has_kvm(struct libvirt_domain *domain, bool *out, struct error *err);

/* Whether QEMU can be given descriptors through this connection, as its gdbstub needs one: better
 * known before the domain is stopped. Nothing is changed. */
int libvirt_domain_check_files(struct libvirt_domain *domain, struct error *err);

/* What libvirt_reply_registers() gives, of a domain, which runs on meanwhile. Errors also as
 * libvirt_hmp(). */
int libvirt_read_registers(struct libvirt_domain *domain, struct guest_sregs *out, unsigned int n,
			   struct error *err);

#endif

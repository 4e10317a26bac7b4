/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_REGISTERS_H
#define SONDE_VMM_LIBVIRT_BACKEND_REGISTERS_H

#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"

/*
 * What `info registers -a` says of vCPUs 0 to n - 1 (QEMU, target/i386/cpu-dump.c): cr0, cr3, cr4,
 * efer, cpl, halted. One that it does not name does not exist, as slots of vCPUs may be empty: all
 * of it is 0. Pure; -EPROTO if there is none at all, or one of which something is left out.
 */
int libvirt_parse_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err);

/* The same of a domain, which runs on meanwhile. Errors also as libvirt_hmp(). */
int libvirt_read_registers(struct libvirt_domain *domain, struct guest_sregs *out, unsigned int n,
			   struct error *err);

/* CR0.ET is always set (Intel SDM vol. 3, 2.5). */
static inline bool libvirt_vcpu_exists(const struct guest_sregs *sregs)
{
	return sregs->cr0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_REGISTERS_H
#define SONDE_VMM_LIBVIRT_REGISTERS_H

#include "introspect/guest.h"
#include "vmm/libvirt-domain.h"

/*
 * What `info registers -a` says of n vCPUs' paging (QEMU, target/i386/cpu-dump.c): cr0, cr3, cr4,
 * efer, cpl. Pure; -EPROTO if it does not tell of each.
 */
int libvirt_parse_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err);

/* The same of a domain, which runs on meanwhile. Errors also as libvirt_hmp(). */
int libvirt_read_registers(struct libvirt_domain *domain, struct guest_sregs *out, unsigned int n,
			   struct error *err);

#endif

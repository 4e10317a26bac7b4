/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_DEVICES_H
#define SONDE_VMM_LIBVIRT_BACKEND_DEVICES_H

#include "vmm/libvirt/connection/domain.h"

/*
 * Whether QEMU survives that a device with memory comes or goes: 0, or -ENOTSUP and why not. Of a
 * vCPU that was unplugged from an emulated domain, QEMU 7.2 keeps what is told of changes of the
 * memory map (softmmu/physmem.c, tcg_commit(), which uses the vCPU's freed memory), and dies.
 */
int libvirt_devices_may_change(struct libvirt_domain *domain, struct error *err);

#endif

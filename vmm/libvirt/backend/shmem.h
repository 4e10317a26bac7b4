/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_SHMEM_H
#define SONDE_VMM_LIBVIRT_BACKEND_SHMEM_H

#include <stdbool.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/journal/journal.h"

/*
 * Scratch memory in a running domain: a hot-plugged <shmem> device (QEMU's ivshmem-plain). The
 * guest's PCI code assigns an address to its BAR 2 without any driver. Sonde maps the same file.
 */
enum { LIBVIRT_SHMEM_BYTES = 2 << 20 }; /* the most that fits the window of a default root port */

/*
 * Plug it into a running domain. Its file is first noted in `journal`, if that is not NULL. *out is
 * where the guest has mapped it. If *tried, even after an error, the device may exist and
 * libvirt_shmem_unplug() is due.
 *
 * -ENOSPC: no free slot. -ETIMEDOUT: the guest does not handle PCI hot-plug. -EEXIST: the domain
 * has such a device. -ENOTSUP: QEMU would crash. -EPROTO: libvirt has reported an error, and has or
 * may have plugged it in.
 */
int libvirt_shmem_plug(struct libvirt_domain *domain, struct libvirt_journal *journal,
		       struct guest_region *out, bool *tried, struct error *err);
void libvirt_shmem_unmap(struct guest_region *region);

/* For users: where it would be plugged in. Changes nothing. Errors as libvirt_shmem_plug(). */
int libvirt_shmem_describe(struct libvirt_domain *domain, char *text, size_t size,
			   struct error *err);

/*
 * Unplug it and wait until the guest has released it. 0 also if there is none.
 *
 * -ETIMEDOUT: it goes when the guest next handles PCI hot-plug. -EBUSY: the domain is paused.
 * -ENOTSUP: QEMU would crash; the device stays until the domain ends.
 */
int libvirt_shmem_unplug(struct libvirt_domain *domain, struct error *err);

/* The file of a device that a dead tracer has made, and may not have plugged in: its journal's. */
void libvirt_shmem_remove_file(const char *name);

/* Where the guest has mapped it. -EAGAIN: nowhere yet. -ENOENT: there is none. */
int libvirt_shmem_find(struct libvirt_domain *domain, struct libvirt_ram *out, struct error *err);

/* Whether the domain has such a device. */
int libvirt_shmem_present(struct libvirt_domain *domain, bool *out, struct error *err);
/* -EEXIST: it has. */
int libvirt_shmem_check_none(struct libvirt_domain *domain, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_SHMEM_H
#define SONDE_VMM_LIBVIRT_BACKEND_SHMEM_H

#include <stdbool.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/connection/reply.h"

/*
 * Memory of ours in a running domain: a hot-plugged <shmem> device (QEMU's ivshmem-plain), whose
 * second BAR the guest's PCI code maps by itself, with no driver, and whose file we map too.
 */
enum { LIBVIRT_SHMEM_BYTES = 2 << 20 }; /* as much as fits the window of a default root port */

/*
 * The domain must run. *out is where the guest has it. -ENOSPC: no free slot that takes it;
 * -ETIMEDOUT: the guest does not serve its PCI hot-plug; -EEXIST: a device of ours is there;
 * -ENOTSUP: QEMU would not survive it.
 * *tried, also after an error: there may be one now, and libvirt_shmem_unplug() is due.
 */
int libvirt_shmem_plug(struct libvirt_domain *domain, struct guest_region *out, bool *tried,
		       struct error *err);
void libvirt_shmem_unmap(struct guest_region *region);

/* For people: where it would be plugged in; nothing is changed. Errors as libvirt_shmem_plug(). */
int libvirt_shmem_describe(struct libvirt_domain *domain, char *text, size_t size,
			   struct error *err);

/* Take it out again and wait until the guest has let it go; 0 also if there is none. -ETIMEDOUT:
 * it will go when the guest next serves its PCI hot-plug. -EBUSY: not while the domain is paused.
 * -ENOTSUP: QEMU would not survive it, the device stays for as long as the domain runs. */
int libvirt_shmem_unplug(struct libvirt_domain *domain, struct error *err);

/* Where the guest has it; -EAGAIN while it has not mapped it, -ENOENT: there is none. */
int libvirt_shmem_find(struct libvirt_domain *domain, struct libvirt_ram *out, struct error *err);

/* Whether the domain has such a device. */
int libvirt_shmem_present(struct libvirt_domain *domain, bool *out, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_SLOT_H
#define SONDE_VMM_LIBVIRT_BACKEND_SLOT_H

#include <stddef.h>
#include "formats/base/error.h"

/*
 * Where a PCI device can be plugged into a running domain, and which <shmem> devices it has, by its
 * XML. libvirt writes one line for each element, indented by two for each level, with single quotes
 * (libvirt, docs/formatdomain.rst). Text that users choose, such as names, contains no `<`, and
 * their <metadata> is indented more deeply than devices. Pure.
 */

/* The name of the next <shmem> device after `at`; it ends at a quote. NULL: no more. */
const char *libvirt_next_shmem(const char *at);

/* The bus of the next empty PCIe root port after `bus` (0: the first). 0: no more. */
unsigned int libvirt_next_root_port(const char *xml, unsigned int bus);

/* For users: where libvirt will put a conventional PCI device. -ENOSPC: nowhere. */
int libvirt_slot_describe(const char *xml, char *text, size_t size, struct error *err);

#endif

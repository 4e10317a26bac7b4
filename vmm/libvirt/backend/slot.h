/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_SLOT_H
#define SONDE_VMM_LIBVIRT_BACKEND_SLOT_H

#include <stddef.h>
#include "formats/base/error.h"

/*
 * Where a PCI device can be plugged into a running domain, and what has been, from its XML as
 * libvirt writes it: with one line for each element, indented by two for each level, and single
 * quotes (libvirt, docs/formatdomain.rst). People's own text in it, a name or a description, has no
 * `<`, and their <metadata> is indented more deeply than devices are. Pure.
 */

/* The name of the next <shmem> device behind `at`, which runs up to a quote. NULL: no more. */
const char *libvirt_next_shmem(const char *at);

/* The next empty PCIe root port behind `bus` (0: the first): its bus. 0: there is none. */
unsigned int libvirt_next_root_port(const char *xml, unsigned int bus);

/* For people: where libvirt will put a conventional PCI device. -ENOSPC: nowhere. */
int libvirt_slot_describe(const char *xml, char *text, size_t size, struct error *err);

#endif

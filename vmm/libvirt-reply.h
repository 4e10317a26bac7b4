/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_REPLY_H
#define SONDE_VMM_LIBVIRT_REPLY_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/error.h"

/*
 * What QEMU answers, which is not to be trusted more than the guest. Pure functions over text of
 * `size` bytes.
 */

/*
 * A reply of QMP (QEMU, docs/interop/qmp-spec): its "return" value, to be json_decref()ed; `result`
 * may be NULL. -EREMOTEIO with the text of an error reply, -EPROTO for anything else.
 */
int libvirt_reply_parse(const char *text, size_t size, json_t **result, struct error *err);

/* A range of RAM in the flat view of a guest's physical memory. */
struct libvirt_ram {
	uint64_t gpa, size;
	char name[64]; /* of the memory region, such as pc.ram */
};

/*
 * The RAM ranges of `info mtree -f`, those of address space "memory", in the order of their
 * addresses (QEMU, softmmu/memory.c, mtree_print_flatview): not read-only ones. Returns their
 * number; -EPROTO if there are none, more than `max`, overlapping or absurd ones.
 */
int libvirt_reply_ram(const char *text, size_t size, struct libvirt_ram *out, size_t max,
		      struct error *err);

/* The address in `gpa2hva`'s reply; -EPROTO if there is none. */
int libvirt_reply_hva(const char *text, size_t size, uint64_t *hva, struct error *err);

#endif

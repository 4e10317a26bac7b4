/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_REPLY_H
#define SONDE_VMM_LIBVIRT_CONNECTION_REPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * What QEMU answers, which is not to be trusted more than the guest. Pure functions over text of
 * `size` bytes.
 */

/*
 * A reply of QMP (QEMU, docs/interop/qmp-spec): its "return" value, to be json_decref()ed; `result`
 * may be NULL. -EREMOTEIO with the text of an error reply, -EPROTO for anything else.
 */
int libvirt_reply_parse(const char *text, size_t size, json_t **result, struct error *err);

/* A range of RAM in a guest's physical memory. */
struct libvirt_ram {
	uint64_t gpa, size;
};

/*
 * The RAM of a PC in `info mtree` (QEMU, softmmu/memory.c, mtree_print_mr; hw/i386/pc.c names it):
 * below and above 4 GiB, and what is plugged in (DIMMs), without what lies under video memory and
 * firmware. In the order of addresses, at most LIBVIRT_MAX_RAM. Not in `info mtree -f`, whose every
 * use in QEMU 7.2 keeps the devices of the moment from ever being unplugged. Returns their number;
 * -EPROTO if there are none, overlapping or absurd ones.
 */
enum { LIBVIRT_MAX_RAM = 8 };
int libvirt_reply_ram(const char *text, size_t size, struct libvirt_ram out[LIBVIRT_MAX_RAM],
		      struct error *err);

/* Of how many vCPUs `info mtree` tells memories, those unplugged included that QEMU has not
 * forgotten. */
size_t libvirt_reply_vcpu_memories(const char *text, size_t size);

/*
 * Where a PCI device's memory BAR is mapped, in the "return" value of query-pci: -ENOENT if there
 * is no such device or BAR, -EAGAIN while the guest has not mapped it.
 */
int libvirt_reply_bar(const json_t *reply, const char *qdev_id, int bar, struct libvirt_ram *out,
		      struct error *err);

/* How many vCPUs there can be, in the "return" value of query-hotpluggable-cpus; 0: absurd. */
size_t libvirt_reply_vcpu_slots(const json_t *reply);

/* Whether somebody is at the other end of a character device, in the "return" value of
 * query-chardev. */
bool libvirt_reply_connected(const json_t *reply, const char *label);

/* Of which architecture vCPUs are, in the "return" value of query-cpus-fast; "" if it is not told.
 */
const char *libvirt_reply_target(const json_t *reply);

/* The address in `gpa2hva`'s reply; -EPROTO if there is none. */
int libvirt_reply_hva(const char *text, size_t size, uint64_t *hva, struct error *err);

/*
 * What `info registers -a` says of vCPUs 0 to n - 1 (QEMU, target/i386/cpu-dump.c): cr0, cr3, cr4,
 * efer, cpl, halted. One that it does not name does not exist, as slots of vCPUs may be empty: all
 * of it is 0. Pure; -EPROTO if there is none at all, or one of which something is left out.
 */
int libvirt_reply_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err);

/* CR0.ET is always set (Intel SDM vol. 3, 2.5). */
static inline bool libvirt_vcpu_exists(const struct guest_sregs *sregs)
{
	return sregs->cr0;
}

#endif

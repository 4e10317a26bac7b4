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
 * Parsers of QEMU's replies: qmp-reply.c for JSON, hmp-reply.c for text of the human monitor.
 * QEMU is trusted no more than the guest: a guest may have taken it over. All are pure; `size` is
 * in bytes.
 */

/*
 * The "return" value of a QMP reply (QEMU, docs/interop/qmp-spec). The caller json_decref()s
 * *result; `result` may be NULL. -EREMOTEIO: an error reply, with its text. -EPROTO: anything else.
 */
int libvirt_reply_parse(const char *text, size_t size, json_t **result, struct error *err);

/* A range of guest-physical memory. */
struct libvirt_ram {
	uint64_t gpa, size;
};

/*
 * The RAM of a PC in the text of `info mtree` (QEMU, softmmu/memory.c, mtree_print_mr;
 * hw/i386/pc.c names the ranges): RAM below and above 4 GiB and DIMMs, without the part that video
 * memory and firmware hide. Sorted by address. Returns the number of ranges, at most
 * LIBVIRT_MAX_RAM. -EPROTO: no range, overlapping ranges, impossible addresses.
 *
 * Never send `info mtree -f`: in QEMU 7.2 each use makes every device that is present impossible
 * to unplug.
 */
enum { LIBVIRT_MAX_RAM = 8 };
int libvirt_reply_ram(const char *text, size_t size, struct libvirt_ram out[LIBVIRT_MAX_RAM],
		      struct error *err);

/* The number of vCPU address spaces in the text of `info mtree`. Unplugged vCPUs whose address
 * space QEMU still keeps are included. */
size_t libvirt_reply_vcpu_memories(const char *text, size_t size);

/*
 * Where the guest has mapped a PCI device's memory BAR; `reply` is the "return" value of query-pci.
 * -ENOENT: no such device or BAR. -EAGAIN: the guest has not mapped it. -EPROTO: an impossible
 * address.
 */
int libvirt_reply_bar(const json_t *reply, const char *qdev_id, int bar, struct libvirt_ram *out,
		      struct error *err);

/* The number of vCPU slots; `reply` is the "return" value of query-hotpluggable-cpus. 0: malformed.
 */
size_t libvirt_reply_vcpu_slots(const json_t *reply);

/* The state of a character device; `reply` is the "return" value of query-chardev. */
enum libvirt_chardev {
	LIBVIRT_CHARDEV_NONE,      /* no such device */
	LIBVIRT_CHARDEV_LISTENS,   /* it has no peer */
	LIBVIRT_CHARDEV_CONNECTED, /* it has a peer */
};
enum libvirt_chardev libvirt_reply_chardev(const json_t *reply, const char *label);
/* The label of entry i of the same reply, if something in QEMU uses the device: a device of the
 * guest, a monitor, the gdbstub. Else NULL. */
const char *libvirt_reply_frontend(const json_t *reply, size_t i);
bool libvirt_reply_has_frontend(const json_t *reply, const char *label);

/* The architecture of the vCPUs, as "x86_64"; `reply` is the "return" value of query-cpus-fast.
 * "": unknown. */
const char *libvirt_reply_target(const json_t *reply);

/* The address in the text of `gpa2hva`. -EPROTO: none. */
int libvirt_reply_hva(const char *text, size_t size, uint64_t *hva, struct error *err);

/*
 * Registers of vCPUs 0 to n - 1 in the text of `info registers -a` (QEMU, target/i386/cpu-dump.c):
 * cr0, cr3, cr4, efer, cpl, halted. A vCPU that the text does not name does not exist (its slot is
 * empty); its registers are all 0. -EPROTO: no vCPU at all, or a register is missing.
 */
int libvirt_reply_registers(const char *text, size_t size, struct guest_sregs *out, unsigned int n,
			    struct error *err);

/* CR0.ET is always set (Intel SDM vol. 3, 2.5). */
static inline bool libvirt_vcpu_exists(const struct guest_sregs *sregs)
{
	return sregs->cr0;
}

#endif

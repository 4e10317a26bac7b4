/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_DUMP_H
#define SONDE_INTROSPECT_GUEST_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * A guest that does not run: its memory comes from files (QEMU's `pmemsave`) or buffers, and its
 * registers from the caller. Memory is writable; the files never change (private mappings).
 */
struct dump_guest;

/* nr_vcpus vCPUs with all registers 0 and no memory yet. *out is owned by the caller. */
int dump_guest_create(unsigned int nr_vcpus, struct dump_guest **out, struct error *err);
/* Unmaps the files; the buffers stay the caller's. NULL-safe. */
void dump_guest_destroy(struct dump_guest *dump);

/* The guest itself; valid until dump_guest_destroy(). */
struct guest *dump_guest(struct dump_guest *dump);

enum dump_access {
	DUMP_MAPPED,   /* regions have an hva */
	DUMP_UNMAPPED, /* hva NULL: all access goes through struct guest_memory_ops */
};

/* Add RAM at gpa: `size` bytes that outlive the guest, or a whole file. Not while the guest is in
 * use. -EEXIST: it overlaps other RAM; -EOVERFLOW: it ends beyond 2^52; -ENOSPC: too many ranges.
 */
int dump_guest_add_buffer(struct dump_guest *dump, uint64_t gpa, void *bytes, size_t size,
			  enum dump_access access, struct error *err);
int dump_guest_add_file(struct dump_guest *dump, uint64_t gpa, const char *path,
			enum dump_access access, struct error *err);

/* -EINVAL if there is no such vCPU. */
int dump_guest_set_vcpu(struct dump_guest *dump, unsigned int vcpu, const struct guest_regs *regs,
			const struct guest_sregs *sregs, struct error *err);

#endif

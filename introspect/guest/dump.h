/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_DUMP_H
#define SONDE_INTROSPECT_GUEST_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * A guest that does not run: memory from files (QEMU's `pmemsave`) or from buffers, and vCPU
 * registers as given. Its memory is writable, the files never change (private mappings).
 */
struct dump_guest;

/* nr_vcpus vCPUs with all registers 0 and no memory yet. *out is owned by the caller. */
int dump_guest_create(unsigned int nr_vcpus, struct dump_guest **out, struct error *err);
/* Unmaps the files; buffers stay the caller's. NULL-safe. */
void dump_guest_destroy(struct dump_guest *dump);

/* The guest itself; valid until dump_guest_destroy(). */
struct guest *dump_guest(struct dump_guest *dump);

enum dump_access {
	DUMP_MAPPED,   /* regions have an hva */
	DUMP_UNMAPPED, /* hva NULL: all access goes through phys_read and phys_write */
};

/* Add RAM at gpa: `size` bytes that outlive the guest, or a whole file. Not while the guest is in
 * use. -EEXIST if it overlaps RAM that is there, -EOVERFLOW beyond 2^52, -ENOSPC too many. */
int dump_guest_add_buffer(struct dump_guest *dump, uint64_t gpa, void *bytes, size_t size,
			  enum dump_access access, struct error *err);
int dump_guest_add_file(struct dump_guest *dump, uint64_t gpa, const char *path,
			enum dump_access access, struct error *err);

/* -EINVAL if there is no such vCPU. */
int dump_guest_set_vcpu(struct dump_guest *dump, unsigned int vcpu, const struct guest_regs *regs,
			const struct guest_sregs *sregs, struct error *err);

#endif

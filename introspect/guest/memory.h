/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_MEMORY_H
#define SONDE_INTROSPECT_GUEST_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

struct guest;

/* One range of guest RAM. hva is its host mapping, NULL where memory cannot be mapped. */
struct guest_region {
	uint64_t gpa;
	uint64_t size;
	uint8_t *hva;
};

typedef int guest_write_fn(struct guest *guest, uint64_t gpa, const void *from, size_t size,
			   struct error *err);

/* A backend's guest-physical memory. 0 or a negative errno with *err set. Any thread. */
struct guest_memory_ops {
	/*
	 * Guest RAM, sorted by gpa, then the scratch memory. The array is the guest's and stays
	 * valid while the guest exists. Scratch memory comes and goes; RAM changes in follow()
	 * only.
	 */
	int (*regions)(struct guest *guest, const struct guest_region **out, size_t *n,
		       struct error *err);
	/* Find out what the RAM is now: some may have been plugged in or out. After an error it is
	 * what it was. NULL: it never changes. */
	int (*follow)(struct guest *guest, struct error *err);
	/* [gpa, gpa + size) lies in one region. NULL if every region has an hva. */
	int (*read)(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err);
	/* Likewise. Only with GUEST_CAP_WRITE. */
	guest_write_fn *write;
	/* As write(), of bytes that are the guest's own from then on: nobody takes them back. NULL:
	 * nobody takes back what write() has written. */
	guest_write_fn *give;
};

/*
 * GUEST_CAP_SCRATCH: memory that Sonde adds above guest RAM, zeroed and shared with the host. The
 * guest reaches it only through page table entries that Sonde writes. The guest is stopped by the
 * caller of both.
 */
struct guest_scratch_ops {
	/* gpa and size are multiples of 2 MiB; size is at most 256 MiB. -ENOSPC: no place left. */
	int (*add)(struct guest *guest, size_t size, struct guest_region *out, struct error *err);
	/* When it has returned, no vCPU reaches the memory any more, not even through a stale TLB
	 * entry. */
	int (*remove)(struct guest *guest, const struct guest_region *scratch, struct error *err);
	/* With the guest stopped: other code stands in this part of the memory than what vCPUs may
	 * have executed there, and they are to execute that. NULL: they do by themselves. */
	int (*renew)(struct guest *guest, const struct guest_region *code, struct error *err);
};

/* Read or write guest-physical memory, across regions. -EFAULT (with the address) if any byte is
 * not guest RAM: then nothing was written. -EROFS without GUEST_CAP_WRITE. */
int guest_phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err);
guest_write_fn guest_phys_write;
/* Likewise, of data that the guest goes on with, such as a return address on a task's stack: it is
 * not put back when tracing ends, nor by a recovery. */
guest_write_fn guest_phys_give;

/* Host address of [gpa, gpa + size) if it is mapped RAM of one region, else NULL. */
void *guest_phys_hva(struct guest *guest, uint64_t gpa, size_t size);

/*
 * Around many reads: if each would stop the guest (GUEST_STOPS_TO_READ), it is stopped once for all
 * of them. `ret` is the result of what came in between; an error there is returned before one of
 * the resume. Nothing in between may wait for a disk, which may hang.
 */
int guest_hold_to_read(struct guest *guest, struct error *err);
int guest_release(struct guest *guest, int ret, struct error *err);

#endif

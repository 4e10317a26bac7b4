/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_MEMORY_H
#define SONDE_VMM_LIBVIRT_BACKEND_MEMORY_H

#include <pthread.h>
#include <sys/types.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/connection/reply.h"

/*
 * Reads a domain's RAM: from its shared backing file, else from the QEMU process's memory
 * (/proc/PID/mem). If neither is readable, or QEMU does not say where in it the RAM is, the caller
 * has to use the gdbstub, which stops the guest. RAM is never mapped: reading a page that the guest
 * has not touched yet through a mapping would allocate it. Writes have to go through QEMU, which
 * has to know of changed code (gdb/stub.h).
 */
enum { LIBVIRT_MAX_REGIONS = 64 }; /* a range of RAM may consist of several: NUMA nodes, DIMMs */

/* What the RAM is at one time. */
struct libvirt_table {
	struct guest_region
		regions[LIBVIRT_MAX_REGIONS + 1]; /* RAM, then the scratch memory if it is in use */
	struct libvirt_source {
		int fd; /* mem_fd, or the region's backing file */
		uint64_t offset;
	} sources[LIBVIRT_MAX_REGIONS]; /* of the RAM */
	size_t nr_ram, nr;              /* nr is atomic */
	struct libvirt_table *older;
};

struct libvirt_memory {
	struct libvirt_table *table; /* atomic; older ones stay, as someone may be reading them */
	pthread_rwlock_t lock;       /* sources are read; or the table is replaced or changed */
	pid_t qemu;
	int mem_fd;      /* /proc/PID/mem, -1: not needed */
	bool by_stub;    /* libvirt_memory_read() cannot be used */
	bool with_shmem; /* a plugged scratch memory device counts as RAM */
	char how[160];   /* for users: how it is read, and why so */
};

/* `with_shmem`: a plugged scratch memory device (shmem.h) counts as RAM, if QEMU says where it is.
 */
int libvirt_memory_open(struct libvirt_memory *memory, struct libvirt_domain *domain,
			bool with_shmem, struct error *err);
void libvirt_memory_close(struct libvirt_memory *memory);

/* Ask QEMU again what the RAM is: some may have been plugged in or out. After an error it is what
 * it was. Any thread. */
int libvirt_memory_follow(struct libvirt_memory *memory, struct libvirt_domain *domain,
			  struct error *err);

/* The RAM, then the scratch memory. The array stays valid until libvirt_memory_close(). Any thread.
 */
void libvirt_memory_regions(struct libvirt_memory *memory, const struct guest_region **out,
			    size_t *n);
/* This is scratch memory from now on; NULL: there is none. Any thread. */
void libvirt_memory_set_scratch(struct libvirt_memory *memory, const struct guest_region *scratch);

/* [gpa, gpa + size) must lie in one region. -EFAULT: not RAM. -EIO: QEMU's memory is gone. */
int libvirt_memory_read(struct libvirt_memory *memory, uint64_t gpa, void *to, size_t size,
			struct error *err);

/* A line of /proc/PID/maps (proc(5)). False: malformed. Pure. */
struct libvirt_mapping {
	uint64_t start, end, offset, inode;
	unsigned int major, minor;
	bool shared;
};
bool libvirt_parse_mapping(const char *line, struct libvirt_mapping *out);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_MEMORY_H
#define SONDE_VMM_LIBVIRT_BACKEND_MEMORY_H

#include <sys/types.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/connection/reply.h"

/*
 * A domain's RAM, to be read: from its shared backing file, or else the QEMU process's memory
 * (/proc/PID/mem), or where neither is ours to read by QEMU's gdbstub, while it is stopped. It is
 * never mapped: looking at memory that the guest has not touched yet would take it from the host.
 * Writes must go through QEMU, which has to know of them (gdbstub.h).
 */
enum { LIBVIRT_MAX_REGIONS = 64 }; /* a range of RAM may be several: NUMA nodes, DIMMs */

struct libvirt_memory {
	struct guest_region regions[LIBVIRT_MAX_REGIONS + 1]; /* one more for the owner's use */
	struct libvirt_source {
		int fd; /* mem_fd, or a backing file of this region's own */
		uint64_t offset;
	} sources[LIBVIRT_MAX_REGIONS];
	size_t nr_regions;
	pid_t qemu;
	int mem_fd;    /* /proc/PID/mem, -1: not needed */
	bool by_stub;  /* libvirt_memory_read() cannot read them */
	char how[160]; /* how it is read, and why so; for people */
};

/* `with_shmem`: also memory that some sonde has plugged in (libvirt-shmem.h). */
int libvirt_memory_open(struct libvirt_memory *memory, struct libvirt_domain *domain,
			bool with_shmem, struct error *err);
void libvirt_memory_close(struct libvirt_memory *memory);

/* The bytes of one region. */
int libvirt_memory_read(struct libvirt_memory *memory, uint64_t gpa, void *to, size_t size,
			struct error *err);

/* A line of /proc/PID/maps (proc(5)); pure. False if it is none. */
struct libvirt_mapping {
	uint64_t start, end, offset, inode;
	unsigned int major, minor;
	bool shared;
};
bool libvirt_parse_mapping(const char *line, struct libvirt_mapping *out);

#endif

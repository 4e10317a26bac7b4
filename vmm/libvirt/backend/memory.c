/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "vmm/libvirt/backend/shmem.h"
#include "vmm/libvirt/connection/monitor.h"

/* --- QEMU's address space -------------------------------------------------------------------- */

bool libvirt_parse_mapping(const char *line, struct libvirt_mapping *out)
{
	char flags[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &out->start,
		   &out->end, flags, &out->offset, &out->major, &out->minor, &out->inode) != 7)
		return false;
	out->shared = flags[3] == 's';
	return out->start < out->end;
}

/* The mapping that holds hva. */
static int find_mapping(pid_t pid, uint64_t hva, struct libvirt_mapping *out, struct error *err)
{
	char path[64], line[512];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return error_set(err, EACCES, "cannot read the mappings of QEMU process %d: %s",
				 pid, strerror(errno));
	while (!found && fgets(line, sizeof(line), maps))
		found = libvirt_parse_mapping(line, out) && hva >= out->start && hva < out->end;
	fclose(maps);
	return found ? 0
		     : error_set(err, EPROTO, "QEMU has no mapping at the address that it reports");
}

/* Opens the mapped file again, through QEMU's own descriptor of it. */
static int open_backing(pid_t pid, const struct libvirt_mapping *mapping)
{
	char path[64];
	struct dirent *entry;
	int found = -1;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	while (fds && found < 0 && (entry = readdir(fds))) {
		struct stat st;
		char name[128];

		snprintf(name, sizeof(name), "/proc/%d/fd/%.20s", pid, entry->d_name);
		if (!stat(name, &st) && S_ISREG(st.st_mode) && st.st_ino == mapping->inode &&
		    major(st.st_dev) == mapping->major && minor(st.st_dev) == mapping->minor)
			found = open(name, O_RDONLY | O_CLOEXEC);
	}
	if (fds)
		closedir(fds);
	return found;
}

/* The shared file behind [offset, offset + size) of the mapping; -1: none that can be opened. */
static int open_shared(pid_t pid, uint64_t offset, uint64_t size,
		       const struct libvirt_mapping *mapping)
{
	struct stat st;
	int fd = mapping->shared ? open_backing(pid, mapping) : -1;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && size <= (uint64_t)st.st_size &&
	    offset <= (uint64_t)st.st_size - size)
		return fd;
	close(fd);
	return -1;
}

/* --- the guest's RAM ------------------------------------------------------------------------- */

static int ask_ram(struct libvirt_domain *domain, struct libvirt_ram *ram, struct error *err)
{
	char *reply;
	int n = libvirt_hmp(domain, "info mtree", &reply, err);

	if (n)
		return n;
	n = libvirt_reply_ram(reply, strlen(reply), ram, err);
	free(reply);
	return n;
}

static int ask_hva(struct libvirt_domain *domain, uint64_t gpa, uint64_t *hva, struct error *err)
{
	char command[48], *reply;
	int ret;

	snprintf(command, sizeof(command), "gpa2hva 0x%" PRIx64, gpa);
	ret = libvirt_hmp(domain, command, &reply, err);
	if (ret)
		return ret;
	ret = libvirt_reply_hva(reply, strlen(reply), hva, err);
	free(reply);
	return ret;
}

static int open_mem(struct libvirt_memory *m, struct error *err)
{
	char path[64];

	if (m->mem_fd >= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/mem", m->qemu);
	m->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (m->mem_fd < 0)
		return error_set(err, EACCES, "cannot read QEMU's memory: %s: run sonde as root",
				 strerror(errno));
	return 0;
}

static int open_source(struct libvirt_memory *m, uint64_t hva, uint64_t size,
		       const struct libvirt_mapping *mapping, struct libvirt_source *out,
		       struct error *err)
{
	uint64_t offset = mapping->offset + (hva - mapping->start);
	int ret;

	*out = (struct libvirt_source){open_shared(m->qemu, offset, size, mapping), offset};
	if (out->fd >= 0)
		return 0;
	ret = open_mem(m, err);
	*out = (struct libvirt_source){m->mem_fd, hva};
	return ret;
}

/* Makes a region of the first part of *ram, as far as one mapping reaches, and cuts it from *ram.
 */
static int add_region(struct libvirt_memory *m, struct libvirt_domain *domain,
		      struct libvirt_ram *ram, struct error *err)
{
	struct libvirt_mapping mapping;
	uint64_t hva, size;
	int ret = ask_hva(domain, ram->gpa, &hva, err);

	if (!ret)
		ret = find_mapping(m->qemu, hva, &mapping, err);
	if (!ret && m->nr_regions == LIBVIRT_MAX_REGIONS)
		ret = error_set(err, EPROTO, "the domain's memory has more than %d mappings",
				LIBVIRT_MAX_REGIONS);
	if (ret)
		return ret;
	size = mapping.end - hva < ram->size ? mapping.end - hva : ram->size;
	ret = open_source(m, hva, size, &mapping, &m->sources[m->nr_regions], err);
	if (ret)
		return ret;
	m->regions[m->nr_regions++] = (struct guest_region){.gpa = ram->gpa, .size = size};
	ram->gpa += size;
	ram->size -= size;
	return 0;
}

static int add_range(struct libvirt_memory *m, struct libvirt_domain *domain,
		     const struct libvirt_ram *range, struct error *err)
{
	struct libvirt_ram left = *range;
	int ret = 0;

	while (!ret && left.size)
		ret = add_region(m, domain, &left, err);
	return ret;
}

/* Adds the scratch memory device, if the guest has one. Without it the rest can be restored. */
static void ask_shmem(struct libvirt_domain *domain, struct libvirt_ram *ram, int *n)
{
	*n += !libvirt_shmem_find(domain, &ram[*n], NULL);
}

static int open_process(struct libvirt_memory *m, struct libvirt_domain *domain,
			const struct libvirt_ram *ram, int n, struct error *err)
{
	int ret = 0;

	m->qemu = domain->qemu.pid;
	if (!m->qemu)
		ret = error_set(err, ESRCH, "%s", domain->qemu.why.text);

	for (int i = 0; !ret && i < n; i++)
		ret = add_range(m, domain, &ram[i], err);
	if (!ret && m->mem_fd >= 0)
		snprintf(m->how, sizeof(m->how),
			 "/proc/%d/mem: QEMU shares no file with the domain's memory", m->qemu);
	else if (!ret)
		snprintf(m->how, sizeof(m->how), "a file shared by QEMU process %d", m->qemu);
	return ret;
}

static void leave_to_stub(struct libvirt_memory *m, const struct libvirt_ram *ram, int n,
			  const struct error *why)
{
	libvirt_memory_close(m);
	m->by_stub = true;
	for (int i = 0; i < n; i++)
		m->regions[m->nr_regions++] =
			(struct guest_region){.gpa = ram[i].gpa, .size = ram[i].size};
	snprintf(m->how, sizeof(m->how), "by QEMU's gdbstub: %.*s", 120, why->text);
}

int libvirt_memory_open(struct libvirt_memory *m, struct libvirt_domain *domain, bool with_shmem,
			struct error *err)
{
	struct libvirt_ram ram[LIBVIRT_MAX_RAM + 1];
	struct error why;
	int n, ret;

	*m = (struct libvirt_memory){.mem_fd = -1};
	n = ask_ram(domain, ram, err);
	if (n < 0)
		return n;
	if (with_shmem)
		ask_shmem(domain, ram, &n);
	ret = open_process(m, domain, ram, n, &why);
	if (ret == -ESRCH || ret == -EACCES || ret == -EPROTO) {
		leave_to_stub(m, ram, n, &why);
		return 0;
	}
	if (ret) {
		libvirt_memory_close(m);
		if (err)
			*err = why;
	}
	return ret;
}

void libvirt_memory_close(struct libvirt_memory *m)
{
	for (size_t i = 0; i < m->nr_regions && !m->by_stub; i++)
		if (m->sources[i].fd != m->mem_fd)
			close(m->sources[i].fd);
	if (m->mem_fd >= 0)
		close(m->mem_fd);
	*m = (struct libvirt_memory){.mem_fd = -1};
}

int libvirt_memory_read(struct libvirt_memory *m, uint64_t gpa, void *to, size_t size,
			struct error *err)
{
	for (size_t i = 0; i < m->nr_regions; i++) {
		const struct libvirt_source *source = &m->sources[i];
		uint64_t offset = gpa - m->regions[i].gpa;

		if (gpa < m->regions[i].gpa || offset >= m->regions[i].size)
			continue;
		if (pread(source->fd, to, size, (off_t)(source->offset + offset)) == (ssize_t)size)
			return 0;
		return error_set_at(err, EIO, gpa, "QEMU's memory is no longer readable");
	}
	return error_set_at(err, EFAULT, gpa, "not guest RAM");
}

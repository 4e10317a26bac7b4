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
		      struct libvirt_ram *ram, struct libvirt_table *t, struct error *err)
{
	struct libvirt_mapping mapping;
	uint64_t hva, size;
	int ret = ask_hva(domain, ram->gpa, &hva, err);

	if (!ret)
		ret = find_mapping(m->qemu, hva, &mapping, err);
	if (!ret && t->nr_ram == LIBVIRT_MAX_REGIONS)
		ret = error_set(err, EPROTO, "the domain's memory has more than %d mappings",
				LIBVIRT_MAX_REGIONS);
	if (ret)
		return ret;
	size = mapping.end - hva < ram->size ? mapping.end - hva : ram->size;
	ret = open_source(m, hva, size, &mapping, &t->sources[t->nr_ram], err);
	if (ret)
		return ret;
	t->regions[t->nr_ram++] = (struct guest_region){.gpa = ram->gpa, .size = size};
	ram->gpa += size;
	ram->size -= size;
	return 0;
}

static int add_range(struct libvirt_memory *m, struct libvirt_domain *domain,
		     const struct libvirt_ram *range, struct libvirt_table *t, struct error *err)
{
	struct libvirt_ram left = *range;
	int ret = 0;

	while (!ret && left.size)
		ret = add_region(m, domain, &left, t, err);
	return ret;
}

/* Adds the scratch memory device, if the guest has one. Without it the rest can be restored. */
static void ask_shmem(struct libvirt_domain *domain, struct libvirt_ram *ram, int *n)
{
	*n += !libvirt_shmem_find(domain, &ram[*n], NULL);
}

static void close_sources(const struct libvirt_memory *m, struct libvirt_table *t)
{
	for (size_t i = 0; i < t->nr_ram && !m->by_stub; i++)
		if (t->sources[i].fd != m->mem_fd)
			close(t->sources[i].fd);
}

static int open_process(struct libvirt_memory *m, struct libvirt_domain *domain,
			const struct libvirt_ram *ram, int n, struct libvirt_table *t,
			struct error *err)
{
	int ret = 0;

	m->qemu = domain->qemu.pid;
	if (!m->qemu)
		ret = error_set(err, ESRCH, "%s", domain->qemu.why.text);
	for (int i = 0; !ret && i < n; i++)
		ret = add_range(m, domain, &ram[i], t, err);
	if (!ret)
		return 0;
	close_sources(m, t);
	t->nr_ram = 0;
	return ret;
}

static void leave_to_stub(struct libvirt_memory *m, const struct libvirt_ram *ram, int n,
			  struct libvirt_table *t)
{
	m->by_stub = true;
	for (int i = 0; i < n; i++)
		t->regions[t->nr_ram++] =
			(struct guest_region){.gpa = ram[i].gpa, .size = ram[i].size};
}

/* As QEMU has it now. `first`: how it is read is not known yet. */
static int make_table(struct libvirt_memory *m, struct libvirt_domain *domain, bool first,
		      struct libvirt_table *t, struct error *err)
{
	struct libvirt_ram ram[LIBVIRT_MAX_RAM + 1];
	struct error why = {0};
	int n = ask_ram(domain, ram, err), ret = 0;

	if (n < 0)
		return n;
	if (m->with_shmem)
		ask_shmem(domain, ram, &n);
	if (!m->by_stub)
		ret = open_process(m, domain, ram, n, t, &why);
	if (m->by_stub || (first && (ret == -ESRCH || ret == -EACCES || ret == -EPROTO))) {
		if (first)
			snprintf(m->how, sizeof(m->how), "by QEMU's gdbstub: %.*s", 120, why.text);
		leave_to_stub(m, ram, n, t);
		ret = 0;
	}
	t->nr = t->nr_ram;
	if (ret && err)
		*err = why;
	return ret;
}

static void name_source(struct libvirt_memory *m)
{
	if (m->mem_fd >= 0)
		snprintf(m->how, sizeof(m->how),
			 "/proc/%d/mem: QEMU shares no file with the domain's memory", m->qemu);
	else
		snprintf(m->how, sizeof(m->how), "a file shared by QEMU process %d", m->qemu);
}

int libvirt_memory_open(struct libvirt_memory *m, struct libvirt_domain *domain, bool with_shmem,
			struct error *err)
{
	int ret;

	*m = (struct libvirt_memory){.mem_fd = -1, .with_shmem = with_shmem};
	pthread_rwlock_init(&m->lock, NULL);
	m->table = calloc(1, sizeof(*m->table));
	ret = m->table ? make_table(m, domain, true, m->table, err)
		       : error_set(err, ENOMEM, "out of memory");
	if (!ret && !m->by_stub)
		name_source(m);
	return ret;
}

void libvirt_memory_close(struct libvirt_memory *m)
{
	if (m->table)
		close_sources(m, m->table);
	while (m->table) {
		struct libvirt_table *older = m->table->older;

		free(m->table);
		m->table = older;
	}
	if (m->mem_fd >= 0)
		close(m->mem_fd);
	m->mem_fd = -1;
	pthread_rwlock_destroy(&m->lock);
}

/* --- what changes ----------------------------------------------------------------------------- */

static bool is_same_source(const struct libvirt_source *a, const struct libvirt_source *b)
{
	struct stat first, second;

	if (a->offset != b->offset)
		return false;
	return a->fd == b->fd || (!fstat(a->fd, &first) && !fstat(b->fd, &second) &&
				  first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

static bool is_same(const struct libvirt_memory *m, const struct libvirt_table *a,
		    const struct libvirt_table *b)
{
	bool same = a->nr_ram == b->nr_ram &&
		    !memcmp(a->regions, b->regions, a->nr_ram * sizeof(a->regions[0]));

	for (size_t i = 0; same && !m->by_stub && i < a->nr_ram; i++)
		same = is_same_source(&a->sources[i], &b->sources[i]);
	return same;
}

static void set_scratch(struct libvirt_table *t, const struct guest_region *scratch)
{
	if (scratch)
		t->regions[t->nr_ram] = *scratch;
	__atomic_store_n(&t->nr, t->nr_ram + !!scratch, __ATOMIC_RELEASE);
}

/* With the lock. The files of the older table are not read any more. */
static void replace(struct libvirt_memory *m, struct libvirt_table *t)
{
	struct libvirt_table *older = m->table;

	set_scratch(t, older->nr > older->nr_ram ? &older->regions[older->nr_ram] : NULL);
	t->older = older;
	__atomic_store_n(&m->table, t, __ATOMIC_RELEASE);
	close_sources(m, older);
}

int libvirt_memory_follow(struct libvirt_memory *m, struct libvirt_domain *domain,
			  struct error *err)
{
	struct libvirt_table *t = calloc(1, sizeof(*t));
	bool changed;
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	ret = make_table(m, domain, false, t, err);
	pthread_rwlock_wrlock(&m->lock);
	changed = !ret && !is_same(m, m->table, t);
	if (changed)
		replace(m, t);
	pthread_rwlock_unlock(&m->lock);
	if (changed)
		return 0;
	close_sources(m, t);
	free(t);
	return ret;
}

void libvirt_memory_set_scratch(struct libvirt_memory *m, const struct guest_region *scratch)
{
	pthread_rwlock_wrlock(&m->lock);
	set_scratch(m->table, scratch);
	pthread_rwlock_unlock(&m->lock);
}

/* --- what it is now --------------------------------------------------------------------------- */

void libvirt_memory_regions(struct libvirt_memory *m, const struct guest_region **out, size_t *n)
{
	const struct libvirt_table *t = __atomic_load_n(&m->table, __ATOMIC_ACQUIRE);

	*out = t->regions;
	*n = __atomic_load_n(&t->nr, __ATOMIC_ACQUIRE);
}

static int read_from(const struct libvirt_table *t, uint64_t gpa, void *to, size_t size,
		     struct error *err)
{
	for (size_t i = 0; i < t->nr_ram; i++) {
		const struct libvirt_source *source = &t->sources[i];
		uint64_t offset = gpa - t->regions[i].gpa;

		if (gpa < t->regions[i].gpa || offset >= t->regions[i].size)
			continue;
		if (pread(source->fd, to, size, (off_t)(source->offset + offset)) == (ssize_t)size)
			return 0;
		return error_set_at(err, EIO, gpa, "QEMU's memory is no longer readable");
	}
	return error_set_at(err, EFAULT, gpa, "not guest RAM");
}

int libvirt_memory_read(struct libvirt_memory *m, uint64_t gpa, void *to, size_t size,
			struct error *err)
{
	int ret;

	pthread_rwlock_rdlock(&m->lock);
	ret = read_from(m->table, gpa, to, size, err);
	pthread_rwlock_unlock(&m->lock);
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/guest/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_REGIONS = 16, MAX_VCPUS = 1024 };
#define GPA_LIMIT (1ull << 52)

struct dump_vcpu {
	struct guest_regs regs;
	struct guest_sregs sregs;
};

struct dump_guest {
	struct guest guest;
	struct guest_region regions[MAX_REGIONS];
	uint8_t *bytes[MAX_REGIONS]; /* of each region, mapped or not */
	bool is_file[MAX_REGIONS];
	size_t nr_regions;
	struct dump_vcpu *vcpus;
};

static struct dump_guest *from_guest(struct guest *guest)
{
	return (struct dump_guest *)((char *)guest - offsetof(struct dump_guest, guest));
}

static int dump_regions(struct guest *guest, const struct guest_region **out, size_t *n,
			struct error *err)
{
	struct dump_guest *dump = from_guest(guest);

	(void)err;
	*out = dump->regions;
	*n = dump->nr_regions;
	return 0;
}

/* memory.c has cut the range to one region. */
static uint8_t *locate(struct dump_guest *dump, uint64_t gpa, size_t size)
{
	for (size_t i = 0; i < dump->nr_regions; i++) {
		uint64_t offset = gpa - dump->regions[i].gpa;

		if (gpa >= dump->regions[i].gpa && offset < dump->regions[i].size &&
		    size <= dump->regions[i].size - offset)
			return dump->bytes[i] + offset;
	}
	return NULL;
}

static int dump_phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size,
			  struct error *err)
{
	const uint8_t *from = locate(from_guest(guest), gpa, size);

	if (!from)
		return error_set_at(err, EFAULT, gpa, "not in the dump");
	memcpy(to, from, size);
	return 0;
}

static int dump_phys_write(struct guest *guest, uint64_t gpa, const void *from, size_t size,
			   struct error *err)
{
	uint8_t *to = locate(from_guest(guest), gpa, size);

	if (!to)
		return error_set_at(err, EFAULT, gpa, "not in the dump");
	memcpy(to, from, size);
	return 0;
}

static struct dump_vcpu *find_vcpu(struct guest *guest, unsigned int vcpu)
{
	return vcpu < guest->nr_vcpus ? &from_guest(guest)->vcpus[vcpu] : NULL;
}

static int dump_get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			 struct error *err)
{
	const struct dump_vcpu *v = find_vcpu(guest, vcpu);

	if (!v)
		return error_set(err, EINVAL, "the dump has no vCPU %u", vcpu);
	*out = v->regs;
	return 0;
}

static int dump_set_regs(struct guest *guest, unsigned int vcpu, const struct guest_regs *regs,
			 struct error *err)
{
	struct dump_vcpu *v = find_vcpu(guest, vcpu);

	if (!v)
		return error_set(err, EINVAL, "the dump has no vCPU %u", vcpu);
	v->regs = *regs;
	return 0;
}

static int dump_get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			  struct error *err)
{
	const struct dump_vcpu *v = find_vcpu(guest, vcpu);

	if (!v)
		return error_set(err, EINVAL, "the dump has no vCPU %u", vcpu);
	*out = v->sregs;
	return 0;
}

/* A dump is always stopped. */
static int dump_stop_resume(struct guest *guest, struct error *err)
{
	(void)guest;
	(void)err;
	return 0;
}

static uint64_t dump_clock_ns(struct guest *guest)
{
	(void)guest;
	return 0;
}

static const struct guest_memory_ops memory_ops = {
	.regions = dump_regions, .read = dump_phys_read, .write = dump_phys_write};
static const struct guest_control_ops control_ops = {
	.stop = dump_stop_resume,
	.resume = dump_stop_resume,
	.get_regs = dump_get_regs,
	.set_regs = dump_set_regs,
	.get_sregs = dump_get_sregs,
};
static const struct guest_clock_ops clock_ops = {.now_ns = dump_clock_ns};

int dump_guest_create(unsigned int nr_vcpus, struct dump_guest **out, struct error *err)
{
	struct dump_guest *dump;

	if (nr_vcpus > MAX_VCPUS)
		return error_set(err, EINVAL, "%u vCPUs are more than %d", nr_vcpus, MAX_VCPUS);
	dump = calloc(1, sizeof(*dump));
	if (dump)
		dump->vcpus = calloc(nr_vcpus ? nr_vcpus : 1, sizeof(*dump->vcpus));
	if (!dump || !dump->vcpus) {
		free(dump);
		return error_set(err, ENOMEM, "out of memory");
	}
	dump->guest = (struct guest){.name = "dump",
				     .memory = &memory_ops,
				     .control = &control_ops,
				     .clock = &clock_ops,
				     .caps = GUEST_CAP_WRITE,
				     .nr_vcpus = nr_vcpus};
	*out = dump;
	return 0;
}

void dump_guest_destroy(struct dump_guest *dump)
{
	if (!dump)
		return;
	for (size_t i = 0; i < dump->nr_regions; i++)
		if (dump->is_file[i])
			munmap(dump->bytes[i], dump->regions[i].size);
	free(dump->vcpus);
	free(dump);
}

struct guest *dump_guest(struct dump_guest *dump)
{
	return &dump->guest;
}

static int check_new_region(const struct dump_guest *dump, uint64_t gpa, size_t size,
			    struct error *err)
{
	if (!size || gpa >= GPA_LIMIT || size > GPA_LIMIT - gpa)
		return error_set_at(err, EOVERFLOW, gpa, "%zu bytes of RAM do not fit there", size);
	if (dump->nr_regions == MAX_REGIONS)
		return error_set_at(err, ENOSPC, gpa, "more than %d RAM regions", MAX_REGIONS);
	for (size_t i = 0; i < dump->nr_regions; i++) {
		const struct guest_region *r = &dump->regions[i];

		if (gpa < r->gpa + r->size && r->gpa < gpa + size)
			return error_set_at(err, EEXIST, gpa, "overlaps other RAM");
	}
	return 0;
}

static int add_region(struct dump_guest *dump, const struct guest_region *region, bool is_file,
		      enum dump_access access, struct error *err)
{
	int ret = check_new_region(dump, region->gpa, region->size, err);
	size_t at = dump->nr_regions;

	if (ret)
		return ret;
	for (; at && dump->regions[at - 1].gpa > region->gpa; at--) {
		dump->regions[at] = dump->regions[at - 1];
		dump->bytes[at] = dump->bytes[at - 1];
		dump->is_file[at] = dump->is_file[at - 1];
	}
	dump->regions[at] = *region;
	dump->bytes[at] = region->hva;
	dump->is_file[at] = is_file;
	if (access == DUMP_UNMAPPED)
		dump->regions[at].hva = NULL;
	dump->nr_regions++;
	return 0;
}

int dump_guest_add_buffer(struct dump_guest *dump, uint64_t gpa, void *bytes, size_t size,
			  enum dump_access access, struct error *err)
{
	struct guest_region region = {.gpa = gpa, .size = size, .hva = bytes};

	return add_region(dump, &region, false, access, err);
}

static int map_file(const char *path, struct guest_region *region, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *bytes;
	int ret = 0;

	if (fd < 0 || fstat(fd, &st)) {
		ret = error_set(err, errno, "%s: %s", path, strerror(errno));
		goto out;
	}
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED) {
		ret = error_set(err, errno, "cannot map %s: %s", path, strerror(errno));
		goto out;
	}
	madvise(bytes, (size_t)st.st_size, MADV_DONTDUMP);
	region->hva = bytes;
	region->size = (uint64_t)st.st_size;
out:
	if (fd >= 0)
		close(fd);
	return ret;
}

int dump_guest_add_file(struct dump_guest *dump, uint64_t gpa, const char *path,
			enum dump_access access, struct error *err)
{
	struct guest_region region = {.gpa = gpa};
	int ret = map_file(path, &region, err);

	if (ret)
		return ret;
	ret = add_region(dump, &region, true, access, err);
	if (ret)
		munmap(region.hva, region.size);
	return ret;
}

int dump_guest_set_vcpu(struct dump_guest *dump, unsigned int vcpu, const struct guest_regs *regs,
			const struct guest_sregs *sregs, struct error *err)
{
	struct dump_vcpu *v = find_vcpu(&dump->guest, vcpu);

	if (!v)
		return error_set(err, EINVAL, "the dump has no vCPU %u", vcpu);
	v->regs = *regs;
	v->sregs = *sregs;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/memory/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t gib = 1 << 30;
static const uint64_t window_size = (uint64_t)SCRATCH_SLOTS * SCRATCH_MAX_SIZE;

void scratch_memory_init(struct scratch_memory *scratch, const struct kvm *kvm,
			 const struct guest_memory *memory, unsigned int phys_bits)
{
	const struct guest_region *last = &memory->regions[memory->nr_regions - 1];
	uint64_t end = last->gpa + last->size;
	uint64_t gpa = end < memory_high_gpa ? memory_high_gpa : (end + gib - 1) & ~(gib - 1);

	*scratch = (struct scratch_memory){.kvm = kvm,
					   .fd = -1,
					   .nr_ram = memory->nr_regions,
					   .nr_regions = memory->nr_regions};
	memcpy(scratch->regions, memory->regions, memory->nr_regions * sizeof(*memory->regions));
	if (phys_bits < 64 && gpa + window_size <= 1ull << phys_bits)
		scratch->gpa = gpa;
}

void scratch_memory_deinit(struct scratch_memory *scratch)
{
	if (scratch->hva)
		munmap(scratch->hva, window_size);
	if (scratch->fd >= 0)
		close(scratch->fd);
	scratch->hva = NULL;
	scratch->fd = -1;
	scratch->nr_regions = scratch->nr_ram = 0;
}

/* Address space only: the host provides a page when it is first touched. */
static int reserve(struct scratch_memory *scratch, struct error *err)
{
	int fd = memfd_create("sonde-scratch", MFD_CLOEXEC);
	uint8_t *hva = MAP_FAILED;
	int code;

	if (fd >= 0 && ftruncate(fd, (off_t)window_size) == 0)
		hva = mmap(NULL, window_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			   fd, 0);
	if (hva == MAP_FAILED) {
		code = errno;
		if (fd >= 0)
			close(fd);
		return error_set(err, code, "cannot reserve scratch memory: %s", strerror(code));
	}
	madvise(hva, window_size, MADV_DONTDUMP);
	scratch->fd = fd;
	scratch->hva = hva;
	for (size_t i = 0; i < SCRATCH_SLOTS; i++)
		scratch->regions[scratch->nr_ram + i] = (struct guest_region){
			.gpa = scratch->gpa + i * SCRATCH_MAX_SIZE,
			.hva = hva + i * SCRATCH_MAX_SIZE,
		};
	return 0;
}

static void set_size(struct scratch_memory *scratch, size_t slot, uint64_t size)
{
	size_t used = SCRATCH_SLOTS;

	__atomic_store_n(&scratch->regions[scratch->nr_ram + slot].size, size, __ATOMIC_RELEASE);
	while (used && !scratch->regions[scratch->nr_ram + used - 1].size)
		used--;
	__atomic_store_n(&scratch->nr_regions, scratch->nr_ram + used, __ATOMIC_RELEASE);
}

static unsigned int memslot(size_t slot)
{
	return (unsigned int)(SCRATCH_RAM_REGIONS + slot);
}

int scratch_memory_add(struct scratch_memory *scratch, uint64_t size, struct guest_region *out,
		       struct error *err)
{
	const struct guest_region *places = scratch->regions + scratch->nr_ram;
	size_t slot = 0;
	int ret = 0;

	if (!size || size % SCRATCH_ALIGN || size > SCRATCH_MAX_SIZE)
		return error_set(err, EINVAL,
				 "scratch memory of %" PRIu64
				 " bytes: not a multiple of 2 MiB up to 256 MiB",
				 size);
	if (!scratch->gpa)
		return error_set(err, ENOSPC,
				 "the guest has no physical addresses left above its RAM");
	if (!scratch->hva)
		ret = reserve(scratch, err);
	if (ret)
		return ret;
	while (slot < SCRATCH_SLOTS && places[slot].size)
		slot++;
	if (slot == SCRATCH_SLOTS)
		return error_set(err, ENOSPC, "the guest has %d scratch regions already",
				 SCRATCH_SLOTS);
	ret = kvm_set_memory(scratch->kvm, memslot(slot), places[slot].gpa, places[slot].hva, size,
			     err);
	if (ret)
		return ret;
	set_size(scratch, slot, size);
	*out = places[slot];
	return 0;
}

int scratch_memory_remove(struct scratch_memory *scratch, const struct guest_region *region,
			  struct error *err)
{
	const struct guest_region *places = scratch->regions + scratch->nr_ram;
	size_t slot = 0;
	int ret;

	while (slot < SCRATCH_SLOTS && !(places[slot].size && places[slot].gpa == region->gpa))
		slot++;
	if (slot == SCRATCH_SLOTS)
		return error_set_at(err, ENOENT, region->gpa, "no scratch memory at this address");
	ret = kvm_set_memory(scratch->kvm, memslot(slot), region->gpa, NULL, 0, err);
	if (ret)
		return ret;
	set_size(scratch, slot, 0);
	/* Frees the pages; the next region here reads as zeros. */
	if (fallocate(scratch->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(slot * SCRATCH_MAX_SIZE), SCRATCH_MAX_SIZE) < 0)
		return error_set(err, errno, "cannot clear scratch memory: %s", strerror(errno));
	return 0;
}

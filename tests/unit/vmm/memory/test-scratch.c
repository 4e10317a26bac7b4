/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scratch memory with a KVM that notes its memslots, and fails when it shall. */
#include "vmm/memory/scratch.h"

#include <string.h>
#include "tests/lib/core-dump.h"
#include "tests/lib/tap.h"
#include "tests/unit/vmm/ioctl-hook.h"

enum { MIB = 0x100000, SIZE = 2 * MIB };

static const struct kvm kvm = {.fd = -1, .vm_fd = -1};
static struct guest_memory memory;
static struct kvm_userspace_memory_region slots[8];
static bool failing;

static bool fake_kvm(int fd, unsigned long request, void *arg, int *ret)
{
	const struct kvm_userspace_memory_region *slot = arg;

	(void)fd;
	if (request != KVM_SET_USER_MEMORY_REGION)
		return false;
	if (failing)
		*ret = -ENOSPC;
	else
		slots[slot->slot] = *slot;
	return true;
}

static void test_place(void)
{
	struct scratch_memory scratch;
	struct guest_region region;
	struct error err;

	scratch_memory_init(&scratch, &kvm, &memory, 46);
	is_u64(scratch.gpa, memory_high_gpa, "scratch memory is at 4 GiB if RAM ends below that");
	scratch_memory_init(&scratch, &kvm, &memory, 32);
	ok(scratch_memory_add(&scratch, SIZE, &region, &err) == -ENOSPC &&
		   strstr(err.text, "no physical addresses"),
	   "a guest with 32 bits of physical addresses gets no scratch memory");
	scratch_memory_deinit(&scratch);
}

static void test_slots(void)
{
	struct scratch_memory scratch;
	struct guest_region a, b;

	scratch_memory_init(&scratch, &kvm, &memory, 46);
	ok(!scratch_memory_add(&scratch, SIZE, &a, NULL) &&
		   !scratch_memory_add(&scratch, 2 * SIZE, &b, NULL),
	   "two regions are added");
	ok(slots[2].guest_phys_addr == a.gpa && slots[2].memory_size == SIZE &&
		   slots[2].userspace_addr == (uintptr_t)a.hva && !core_dump_has(a.hva),
	   "the first region is KVM's third memslot");
	is_u64(scratch.nr_regions, 3, "RAM and two regions are listed");
	scratch_memory_remove(&scratch, &a, NULL);
	ok(!slots[2].memory_size && scratch.nr_regions == 3 && !scratch.regions[1].size,
	   "a removed region in front of another is listed as empty");
	scratch_memory_remove(&scratch, &b, NULL);
	is_u64(scratch.nr_regions, 1, "after the last region is removed only RAM is listed");
	scratch_memory_deinit(&scratch);
}

static void test_failures(void)
{
	struct scratch_memory scratch;
	struct guest_region a, b;

	scratch_memory_init(&scratch, &kvm, &memory, 46);
	failing = true;
	is_u64((uint64_t)-scratch_memory_add(&scratch, SIZE, &a, NULL), ENOSPC,
	       "KVM's failure to add a memslot is returned");
	is_u64(scratch.nr_regions, 1, "a region that KVM has refused is not listed");
	failing = false;
	scratch_memory_add(&scratch, SIZE, &a, NULL);
	failing = true;
	is_u64((uint64_t)-scratch_memory_remove(&scratch, &a, NULL), ENOSPC,
	       "KVM's failure to delete a memslot is returned");
	is_u64(scratch.nr_regions, 2, "a region that KVM has not deleted is still listed");
	failing = false;
	ok(!scratch_memory_add(&scratch, SIZE, &b, NULL) && b.gpa != a.gpa,
	   "the place of a region that KVM has not deleted is not used again");
	scratch_memory_deinit(&scratch);
}

int main(void)
{
	ioctl_hook = fake_kvm;
	if (guest_memory_init(&memory, 64 * MIB, NULL))
		return 1;
	test_place();
	test_slots();
	test_failures();
	guest_memory_deinit(&memory);
	return tap_done();
}

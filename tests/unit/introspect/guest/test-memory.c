/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "introspect/guest/dump.h"
#include "tests/lib/core-dump.h"
#include "tests/lib/tap.h"

enum { SIZE = 0x1000, HIGH = 0x100000 };

static uint8_t low[SIZE], next[SIZE], high[SIZE];
static struct dump_guest *dump;

static int add(uint64_t gpa, uint8_t *bytes, enum dump_access access)
{
	return dump_guest_add_buffer(dump, gpa, bytes, SIZE, access, NULL);
}

static void test_regions(void)
{
	const struct guest_region *regions;
	size_t n;

	ok(!add(HIGH, high, DUMP_MAPPED) && !add(SIZE, next, DUMP_UNMAPPED) &&
		   !add(0, low, DUMP_MAPPED),
	   "three regions are added in any order");
	ok(!dump_guest(dump)->memory->regions(dump_guest(dump), &regions, &n, NULL) && n == 3,
	   "a guest lists its three regions");
	ok(regions[0].gpa == 0 && regions[1].gpa == SIZE && regions[2].gpa == HIGH,
	   "regions are sorted by gpa");
	ok(!regions[1].hva, "an unmapped region has no hva");
	ok(add(SIZE - 1, high, DUMP_MAPPED) == -EEXIST,
	   "a region that overlaps another is refused");
	ok(add(1ull << 52, high, DUMP_MAPPED) == -EOVERFLOW &&
		   add(UINT64_MAX - 16, high, DUMP_MAPPED) == -EOVERFLOW,
	   "a region beyond physical addresses is refused");
}

static void test_access(void)
{
	struct guest *guest = dump_guest(dump);
	struct error err = {0};
	uint8_t bytes[16], back[16];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + 1);
	ok(!guest_phys_write(guest, SIZE - 8, bytes, 16, NULL),
	   "a write crosses from one region into the next");
	ok(!memcmp(low + SIZE - 8, bytes, 8) && !memcmp(next, bytes + 8, 8),
	   "both parts of a write across regions arrive");
	ok(!guest_phys_read(guest, SIZE - 8, back, 16, NULL) && !memcmp(back, bytes, 16),
	   "a read crosses from one region into the next");
	ok(guest_phys_read(guest, 2 * SIZE - 8, back, 16, &err) == -EFAULT,
	   "a read that runs into a hole fails");
	is_u64(err.address, 2 * SIZE, "the error has the first address that is not RAM");
	memset(next, 0, sizeof(next));
	ok(guest_phys_write(guest, 2 * SIZE - 8, bytes, 16, NULL) == -EFAULT && !next[SIZE - 8],
	   "a write into a hole stores nothing");
	ok(guest_phys_read(guest, UINT64_MAX - 4, back, 16, NULL) == -EFAULT,
	   "a read that wraps around fails");
	ok(guest_phys_read(guest, HIGH + SIZE, back, 1, NULL) == -EFAULT,
	   "a read just after RAM fails");
	ok(!guest_phys_read(guest, HIGH + SIZE - 1, back, 1, NULL), "the last byte of RAM is read");
	guest->caps = 0;
	ok(guest_phys_write(guest, 0, bytes, 1, NULL) == -EROFS,
	   "a write to a read-only guest fails");
	guest->caps = GUEST_CAP_WRITE;
}

static void test_hva(void)
{
	struct guest *guest = dump_guest(dump);

	ok(guest_phys_hva(guest, 0x10, SIZE - 0x10) == low + 0x10,
	   "a range up to the end of a region has an hva");
	ok(!guest_phys_hva(guest, 0x10, SIZE - 0xf),
	   "a range beyond the end of a region has no hva");
	ok(!guest_phys_hva(guest, 0x10, SIZE_MAX), "a range of a huge size has no hva");
	ok(!guest_phys_hva(guest, SIZE, 1), "unmapped memory has no hva");
	ok(!guest_phys_hva(guest, 0x80000, 1), "a hole has no hva");
}

static void test_vcpus(void)
{
	struct guest *guest = dump_guest(dump);
	struct guest_regs regs = {.rip = 0x1234};
	struct guest_sregs sregs = {.cr3 = 0x5000};

	ok(!dump_guest_set_vcpu(dump, 1, &regs, &sregs, NULL), "a vCPU's registers are set");
	regs.rip = sregs.cr3 = 0;
	ok(!guest->control->get_regs(guest, 1, &regs, NULL) && regs.rip == 0x1234,
	   "a vCPU's general registers are read back");
	ok(!guest->control->get_sregs(guest, 1, &sregs, NULL) && sregs.cr3 == 0x5000,
	   "a vCPU's system registers are read back");
	ok(dump_guest_set_vcpu(dump, 2, &regs, &sregs, NULL) == -EINVAL &&
		   guest->control->get_regs(guest, 2, &regs, NULL) == -EINVAL &&
		   guest->control->get_sregs(guest, 2, &sregs, NULL) == -EINVAL,
	   "an unknown vCPU is refused");
}

static void test_files(void)
{
	struct error err = {0};

	ok(dump_guest_add_file(dump, 1 << 30, "/nonexistent", DUMP_MAPPED, &err) == -ENOENT &&
		   strstr(err.text, "/nonexistent"),
	   "the error about a missing file names it");
	ok(dump_guest_add_file(dump, 1 << 30, "/dev/null", DUMP_MAPPED, NULL) < 0,
	   "an empty file is refused");
}

static void test_file(void)
{
	char path[] = "/tmp/test-memory-XXXXXX";
	int fd = mkstemp(path);
	uint8_t bytes[SIZE] = {0};
	void *hva;

	if (fd < 0 || ftruncate(fd, SIZE))
		abort();
	close(fd);
	ok(!dump_guest_add_file(dump, 1 << 30, path, DUMP_MAPPED, NULL), "a file is added");
	unlink(path);
	hva = guest_phys_hva(dump_guest(dump), 1 << 30, SIZE);
	ok(hva && !memcmp(hva, bytes, SIZE), "its bytes are memory");
	ok(!core_dump_has(hva), "which is not part of a core dump of the reader");
}

int main(void)
{
	if (dump_guest_create(2, &dump, NULL))
		return tap_skip_all("out of memory");
	test_regions();
	test_access();
	test_hva();
	test_vcpus();
	test_files();
	test_file();
	dump_guest_destroy(dump);
	return tap_done();
}

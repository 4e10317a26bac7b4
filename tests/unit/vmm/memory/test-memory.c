/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/memory/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/lib/core-dump.h"
#include "tests/lib/tap.h"

enum { MIB = 0x100000, NOBODY = 65534 };

static uint64_t file_size(const struct guest_memory *memory)
{
	struct stat st;

	return fstat(memory->fd, &st) ? 0 : (uint64_t)st.st_size;
}

static void test_file(void)
{
	struct guest_memory memory;
	uint8_t byte = 0;

	is_u64((uint64_t)guest_memory_init(&memory, 128 * MIB, NULL), 0, "RAM is created");
	is_u64(file_size(&memory), 128 * MIB, "the file of RAM has exactly its size");
	*(uint8_t *)guest_memory_at(&memory, 5 * MIB, 1) = 0x5a;
	ok(pread(memory.fd, &byte, 1, 5 * MIB) == 1 && byte == 0x5a,
	   "what is written to RAM is in the file");
	ok(!core_dump_has(memory.hva), "RAM is not part of a core dump");
	guest_memory_deinit(&memory);
	ok(memory.fd < 0 && !memory.nr_regions, "RAM that is gone has neither file nor regions");
	guest_memory_deinit(&memory);
}

/* The file has no hole; the guest's addresses have one. */
static void test_hole(void)
{
	struct guest_memory memory;
	uint64_t size = 4096ull * MIB;

	if (guest_memory_init(&memory, size, NULL)) {
		tap_skip("RAM beyond 3 GiB", "no room for 4 GiB");
		return;
	}
	is_u64(file_size(&memory), size, "the file of 4 GiB of RAM has 4 GiB");
	ok(guest_memory_at(&memory, memory_high_gpa, 1) == memory.hva + memory_hole_gpa,
	   "what is at 4 GiB for the guest is at 3 GiB in the file");
	ok(!guest_memory_at(&memory, memory_hole_gpa - 1, 2), "no access reaches into the hole");
	guest_memory_deinit(&memory);
}

static void test_too_large(void)
{
	struct guest_memory memory;
	struct error err = {0};

	ok(guest_memory_init(&memory, 1ull << 62, &err) < 0 && strstr(err.text, "cannot reserve"),
	   "RAM that the host cannot reserve is refused: %s", err.text);
	ok(memory.fd < 0, "after the refusal no file is open");
}

/* Users without privileges get their memory file from a child in a user namespace, or a memfd. */
static void test_as_user(void)
{
	struct guest_memory memory;
	uid_t uid = getuid();
	int ret;

	if (uid) {
		tap_skip("a user without privileges gets RAM", "is one already");
		return;
	}
	if (setresuid(NOBODY, NOBODY, 0)) {
		tap_skip("a user without privileges gets RAM", strerror(errno));
		return;
	}
	prctl(PR_SET_DUMPABLE, 1);
	ret = guest_memory_init(&memory, 64 * MIB, NULL);
	if (setresuid(0, 0, 0))
		tap_diag("still another user");
	is_u64((uint64_t)-ret, 0, "a user without privileges gets RAM");
	is_u64(file_size(&memory), 64 * MIB, "the file of such a user's RAM has its size");
	guest_memory_deinit(&memory);
}

int main(void)
{
	test_file();
	test_hole();
	test_too_large();
	test_as_user();
	return tap_done();
}

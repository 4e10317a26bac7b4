/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A journal that cannot be read is all that says what to undo: it and the domain stay as they are. */
#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/libvirt/recovery/recover-fixture.h"

static ssize_t most = SSIZE_MAX; /* what a read of a journal yields; negative: it fails */

static bool is_journal(int fd)
{
	char link[64], path[256];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	return n > 0 && !strncmp(path, folder, strlen(folder));
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	if (!is_journal(fd))
		return syscall(SYS_pread64, fd, to, n, at);
	if (most < 0) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, to, n > (size_t)most ? (size_t)most : n, at);
}

static void test_unreadable(ssize_t yields, const char *label)
{
	uint8_t *memory;

	begin();
	write_ours(OTHER_PLACE, "own", "our", 3);
	memory = fake_qemu_plug(qemu);
	memory[0] = 0xe9;
	most = yields;
	ok(recover(true) == -EIO && strstr(why.text, "cannot read "), "%s: %s", label, why.text);
	ok(has_journal() && holds(OTHER_PLACE, "our") && memory[0] == 0xe9 &&
		   fake_qemu_has_device(qemu) && fake_qemu_runs(qemu),
	   "%s: nothing is changed", label);
	most = SSIZE_MAX;
	ok(!recover(false) && outcome.places.restored == 1 && holds(OTHER_PLACE, "own") &&
		   !fake_qemu_has_device(qemu) && !has_journal(),
	   "%s: when it can be read everything is undone", label);
	end();
}

int main(int argc, char **argv)
{
	set_up_tests(argc, argv);
	test_unreadable(-1, "a journal that cannot be read");
	test_unreadable(20, "one of which a part can be read");
	return end_tests();
}

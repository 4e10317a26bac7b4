/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde attach, of a domain that it cannot trace. */
#include <string.h>
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"
#include "vmm/cmd.h"

enum { LONGEST_HANG_S = 20 };

int libvirt_lib_load(const struct libvirt_api **out, struct error *err)
{
	(void)err;
	*out = fake_qemu_libvirt();
	return 0;
}

/* It reads the domain's memory, for which the domain may be stopped. */
static void test_dry_run(void)
{
	const char *const argv[] = {"attach", "fake", "--dry-run", NULL};
	struct fake_qemu *qemu = fake_qemu_create(1);
	struct verb_result result = verb_run(cmd_attach, argv);

	ok(result.status == 1 && strlen(result.err) && fake_qemu_runs(qemu),
	   "a dry run of a domain without Linux fails: %s", result.err);
	ok(fake_qemu_keep_alive(qemu) && fake_qemu_keep_alive(qemu) <= LONGEST_HANG_S,
	   "a libvirtd that hangs meanwhile is given up after %u s", fake_qemu_keep_alive(qemu));
	verb_result_deinit(&result);
	fake_qemu_destroy(qemu);
}

/* Of another user, whose journal is not here. It needs the gdbstub to leave the domain. */
static void test_traced_already(const char *mode)
{
	const char *const argv[] = {"attach", "fake", "--dry-run", "--mode", mode, NULL};
	struct fake_qemu *qemu = fake_qemu_create(1);
	struct verb_result result;

	fake_qemu_plug(qemu);
	result = verb_run(cmd_attach, argv);
	ok(result.status == 1 && strstr(result.err, "has a device of an earlier sonde"),
	   "--mode %s: a domain with a memory device of a sonde is refused: %s", mode, result.err);
	verb_result_deinit(&result);
	fake_qemu_destroy(qemu);
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_dry_run();
	test_traced_already("exitless");
	test_traced_already("trap");
	return tap_done();
}

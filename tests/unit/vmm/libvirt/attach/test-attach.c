/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde attach, of a domain that it cannot trace. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
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

/* --- a domain that is stopped to be read ------------------------------------------------------ */

static bool read_once, keeps_going;

static enum fake_fault on_packet(void *arg, const char *packet)
{
	struct sigaction action;

	(void)arg;
	if (*packet != 'm' || read_once)
		return FAKE_OBEY;
	read_once = true;
	keeps_going = !sigaction(SIGTTIN, NULL, &action) && action.sa_handler == SIG_IGN;
	return FAKE_OBEY;
}

/* With it two processes claim to be the domain's QEMU: the memory of neither is read. */
static pid_t start_decoy(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/sh", "sh", "-c", "kill -STOP $$", "-uuid", fake_qemu_uuid(), NULL);
		_exit(1);
	}
	return pid;
}

/* Whoever stops the tracer with Ctrl-Z would leave the domain stopped. */
static void test_job_control(void)
{
	char folder[] = "/tmp/test-attach-XXXXXX", trace[64];
	const char *const argv[] = {"attach", "fake", "--mode", "trap", "-o", trace, NULL};
	struct fake_qemu *qemu = fake_qemu_create(1);
	pid_t decoy = start_decoy();
	struct verb_result result;

	if (decoy < 0 || !mkdtemp(folder))
		abort();
	snprintf(trace, sizeof(trace), "%s/trace", folder);
	clock_wait_ms(100);
	fake_qemu_set_fault(qemu, on_packet, NULL);
	result = verb_run(cmd_attach, argv);
	ok(result.status == 1 && read_once && keeps_going,
	   "job control does not stop a tracer that holds the domain stopped to read it: %s",
	   result.err);
	ok(fake_qemu_runs(qemu), "the domain runs on");
	verb_result_deinit(&result);
	kill(decoy, SIGKILL);
	waitpid(decoy, NULL, 0);
	rmdir(folder);
	fake_qemu_destroy(qemu);
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_dry_run();
	test_traced_already("exitless");
	test_traced_already("trap");
	test_job_control();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a run ends, and what its user sees: toy guests on a real /dev/kvm. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/machine/toy.h"

static struct toy toy;
static char panic_reason[80];
static enum vm_status seen[8];
static size_t nr_seen;

static void on_panic(void *arg, const char *reason)
{
	struct event_source **timer = arg;

	strncpy(panic_reason, reason, sizeof(panic_reason) - 1);
	if (timer)
		event_timer_arm(*timer, 0);
}

static void on_status(void *arg, enum vm_status status)
{
	(void)arg;
	if (nr_seen < sizeof(seen) / sizeof(seen[0]))
		seen[nr_seen++] = status;
}

static bool start(const uint8_t *code, const uint8_t *end, const struct vm_config *like)
{
	struct error err = {0};
	int ret;

	nr_seen = 0;
	ret = toy_create(&toy, code, end, like, &err);
	if (!ret)
		ret = vm_listen(toy.vm, on_status, NULL);
	if (!ret)
		ret = vm_start(toy.vm, &err);
	if (ret)
		tap_diag("%s", err.text);
	return !ret;
}

static const struct vm_config quiet = {.nr_vcpus = 1, .no_console = true};

static void test_panic(void)
{
	char path[] = "/tmp/test-end-XXXXXX", text[80] = "";
	struct vm_config config = {.nr_vcpus = 2, .console = path, .on_panic = on_panic};
	int fd = mkstemp(path);

	if (!ok(start(panic_code, panic_end, &config), "a guest that panics starts"))
		return;
	for (int i = 0; i < 5000 && !vm_vcpu_thread_id(toy.vm, 1); i++)
		usleep(1000);
	ok(vm_vcpu_thread_id(toy.vm, 1) > 0 && vm_vcpu_thread_id(toy.vm, 2) == 0,
	   "each vCPU has a thread, and others have none");
	is_u64((uint64_t)event_loop_run(toy.loop), VM_END_REBOOT,
	       "the guest's reset ends the event loop");
	vm_finish(toy.vm);
	is_u64(vm_end_reason(toy.vm), VM_END_PANIC, "a reset after a panic counts as the panic");
	is_str(vm_panic_reason(toy.vm), "toy", "the reason of the panic is kept");
	is_str(vm_status_name(vm_status(toy.vm)), "guest-panicked", "the last status is the panic");
	ok(nr_seen >= 2 && seen[0] == VM_STATUS_RUNNING &&
		   seen[nr_seen - 1] == VM_STATUS_GUEST_PANICKED,
	   "the listener is called with the first and the last status");
	ok(read(fd, text, sizeof(text) - 1) > 0, "the console file has been written");
	is_str(text, "Kernel panic - not syncing: toy\r\n",
	       "the console file has what the guest has printed");
	is_u64(vm_console_lost(toy.vm), 0, "no output is lost");
	ok(vm_exits(toy.vm) >= strlen(text), "each byte of output is an exit");
	close(fd);
	unlink(path);
	toy_destroy(&toy);
}

static void after_panic(void *arg)
{
	(void)arg;
	vm_pause(toy.vm, NULL);
	vm_resume(toy.vm, NULL);
	vm_request_end(toy.vm, VM_END_QUIT);
}

static void test_hang(void)
{
	struct event_source *timer;
	const struct vm_config config = {
		.nr_vcpus = 1, .no_console = true, .on_panic = on_panic, .arg = &timer};

	toy_create(&toy, hang_code, hang_end, &config, NULL);
	event_loop_add_timer(toy.loop, 0, after_panic, NULL, &timer, NULL);
	vm_listen(toy.vm, on_status, NULL);
	nr_seen = 0;
	vm_start(toy.vm, NULL);
	event_loop_run(toy.loop);
	is_str(panic_reason, "toy", "a panic is reported while the guest hangs");
	ok(nr_seen == 4 && seen[1] == VM_STATUS_GUEST_PANICKED && seen[2] == VM_STATUS_PAUSED &&
		   seen[3] == VM_STATUS_GUEST_PANICKED,
	   "after a pause a guest that has panicked is still one that has");
	vm_finish(toy.vm);
	is_u64(vm_end_reason(toy.vm), VM_END_QUIT, "a hang after a panic is ended by its user");
	toy_destroy(&toy);
}

/* Any user of the guest can print what a panic prints. */
static void test_imitated(void)
{
	const struct vm_config config = {.nr_vcpus = 1, .no_console = true, .on_panic = on_panic};

	panic_reason[0] = '\0';
	start(imitated_code, imitated_end, &config);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	is_u64(vm_end_reason(toy.vm), VM_END_REBOOT,
	       "a message without the driver's report is no panic");
	is_str(panic_reason, "", "a message without the driver's report is not reported");
	toy_destroy(&toy);
	start(reported_code, reported_end, &config);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	is_u64(vm_end_reason(toy.vm), VM_END_PANIC,
	       "a message and the driver's report are a panic");
	is_str(vm_panic_reason(toy.vm), "toy",
	       "the last message is the reason of the panic, not one that a user has printed");
	toy_destroy(&toy);
}

static enum vm_panic_answer answer;
static unsigned int times_asked;

static enum vm_panic_answer ask_panic(void *arg)
{
	(void)arg;
	times_asked++;
	return answer;
}

/* The guest's memory answers, where it has no driver. */
static void test_asked(void)
{
	const struct vm_config config = {
		.nr_vcpus = 1, .no_console = true, .on_panic = on_panic, .ask_panic = ask_panic};

	panic_reason[0] = '\0';
	answer = VM_PANIC_NO;
	times_asked = 0;
	start(panic_code, panic_end, &config);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	ok(times_asked > 0, "the guest's memory is asked when its console shows a panic");
	is_u64(vm_end_reason(toy.vm), VM_END_REBOOT, "a message that it denies is no panic");
	is_str(vm_status_name(vm_status(toy.vm)), "shutdown", "nor is it one in the status");
	is_str(panic_reason, "", "nor is it reported");
	toy_destroy(&toy);
	answer = VM_PANIC_YES;
	start(panic_code, panic_end, &config);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	ok(vm_end_reason(toy.vm) == VM_END_PANIC && vm_panic_is_certain(toy.vm),
	   "one that it confirms is a panic for certain");
	is_str(vm_panic_reason(toy.vm), "toy", "with its reason");
	toy_destroy(&toy);
	answer = VM_PANIC_UNKNOWN;
	start(panic_code, panic_end, &config);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	ok(vm_end_reason(toy.vm) == VM_END_PANIC && !vm_panic_is_certain(toy.vm),
	   "one of which it does not know is a panic by a line");
	toy_destroy(&toy);
}

static void end_on_panic(void *arg, const char *reason)
{
	(void)arg;
	on_panic(NULL, reason);
	vm_request_end(toy.vm, VM_END_QUIT);
}

static void test_silent(void)
{
	const struct vm_config config = {
		.nr_vcpus = 1, .no_console = true, .on_panic = end_on_panic};

	nr_seen = 0;
	start(silent_code, silent_end, &config);
	event_loop_run(toy.loop);
	is_str(panic_reason, "no message on its console",
	       "a panic is reported without a console, too");
	ok(nr_seen == 2 && seen[1] == VM_STATUS_GUEST_PANICKED,
	   "the status is the panic while the guest hangs");
	vm_finish(toy.vm);
	toy_destroy(&toy);
}

/* --- input ------------------------------------------------------------------------------------ */

static void test_input(void)
{
	const struct vm_config config = {.nr_vcpus = 1, .no_console = true, .console_stdin = true};
	struct guest_regs regs;
	int fds[2], before = dup(STDIN_FILENO);

	if (pipe(fds) || write(fds[1], "k", 1) != 1)
		abort();
	dup2(fds[0], STDIN_FILENO);
	start(input_code, input_end, &config);
	is_u64((uint64_t)event_loop_run(toy.loop), VM_END_POWER_OFF,
	       "a guest that waits for input gets some");
	vm_finish(toy.vm);
	toy.guest->control->get_regs(toy.guest, 0, &regs, NULL);
	is_u64(regs.rbx & 0xff, 'k', "the guest reads what standard input had");
	toy_destroy(&toy);
	dup2(before, STDIN_FILENO);
	close(before);
	close(fds[0]);
	close(fds[1]);
}

static int other_key;

static void on_key(void *arg, enum terminal_action action)
{
	(void)arg;
	other_key = action;
}

/* In a child with a terminal of its own. Returns whether Ctrl-a h and Ctrl-a x do what they shall.
 */
static bool quits_by_key(void)
{
	const struct vm_config config = {
		.nr_vcpus = 1, .no_console = true, .console_stdin = true, .on_key = on_key};
	int master, slave;

	alarm(20);
	if (openpty(&master, &slave, NULL, NULL, NULL) || setsid() < 0 ||
	    ioctl(slave, TIOCSCTTY, 0) || dup2(slave, STDIN_FILENO) < 0 ||
	    write(master, "\x01h\x01x", 4) != 4 || !start(loop_code, loop_end, &config))
		return false;
	return event_loop_run(toy.loop) == VM_END_QUIT && other_key == TERMINAL_HELP;
}

static void test_keys(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		status = quits_by_key() ? 0 : 1;
		toy_destroy(&toy);
		exit(status);
	}
	waitpid(child, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status),
	   "on a terminal, Ctrl-a x quits, and other keys are reported");
}

static void test_reboot(void)
{
	start(reboot_code, reboot_end, &quiet);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	is_u64(vm_end_reason(toy.vm), VM_END_REBOOT, "a pulse of the 8042 is a reboot");
	is_str(vm_status_name(vm_status(toy.vm)), "shutdown", "a guest that reboots is shut down");
	ok(!vm_panic_reason(toy.vm), "a guest that has printed nothing has not panicked");
	toy_destroy(&toy);
}

static void test_triple_fault(void)
{
	start(fault_code, fault_end, &quiet);
	is_u64((uint64_t)event_loop_run(toy.loop), VM_END_TRIPLE_FAULT,
	       "an exception without an IDT ends in a triple fault");
	toy_destroy(&toy);
}

static void test_io(void)
{
	struct guest_regs regs;

	start(mmio_code, mmio_end, &quiet);
	is_u64((uint64_t)event_loop_run(toy.loop), VM_END_POWER_OFF,
	       "a guest gets past its I/O and powers off");
	vm_finish(toy.vm);
	toy.guest->control->get_regs(toy.guest, 0, &regs, NULL);
	is_u64(regs.rbx, 0xffffffff, "memory without a device reads as ones");
	is_u64(regs.rcx & 0xff, 0x60, "a register of the UART can be read");
	toy_destroy(&toy);
}

static void quit(void *arg)
{
	(void)arg;
	vm_request_end(toy.vm, VM_END_QUIT);
	vm_request_end(toy.vm, VM_END_SIGNAL);
}

static void test_quit(void)
{
	struct event_source *timer;

	start(loop_code, loop_end, &quiet);
	event_loop_add_timer(toy.loop, 0, quit, NULL, &timer, NULL);
	event_timer_arm(timer, 20);
	event_loop_run(toy.loop);
	is_u64((uint64_t)-vm_resume(toy.vm, NULL), EINVAL,
	       "a run that has ended cannot be resumed");
	vm_finish(toy.vm);
	vm_finish(toy.vm);
	is_u64(vm_end_reason(toy.vm), VM_END_QUIT, "the first reason for an end counts");
	toy_destroy(&toy);
}

static void test_end_while_paused(void)
{
	start(loop_code, loop_end, &quiet);
	is_u64((uint64_t)-vm_resume(toy.vm, NULL), EALREADY, "a guest that runs cannot be resumed");
	vm_pause(toy.vm, NULL);
	vm_request_end(toy.vm, VM_END_QUIT);
	vm_finish(toy.vm);
	is_str(vm_status_name(vm_status(toy.vm)), "shutdown", "a paused guest can be ended");
	toy_destroy(&toy);
}

static void test_refusals(void)
{
	static const struct vm_config none = {.nr_vcpus = 0}, many = {.nr_vcpus = 65};
	struct vm_config small = {.nr_vcpus = 1, .ram_mib = 63};
	struct error err;

	ok(toy_create(&toy, loop_code, loop_end, &none, &err) == -EINVAL &&
		   strstr(err.text, "0 vCPUs"),
	   "a machine without vCPUs is refused");
	toy_destroy(&toy);
	ok(toy_create(&toy, loop_code, loop_end, &many, &err) == -EINVAL &&
		   strstr(err.text, "65 vCPUs"),
	   "a machine of 65 vCPUs is refused");
	toy_destroy(&toy);
	event_loop_create(&toy.loop, NULL);
	ok(vm_create(&small, toy.loop, &toy.vm, &err) == -EINVAL && strstr(err.text, "63 MiB"),
	   "a machine of 63 MiB is refused");
	toy_destroy(&toy);
	toy_create(&toy, loop_code, loop_end, &quiet, NULL);
	for (int i = 0; i < 4; i++)
		vm_listen(toy.vm, on_status, NULL);
	is_u64((uint64_t)-vm_listen(toy.vm, on_status, NULL), ENOSPC,
	       "a fifth listener is refused");
	is_u64((uint64_t)-vm_pause(toy.vm, NULL), EINVAL,
	       "a machine that has not started cannot be paused");
	toy_destroy(&toy);
}

/* --- polling ---------------------------------------------------------------------------------- */

enum { WANTED_POLLS = 10 };
static atomic_uint polls;

/* After the last one the guest goes on for a while. */
static bool poll_some(void *quit_timer)
{
	if (atomic_fetch_add(&polls, 1) + 1 < WANTED_POLLS)
		return false;
	event_timer_arm(quit_timer, 30);
	return true;
}

static void test_polling(void)
{
	struct event_source *timer;

	toy_create(&toy, loop_code, loop_end, &quiet, NULL);
	event_loop_add_timer(toy.loop, 0, quit, NULL, &timer, NULL);
	vm_set_poll(toy.vm, poll_some, timer);
	vm_start(toy.vm, NULL);
	event_loop_run(toy.loop);
	vm_finish(toy.vm);
	is_u64(polls, WANTED_POLLS, "a guest that accesses ports is polled until a poll succeeds");
	toy_destroy(&toy);
}

int main(void)
{
	if (!toy_has_kvm())
		return tap_skip_all("no /dev/kvm");
	test_panic();
	test_imitated();
	test_asked();
	test_silent();
	test_hang();
	test_input();
	test_keys();
	test_reboot();
	test_triple_fault();
	test_io();
	test_quit();
	test_end_while_paused();
	test_refusals();
	test_polling();
	return tap_done();
}

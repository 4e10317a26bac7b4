/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine on a KVM that fails: while the machine is built, and while it runs. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/ioctl-hook.h"
#include "tests/unit/vmm/machine/toy.h"
#include "vmm/machine/internal.h"

static struct toy toy;
static const struct vm_config config = {.nr_vcpus = 2, .no_console = true};

static unsigned int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* --- while it is built ------------------------------------------------------------------------ */

static unsigned int calls, failing_call;

static bool fail_one(int fd, unsigned long request, void *arg, int *ret)
{
	(void)fd;
	(void)request;
	(void)arg;
	*ret = -ENXIO;
	return ++calls == failing_call;
}

/* What a KVM may lack: the machine is then built without it. */
static bool is_bearable(int ret, const struct error *err)
{
	return ret ? *err->text && ret == -err->code : toy.vm != NULL;
}

static void test_building(void)
{
	unsigned int before = count_descriptors(), built = 0, refused = 0, bad = 0, leaks = 0;

	do {
		struct error err = {0};
		int ret;

		calls = 0;
		failing_call++;
		ioctl_hook = fail_one;
		ret = toy_create(&toy, loop_code, loop_end, &config, &err);
		ioctl_hook = NULL;
		built += !ret;
		refused += ret != 0;
		if (!is_bearable(ret, &err) && bad++ == 0)
			tap_diag("call %u: %d %s", failing_call, ret, err.text);
		toy_destroy(&toy);
		leaks += count_descriptors() != before;
	} while (calls >= failing_call && failing_call < 500);
	ok(refused > 20, "%u of %u calls to KVM are needed to build a machine", refused,
	   failing_call - 1);
	ok(built >= 1, "%u machines are built: without a call's result, or without a failure",
	   built);
	is_u64(bad, 0, "each failure of KVM is reported with its error number");
	is_u64(leaks, 0, "no failure of KVM leaves a descriptor open");
}

/* --- whether KVM is backed by hardware ---------------------------------------------------------
 */

static int create_with(bool force, struct error *err)
{
	const struct vm_config missing = {.boot = {.kernel = "/nonexistent", .cmdline = ""},
					  .ram_mib = 64,
					  .nr_vcpus = 1,
					  .force = force};
	struct event_loop *loop = NULL;
	struct vm *vm = NULL;
	int ret;

	event_loop_create(&loop, err);
	ret = vm_create(&missing, loop, &vm, err);
	vm_destroy(vm);
	event_loop_destroy(loop);
	return ret;
}

/* A vCPU that takes its time: each entry to the guest takes 10 ms. */
static bool slow_down(int fd, unsigned long request, void *arg, int *ret)
{
	(void)fd;
	(void)arg;
	(void)ret;
	if (request == KVM_RUN)
		usleep(10000);
	return false;
}

static void test_slow_kvm(void)
{
	struct error err;

	unsetenv("SONDE_ALLOW_SLOW_KVM");
	ioctl_hook = slow_down;
	ok(create_with(false, &err) == -ENOTSUP && strstr(err.text, "not backed by hardware"),
	   "a slow KVM is refused before the kernel is read");
	is_u64((uint64_t)-create_with(true, NULL), ENOENT, "a slow KVM is accepted by force");
	setenv("SONDE_ALLOW_SLOW_KVM", "1", 1);
	is_u64((uint64_t)-create_with(false, NULL), ENOENT,
	       "a slow KVM is accepted if the environment says that it is the tests' own");
	unsetenv("SONDE_ALLOW_SLOW_KVM");
	ioctl_hook = NULL;
}

/* --- while it runs ---------------------------------------------------------------------------- */

static struct {
	int exit_reason; /* 0: the call fails with `code` */
	int code;
	atomic_int after, times;   /* so many entries go to KVM; so many do not */
	struct event_source *done; /* armed when KVM gets entries again */
} injected;

static bool inject_exit(int fd, unsigned long request, void *arg, int *ret)
{
	struct vcpu *vcpu = toy.vm ? &toy.vm->vcpus[0] : NULL;

	(void)arg;
	if (request != KVM_RUN || !vcpu || vcpu->fd != fd)
		return false;
	if (atomic_fetch_sub(&injected.after, 1) > 0)
		return false;
	if (atomic_fetch_sub(&injected.times, 1) <= 0) {
		if (injected.done)
			event_timer_arm(injected.done, 0);
		return false;
	}
	vcpu->run->exit_reason = (uint32_t)injected.exit_reason;
	*ret = injected.exit_reason ? 0 : -injected.code;
	return true;
}

/* Returns whether the run ended with VM_END_FAILED. */
static bool run_with(int exit_reason, int code, int after, int times)
{
	struct error err = {0};
	int end;

	injected.exit_reason = exit_reason;
	injected.code = code;
	atomic_store(&injected.after, after);
	atomic_store(&injected.times, times);
	end = toy_create(&toy, loop_code, loop_end, &config, &err);
	ioctl_hook = inject_exit;
	if (end || vm_start(toy.vm, &err)) {
		tap_diag("%s", err.text);
		return false;
	}
	end = event_loop_run(toy.loop);
	vm_finish(toy.vm);
	ioctl_hook = NULL;
	return end == VM_END_FAILED;
}

static void fails(int exit_reason, int code, int after, const char *text)
{
	bool failed = run_with(exit_reason, code, after, 1);

	ok(failed && strstr(vm_failure(toy.vm)->text, text), "the run ends with \"%s\"", text);
	is_str(vm_status_name(vm_status(toy.vm)), "internal-error",
	       "the status after a failure of KVM is \"internal-error\"");
	toy_destroy(&toy);
}

static void quit(void *arg)
{
	(void)arg;
	vm_request_end(toy.vm, VM_END_QUIT);
}

/* Signals, and processors that are busy, interrupt an entry; it is tried again. */
static void test_interruptions(int code, const char *name)
{
	injected.exit_reason = 0;
	injected.code = code;
	atomic_store(&injected.after, 0);
	atomic_store(&injected.times, 5);
	toy_create(&toy, loop_code, loop_end, &config, NULL);
	event_loop_add_timer(toy.loop, 0, quit, NULL, &injected.done, NULL);
	ioctl_hook = inject_exit;
	vm_start(toy.vm, NULL);
	is_u64((uint64_t)event_loop_run(toy.loop), VM_END_QUIT, name);
	vm_finish(toy.vm);
	ioctl_hook = NULL;
	injected.done = NULL;
	toy_destroy(&toy);
}

int main(void)
{
	if (!toy_has_kvm())
		return tap_skip_all("no /dev/kvm");
	test_building();
	test_slow_kvm();
	fails(KVM_EXIT_HLT, 0, 0, "the guest cannot execute an OUT instruction");
	fails(KVM_EXIT_FAIL_ENTRY, 0, 3, "the processor refused to enter the guest");
	fails(KVM_EXIT_INTERNAL_ERROR, 0, 3, "KVM cannot emulate the guest's instruction");
	fails(KVM_EXIT_HYPERV, 0, 3, "unexpected exit (0x1b)");
	fails(0, EFAULT, 3, "Bad address");
	test_interruptions(EINTR, "an entry that a signal interrupts is repeated");
	test_interruptions(EAGAIN, "an entry that KVM wants to have again is repeated");
	return tap_done();
}

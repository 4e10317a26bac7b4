/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is said of a KVM that is missing, old or failing. */
#include "vmm/kvm/kvm.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/ioctl-hook.h"

/* --- a KVM of the test's own ------------------------------------------------------------------ */

static int lacking = -1;              /* number of a capability */
static unsigned long failing_request; /* fails with EIO */
static int version = KVM_API_VERSION;

static bool fake_kvm(int fd, unsigned long request, void *arg, int *ret)
{
	(void)fd;
	if (request == failing_request)
		*ret = -EIO;
	else if (request == KVM_CHECK_EXTENSION)
		*ret = (int)(intptr_t)arg == lacking ? 0 : ~0 & 0x7fffffff;
	else if (request == KVM_GET_API_VERSION)
		*ret = version;
	else if (request == KVM_GET_VCPU_MMAP_SIZE)
		*ret = sizeof(struct kvm_run);
	else if (request == KVM_CREATE_VM)
		*ret = open("/dev/null", O_RDWR);
	else if (request == KVM_GET_SUPPORTED_CPUID)
		((struct kvm_cpuid2 *)arg)->nent = 1;
	return true;
}

static struct kvm make(void)
{
	return (struct kvm){.fd = open("/dev/null", O_RDWR), .vm_fd = -1, .run_size = 4096};
}

static void test_capabilities(void)
{
	struct kvm kvm = make();
	struct error err;
	size_t n, refused = 0, required = 0;
	const struct kvm_capability *list = kvm_capabilities(&n);

	is_u64((uint64_t)kvm_check_capabilities(&kvm, NULL), 0,
	       "a KVM with all capabilities is accepted");
	for (size_t i = 0; i < n; i++) {
		lacking = list[i].cap;
		required += list[i].required;
		if (kvm_has(&kvm, &list[i]))
			ok(false, "%s is found to be missing", list[i].name);
		if (!kvm_check_capabilities(&kvm, &err))
			continue;
		refused += strstr(err.text, list[i].name) && strstr(err.text, list[i].since);
	}
	lacking = -1;
	is_u64(refused, required,
	       "each required capability that is missing is named, with the first Linux that has "
	       "it");
	failing_request = KVM_CHECK_EXTENSION;
	is_u64((uint64_t)kvm_extension(&kvm, KVM_CAP_IRQCHIP), 0,
	       "an extension that KVM does not know is 0");
	failing_request = 0;
	kvm_close(&kvm);
}

static void test_machine(void)
{
	static const struct {
		unsigned long request;
		const char *text;
	} steps[] = {
		{KVM_CREATE_VM, "create a virtual machine"},
		{KVM_SET_IDENTITY_MAP_ADDR, "private pages"},
		{KVM_SET_TSS_ADDR, "private pages"},
		{KVM_CREATE_IRQCHIP, "interrupt controllers"},
		{KVM_CREATE_PIT2, "timer"},
	};
	struct kvm kvm = make();
	struct error err;

	is_u64((uint64_t)kvm_create_vm(&kvm, NULL), 0, "a machine is created");
	kvm_close(&kvm);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		kvm = make();
		failing_request = steps[i].request;
		ok(kvm_create_vm(&kvm, &err) == -EIO && strstr(err.text, steps[i].text),
		   "a failure to create a machine names its step: %s", steps[i].text);
		kvm_close(&kvm);
	}
	failing_request = 0;
}

static void test_failures(void)
{
	struct kvm kvm = make();
	struct kvm_cpuid2 *cpuid;
	struct error err;

	failing_request = KVM_SET_USER_MEMORY_REGION;
	ok(kvm_set_memory(&kvm, 0, 0, NULL, 4096, &err) == -EIO && strstr(err.text, "guest memory"),
	   "a failure to map guest memory is reported");
	failing_request = KVM_GET_SUPPORTED_CPUID;
	ok(kvm_supported_cpuid(&kvm, &cpuid, &err) == -EIO && strstr(err.text, "CPUID"),
	   "a failure to read the CPUID is reported");
	failing_request = 0;
	ok(!kvm_supported_cpuid(&kvm, &cpuid, NULL) && cpuid->nent == 1, "the CPUID is returned");
	free(cpuid);
	kvm_close(&kvm);
}

/* --- /dev in a mount namespace of a child's own ----------------------------------------------- */

enum { CANNOT = 100, NO_MATCH = 101 };

static bool enter_empty_dev(void)
{
	return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", "/dev", "tmpfs", 0, NULL);
}

static int open_there(mode_t mode, bool as_user, const char *text)
{
	struct error err = {0};
	struct kvm kvm;

	if (!enter_empty_dev())
		return CANNOT;
	if (mode)
		close(open("/dev/kvm", O_CREAT | O_WRONLY, mode));
	if (as_user && (setgid(65534) || setuid(65534)))
		return CANNOT;
	kvm_open(&kvm, &err);
	return strstr(err.text, text) && kvm.fd < 0 ? err.code : NO_MATCH;
}

static void opens(mode_t mode, bool as_user, int code, const char *text, const char *name)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		status = open_there(mode, as_user, text);
		exit(status);
	}
	waitpid(child, &status, 0);
	if (WEXITSTATUS(status) == CANNOT)
		tap_skip(name, "needs root, for mount namespaces");
	else
		is_u64((uint64_t)WEXITSTATUS(status), (uint64_t)code, name);
}

static void test_open(void)
{
	opens(0, false, ENOENT, "load kvm-intel or kvm-amd", "a missing /dev/kvm is explained");
	opens(0600, true, EACCES, "join group kvm", "a /dev/kvm without permission is explained");
	version = 11;
	opens(0666, false, EPROTO, "API version 11", "a KVM of another version is refused");
	version = KVM_API_VERSION;
	failing_request = KVM_GET_VCPU_MMAP_SIZE;
	opens(0666, false, EIO, "not a KVM", "a /dev/kvm that fails is refused");
	failing_request = 0;
}

int main(void)
{
	ioctl_hook = fake_kvm;
	test_capabilities();
	test_machine();
	test_failures();
	test_open();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde doctor, on this machine's /dev/kvm or without one. */
#include <getopt.h>
#include <jansson.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"
#include "tests/unit/vmm/ioctl-hook.h"
#include "vmm/cmd.h"
#include "vmm/kvm/kvm.h"

static struct capture output;

static int doctor(const char *words)
{
	struct capture_words command;
	int status;

	capture_split(&command, "doctor", words);
	optind = 0;
	capture_begin(&output, "");
	status = cmd_doctor(command.argc, command.argv);
	capture_end(&output);
	return status;
}

static bool says(const char *text)
{
	return strstr(output.out, text);
}

static void test_usage(void)
{
	is_u64((uint64_t)doctor("--help"), CLI_OK, "--help succeeds");
	ok(says("usage: sonde doctor"), "--help prints the usage");
	is_u64((uint64_t)doctor("now"), CLI_USAGE, "an argument is a usage error");
	ok(strstr(output.err, "unexpected argument 'now'"), "the usage error names the argument");
}

static void test_text(void)
{
	bool usable = doctor("") == CLI_OK;

	ok(usable == says("This machine can run guests."),
	   "the exit status says whether this machine can run guests");
	ok(usable != says("This machine cannot run guests: "),
	   "the text says whether this machine can run guests");
	ok(says("libvirt:       yes\n") != says("libvirt:       no: "),
	   "the text says whether libvirt is there");
	ok(says("Only 'sonde run' needs KVM."), "the text says what works without KVM");
}

/* A KVM without one required capability. */
static bool lack_irqchip(int fd, unsigned long request, void *arg, int *ret)
{
	(void)fd;
	*ret = 0;
	return request == KVM_CHECK_EXTENSION && (intptr_t)arg == KVM_CAP_IRQCHIP;
}

static void test_lacking(void)
{
	ioctl_hook = lack_irqchip;
	is_u64((uint64_t)doctor(""), CLI_FAILED,
	       "a KVM without a required capability cannot run guests");
	ok(says("irqchip                no ") && says(", required)"),
	   "a missing capability is marked as required");
	ok(says("this KVM lacks irqchip"), "the problem names the missing capability");
	ioctl_hook = NULL;
}

static void test_json(void)
{
	bool usable = doctor("--json") == CLI_OK;
	json_t *root = json_loads(output.out, 0, NULL);
	static const char *const booleans[] = {"usable", "kvm", "libvirt"};
	unsigned int n = 0;

	ok(json_integer_value(json_object_get(root, "version")) == 1,
	   "--json prints an object of version 1");
	for (size_t i = 0; i < 3; i++)
		n += json_is_boolean(json_object_get(root, booleans[i]));
	is_u64(n, 3, "the JSON says whether guests can run, and whether there are KVM and libvirt");
	ok(json_is_true(json_object_get(root, "usable")) == usable,
	   "the JSON agrees with the exit status");
	ok(json_is_null(json_object_get(root, "problem")) == usable,
	   "the JSON has a problem unless guests can run");
	json_decref(root);
}

int main(void)
{
	struct kvm kvm;
	bool has_kvm = !kvm_open(&kvm, NULL);

	kvm_close(&kvm);
	test_usage();
	test_text();
	test_json();
	if (has_kvm)
		test_lacking();
	else
		tap_skip("a KVM without a required capability cannot run guests", "no /dev/kvm");
	return tap_done();
}

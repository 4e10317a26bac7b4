/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernels without traps that change their own text by functions that cannot be made to ask. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10 };

static struct fake_session fs;

static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
}

/* What has no symbol may have been inlined: that the kernel cannot do it takes other evidence. */
static void test_inlined(void)
{
	static const struct fake_symbol evidence[] = {
		{"hibernation_snapshot", FAKE_MSLEEP}, {"pm_suspend", FAKE_MSLEEP}, {NULL, 0}};
	struct trace_status status;

	create();
	if (fake_guest_inline(&fs.fg, "ftrace_arch_code_modify_prepare") ||
	    fake_guest_inline(&fs.fg, "hibernate_preallocate_memory") ||
	    fake_guest_inline(&fs.fg, "suspend_devices_and_enter") ||
	    fake_guest_inline(&fs.fg, "kernel_kexec") || fake_guest_add_symbols(&fs.fg, evidence))
		abort();
	ok(!trace_session_start(fs.session, NULL, NULL),
	   "a kernel with inlined functions is traced");
	status = fake_session_status(&fs);
	is_u64(status.nr_yields, 4, "of the five things one is nothing that the kernel does");
	is_str(status.yields[0].refusal,
	       "the kernel has ftrace_lock but no ftrace_arch_code_modify_prepare()",
	       "ftrace is one that the tracer cannot give way to");
	is_str(status.yields[1].refusal, "", "to kprobes it can");
	is_str(status.yields[2].refusal,
	       "the kernel has hibernation_snapshot but no hibernate_preallocate_memory()",
	       "to hibernation it cannot");
	is_str(status.yields[3].refusal,
	       "the kernel has pm_suspend but no suspend_devices_and_enter()",
	       "nor can it keep the guest from suspending");
	ok(!trace_session_failure(fs.session), "nothing has failed");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   fs.fg.nr_regions == 1,
	   "after a stop text and memory are what they were");
	fake_session_destroy(&fs);
}

static void is_refused(int code, const char *why, const char *label)
{
	const struct patch_plan *plan;
	struct error err = {0};

	fake_session_keep_text(&fs);
	ok(!trace_session_plan(fs.session, NULL, &plan, NULL) &&
		   trace_session_check_exitless(fs.session, NULL) == -code,
	   "%s: a plan says so", label);
	ok(trace_session_start(fs.session, NULL, &err) == -code && strstr(err.text, why),
	   "%s: the guest is not traced: %s", label, err.text);
	ok(fake_session_text_same(&fs) && fs.fg.nr_regions == 1 && !fs.fg.stopped,
	   "%s: nothing is changed", label);
	fake_session_destroy(&fs);
}

/* A kprobe that is made unseen would copy a jump, of which recovery knows nothing. */
static void test_unwatched(void)
{
	static const char why[] = "kprobes of the guest cannot be noticed: ";

	create();
	fake_code(&fs.fg, FAKE_PREPARE_KPROBE, "\x8b\x05\0\0\0\0\xc3", 7); /* relative to RIP */
	is_refused(ENOTSUP, why, "the function that makes kprobes cannot ask");
	create();
	if (fake_guest_inline(&fs.fg, "arch_prepare_kprobe"))
		abort();
	is_refused(ENOTSUP, why, "the function that makes kprobes is inlined");
}

/* When it is enabled, the guest writes an INT3 into the jump, and executes the copy that it has
 * made of what was there before. */
static void test_registered(void)
{
	enum { DISABLED = 1 << 1 };
	static const char why[] = "a kprobe of the guest is registered in kernel_kexec(), "
				  "where kexec would be noticed: remove it in the guest";

	create();
	fake_session_put_kprobe(&fs, FAKE_KEXEC, DISABLED);
	is_refused(EBUSY, why, "a disabled kprobe at a function that asks");
	create();
	fake_session_put_kprobe(&fs, FAKE_KEXEC + 4, DISABLED);
	is_refused(EBUSY, why, "one that the jump reaches");
}

/* At each stop but one vCPU 2 is in a guest of its own, and vCPU 3 at that one. */
static void run_nested(struct fake_guest *fg)
{
	static uint64_t bases[FAKE_VCPUS];

	for (unsigned int i = 2; i < FAKE_VCPUS; i++) {
		struct guest_sregs *sregs = &fg->vcpus[i].sregs;
		const bool seen = (i == 2) == (fg->stops == 5);

		bases[i] = bases[i] ? bases[i] : sregs->gs_base;
		sregs->gs_base = seen ? bases[i] : 0;
	}
}

static void test_nested(void)
{
	struct error err = {0};

	create();
	fs.fg.on_stop = run_nested;
	fs.fg.stops = 0;
	ok(!trace_session_start(fs.session, NULL, &err) && fs.fg.stops > 5,
	   "it is waited for until each vCPU was seen in the guest's kernel: %s", err.text);
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "the guest can be left while some are in guests of their own");
	fs.fg.on_stop = NULL;
	fake_session_destroy(&fs);
}

int main(void)
{
	test_nested();
	test_inlined();
	test_unwatched();
	test_registered();
	return tap_done();
}

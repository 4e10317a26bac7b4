/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions whose guest, which has traps, hibernates or starts another kernel. */
#include <errno.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, TRAP = 0xe6, RET = 0xc3, HLT = 0xf4, LATE_MS = 30000 };

static struct fake_session fs;

static void begin(bool exitless)
{
	const struct trace_options options = {.exitless = exitless, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	*fake_text(&fs.fg, FAKE_MSLEEP) = fs.text[FAKE_MSLEEP] = HLT;
	ok(!trace_session_start(fs.session, NULL, NULL), "a session starts");
}

/* What is written as the guest's own data: what write() writes would be taken back. */
static const struct guest_memory_ops *memory_ops;
static uint64_t given;

static int give(struct guest *guest, uint64_t gpa, const void *from, size_t size, struct error *err)
{
	memcpy(&given, from, sizeof(given));
	return memory_ops->write(guest, gpa, from, size, err);
}

static bool sleeps(unsigned int vcpu)
{
	return fs.fg.vcpus[vcpu].regs.rip == fake_gva(FAKE_MSLEEP);
}

/* msleep() returns. */
static int wake(unsigned int vcpu)
{
	*fake_text(&fs.fg, FAKE_MSLEEP) = RET;
	fs.fg.vcpus[vcpu].regs.rip = fake_gva(FAKE_MSLEEP);
	return fake_guest_run(&fs.fg, vcpu);
}

static void sleep_again(unsigned int vcpu)
{
	uint64_t back;

	*fake_text(&fs.fg, FAKE_MSLEEP) = HLT;
	fs.fg.vcpus[vcpu].regs.rip = fake_gva(FAKE_MSLEEP);
	memcpy(&back, fs.fg.base.ram + (fs.fg.vcpus[vcpu].regs.rsp - FAKE_PAGE_OFFSET),
	       sizeof(back));
	fs.fg.vcpus[vcpu].regs.rip = back;
	fs.fg.vcpus[vcpu].regs.rsp += sizeof(back);
	fake_guest_run(&fs.fg, vcpu);
}

static void test_leaving(uint64_t function, const char *why, bool exitless)
{
	uint64_t rsp;

	begin(exitless);
	ok(!trace_session_must_end(fs.session), "the guest stays in its kernel");
	is_u64((uint64_t)fake_session_call(&fs, 1, function, 0), 1, "the function is one trap");
	ok(sleeps(1), "the task sleeps");
	rsp = fs.fg.vcpus[1].regs.rsp;
	is_str(trace_session_must_end(fs.session), why, "the session says what it does");
	sleep_again(1);
	ok(sleeps(1) && fs.fg.vcpus[1].regs.rsp == rsp, "it sleeps as long as tracing is on");
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	*fake_text(&fs.fg, FAKE_MSLEEP) = fs.text[FAKE_MSLEEP] = HLT;
	ok(fake_session_text_same(&fs) && fs.fg.nr_regions == 1,
	   "then text and memory are what they were");
	is_u64((uint64_t)wake(1), 0, "the task goes on, and meets no trap");
	fs.text[FAKE_MSLEEP] = RET;
	ok(!trace_session_start(fs.session, NULL, NULL) &&
		   !trace_session_must_end(fs.session) &&
		   *fake_text(&fs.fg, function) == TRAP,
	   "tracing may start again, and watches for the next time");
	fake_session_end(&fs);
}

/* A recovery that took it for the tracer's would write over a return address that the task uses. */
static void test_return_address(void)
{
	struct guest_memory_ops noting;

	begin(false);
	memory_ops = fs.fg.guest.memory;
	noting = *memory_ops;
	noting.give = give;
	fs.fg.guest.memory = &noting;
	given = 0;
	fake_session_call(&fs, 1, FAKE_HIBERNATE, 0);
	ok(sleeps(1) && given == fake_gva(FAKE_HIBERNATE),
	   "the address that the task returns to is the guest's, not to be put back");
	fs.fg.guest.memory = memory_ops;
	fs.session->leaving_ms -= LATE_MS;
	wake(1);
	fs.text[FAKE_MSLEEP] = RET;
	fake_session_end(&fs);
}

/* In a paused guest the memory stays, and so does the trap. */
static void test_paused(void)
{
	begin(true);
	fake_session_call(&fs, 1, FAKE_HIBERNATE, 0);
	fs.fg.paused = true;
	trace_session_stop(fs.session, NULL);
	ok(*fake_text(&fs.fg, FAKE_HIBERNATE) == TRAP && fs.fg.nr_regions == 2 &&
		   *fake_text(&fs.fg, FAKE_KFREE) != 0xe9,
	   "a paused guest has its text back, but for the function that waits");
	fs.fg.paused = false;
	ok(!trace_session_start(fs.session, NULL, NULL), "when it runs again, tracing starts");
	fs.text[FAKE_MSLEEP] = *fake_text(&fs.fg, FAKE_MSLEEP);
	fake_session_end(&fs);
}

static void test_late(void)
{
	begin(false);
	fake_session_call(&fs, 1, FAKE_HIBERNATE, 0);
	fs.session->leaving_ms -= LATE_MS;
	is_u64((uint64_t)wake(1), 1, "a task that has waited for 20 s meets the trap once more");
	ok((int64_t)fs.fg.vcpus[1].regs.rax == -EBUSY && !sleeps(1),
	   "hibernation fails with EBUSY");
	fs.text[FAKE_MSLEEP] = RET;
	fake_session_end(&fs);
	begin(false);
	fake_session_call(&fs, 1, FAKE_KEXEC, 0);
	fs.session->leaving_ms -= LATE_MS;
	fs.fg.vcpus[1].regs.rax = 0;
	wake(1);
	ok(!fs.fg.vcpus[1].regs.rax && !sleeps(1), "kexec goes on");
	fs.text[FAKE_MSLEEP] = RET;
	fake_session_end(&fs);
}

static void put_panic_cpu(uint32_t cpu)
{
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_PANIC_CPU, cpu);
}

static void test_panicked(void)
{
	begin(true);
	is_u64((uint64_t)trace_session_guest_panicked(fs.session), 0, "a kernel has not panicked");
	put_panic_cpu(0);
	is_u64((uint64_t)trace_session_guest_panicked(fs.session), 1,
	       "it has when a CPU has begun to");
	fs.fg.base.ram[FAKE_PHYS_TEXT + FAKE_BANNER] ^= 1;
	ok(trace_session_guest_panicked(fs.session) < 0,
	   "of another kernel in its place nothing is known");
	fs.fg.base.ram[FAKE_PHYS_TEXT + FAKE_BANNER] ^= 1;
	fake_session_end(&fs);
}

static void test_crash(bool exitless)
{
	begin(exitless);
	ok(!trace_session_tick(fs.session, NULL) && !trace_session_must_end(fs.session),
	   "a guest that works is traced on");
	put_panic_cpu(1);
	ok(!trace_session_tick(fs.session, NULL) && !trace_session_must_end(fs.session),
	   "so is one that has panicked, to see what it does then");
	put_panic_cpu(UINT32_MAX);
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_KEXEC_CRASH_IMAGE, fake_object());
	ok(!trace_session_tick(fs.session, NULL) && !trace_session_must_end(fs.session),
	   "and one that has loaded a crash kernel");
	put_panic_cpu(1);
	ok(!trace_session_tick(fs.session, NULL), "a guest panics that has one");
	is_str(trace_session_must_end(fs.session),
	       "the guest has crashed, and starts its crash kernel (kdump)",
	       "the session says that tracing must end");
	fake_session_end(&fs);
}

int main(void)
{
	for (int exitless = 0; exitless < 2; exitless++) {
		test_leaving(FAKE_HIBERNATE, "the guest hibernates", exitless);
		test_leaving(FAKE_KEXEC, "the guest starts another kernel (kexec)", exitless);
	}
	test_return_address();
	test_paused();
	test_late();
	test_panicked();
	test_crash(false);
	test_crash(true);
	return tap_done();
}

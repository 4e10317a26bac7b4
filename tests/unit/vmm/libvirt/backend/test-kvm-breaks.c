/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints of a domain that uses KVM: what is written, what is put back, and when the guest is
 * let go on.
 */
#include "tests/unit/vmm/libvirt/backend/kvm-breaks-fixture.h"

static void test_plain(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	ok(!set_all(&f, true) && are_in(&f), "breakpoints are bytes in the guest's memory");
	ok(journal_has_places(&f), "the journal has the guest's own bytes");
	ok(libvirt_guest_holds_breaks(f.g), "the guest's memory has breakpoints in it");
	ok(hit(&f, 0, 0) && hit(&f, 1, 1), "hits of two vCPUs are served");
	is_u64(loans(&f), 0, "no page tables are lent to a vCPU that has the kernel's");
	ok(!set_one(&f, 0, true) && fake_qemu_breaks(f.qemu) == PLACES,
	   "a breakpoint that is there is not set again");
	ok(!set_one(&f, 0, false) && byte_of(&f, 0) == OWN && byte_of(&f, 1) == INT3,
	   "one of them can be taken out");
	ok(!set_one(&f, 0, true) && are_in(&f) && journal_has_places(&f),
	   "and put back, without another line in the journal");
	end_trace(&f);
}

/* A recovery finds the breakpoints of a tracer that dies right after it has set the first one. */
static void test_first(void)
{
	struct journal_contents c;
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_one(&f, 0, true))
		abort();
	c = journal_of(&f);
	ok(c.breaks && c.nr_places == 1, "the journal has the first breakpoint when it is set");
	journal_contents_deinit(&c);
	end_trace(&f);
}

/* The journal cannot say that there may be breakpoints, for a moment. */
static void test_full_at_first(void)
{
	struct journal_contents c;
	struct guest *guest;
	struct fixture f;
	int fd;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	guest = libvirt_guest(f.g);
	libvirt_guest_stop(guest, NULL);
	fd = f.journal.fd;
	f.journal.fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	ok(guest->traps->set_break(guest, gva_of(0), gpa_of(0), true, NULL) < 0 &&
		   !fake_qemu_breaks(f.qemu),
	   "no breakpoint is set that the journal does not have");
	close(f.journal.fd);
	f.journal.fd = fd;
	ok(!guest->traps->set_break(guest, gva_of(0), gpa_of(0), true, NULL),
	   "when there is room again it is set");
	libvirt_guest_resume(guest, NULL);
	c = journal_of(&f);
	ok(c.breaks && c.nr_places == 1, "and the journal has it");
	journal_contents_deinit(&c);
	end_trace(&f);
}

/* The gdbstub refuses, once, the vCPU whose page tables a breakpoint needs. */
static void test_refused_vcpu(void)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	guest = libvirt_guest(f.g);
	f.fault = FAKE_REFUSE;
	f.refuse = "Hc";
	libvirt_guest_stop(guest, NULL);
	ok(guest->traps->set_break(guest, gva_of(0), gpa_of(0), true, NULL) < 0 && !f.refuse,
	   "without a vCPU a breakpoint is an error");
	ok(!guest->traps->set_break(guest, gva_of(0), gpa_of(0), true, NULL),
	   "the next one, in the same stop, chooses a vCPU");
	libvirt_guest_resume(guest, NULL);
	ok(byte_of(&f, 0) == INT3, "it is in the guest's memory");
	end_trace(&f);
}

/* The handler of a hit sets a breakpoint. QEMU has chosen the vCPU that it names, whose page tables
 * map the kernel; if it names none, one is chosen. */
static void test_set_at_hit(enum fake_notices notices)
{
	const bool named = notices == FAKE_ALL_NOTICES;
	struct fixture f;

	set_up(&f, named ? KERNEL_CR3 : USER_CR3, named ? KERNEL_CS : USER_CS);
	fake_qemu_set_notices(f.qemu, notices);
	if (set_one(&f, 0, true))
		abort();
	f.sets = 1;
	ok(hit(&f, 0, 0) && !f.sets && are_in(&f), "the handler of a hit sets a breakpoint");
	if (named)
		is_u64(f.choices, 0, "with the vCPU that the gdbstub has named");
	fake_qemu_set_notices(f.qemu, FAKE_ALL_NOTICES);
	end_trace(&f);
}

static void *leave_entry_code(void *arg)
{
	clock_wait_ms(50);
	fake_qemu_be_kvm(arg, USER_CR3, USER_CS);
	return NULL;
}

/* A stop finds the vCPUs in the kernel's first instructions, with the page tables of user mode. */
static void test_stopped_out_of_reach(bool first, bool on)
{
	struct fixture f;
	pthread_t thread;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (!first && (set_all(&f, true) || (on && set_all(&f, false))))
		abort();
	fake_qemu_be_kvm(f.qemu, USER_CR3, KERNEL_CS);
	if (pthread_create(&thread, NULL, leave_entry_code, f.qemu))
		abort();
	is_u64((uint64_t)-set_all(&f, on), 0,
	       on ? "the stop waits for a moment at which breakpoints can be set"
		  : "and for one at which they can be removed");
	pthread_join(thread, NULL);
	ok((on ? are_in : are_out)(&f) && fake_qemu_runs(f.qemu), "the guest runs with %s",
	   on ? "them" : "its own bytes");
	end_trace(&f);
}

static void test_refusals(void)
{
	struct guest *guest;
	struct fixture f;
	int ret = 0;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	guest = libvirt_guest(f.g);
	libvirt_guest_stop(guest, NULL);
	ok(guest->traps->set_break(guest, gva_of(0), gpa_of(1), false, NULL) == -ESTALE,
	   "a breakpoint whose code has moved is refused");
	for (unsigned int i = 0; !ret; i++)
		ret = guest->traps->set_break(guest, gva_of(i + 10), gpa_of(i + 10), false, NULL);
	is_u64((uint64_t)-ret, ENOSPC, "there is a limit of breakpoints");
	libvirt_guest_resume(guest, NULL);
	ok(are_in(&f), "nothing of that changes the others");
	end_trace(&f);
}

static bool is_clean(struct fixture *f)
{
	return are_out(f) && fake_qemu_runs(f->qemu) && !has_failed(f);
}

/* The domain is reset while a hit is served: what answers the hit must not reach the next guest. */
static void test_reset_at_hit(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	f.fault = FAKE_RESET;
	f.refuse = "G";
	fake_qemu_reach(f.qemu, 1, gva_of(0));
	ok(await(&f, is_clean) && f.hits == 1,
	   "a domain that was reset at a hit runs without breakpoints");
	ok(fake_qemu_rip(f.qemu, 1) == FAKE_RESET_RIP && fake_qemu_resets(f.qemu) == 2,
	   "its vCPUs have the registers of a reset");
	tear_down(&f);
}

static bool stops_without_stub(struct fixture *f)
{
	struct guest *guest = libvirt_guest(f->g);
	bool without = !libvirt_guest_stop(guest, NULL) && !fake_qemu_has_debugger(f->qemu);

	return !libvirt_guest_resume(guest, NULL) && without;
}

/* Before the first one is set, and after the last one is removed. */
static void test_no_breaks(uint64_t cr3, uint32_t cs)
{
	struct fixture f;

	set_up(&f, cr3, cs);
	ok(stops_without_stub(&f), "a stop does not open the gdbstub before a breakpoint is set");
	set_all(&f, true);
	ok(!stops_without_stub(&f), "with breakpoints it is open");
	set_all(&f, false);
	ok(stops_without_stub(&f), "a stop does not open it after they are removed");
	end_trace(&f);
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_plain();
	test_first();
	test_full_at_first();
	test_refused_vcpu();
	test_set_at_hit(FAKE_ALL_NOTICES);
	test_set_at_hit(FAKE_NO_NOTICES);
	test_stopped_out_of_reach(true, true);
	test_stopped_out_of_reach(false, true);
	test_stopped_out_of_reach(false, false);
	test_no_breaks(KERNEL_CR3, KERNEL_CS);
	test_no_breaks(USER_CR3, USER_CS);
	test_refusals();
	test_reset_at_hit();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's page tables, lent to a vCPU in user mode so that QEMU finds the place of a
 * breakpoint: when, and that the vCPU gets its own back.
 */
#include "tests/unit/vmm/libvirt/backend/kvm-breaks-fixture.h"

/* Page table isolation: no vCPU has the kernel's page tables. */
static void test_loan(void)
{
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	ok(!set_all(&f, true) && are_in(&f) && own_tables(&f),
	   "a vCPU in user mode borrows the kernel's page tables for a moment");
	is_u64(loans(&f), PLACES, "the loans are counted");
	ok(journal_has_places(&f), "the journal has no loan that is open");
	ok(hit(&f, 1, 0) && own_tables(&f), "a hit is served");
	end_trace(&f);
}

/* The gdbstub's connection is lost while a vCPU has borrowed page tables, at packet `refuse`. With
 * other breakpoints, or without. */
static void test_lost_loan(const char *refuse, int spare, bool others)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	if (others && set_all(&f, true))
		abort();
	guest = libvirt_guest(f.g);
	f.refuse = refuse;
	f.spare = spare;
	libvirt_guest_stop(guest, NULL);
	guest->traps->set_break(guest, gva_of(PLACES), gpa_of(PLACES), true, NULL);
	ok(!f.refuse, "the connection is lost at %s", refuse);
	ok(!libvirt_guest_resume(guest, NULL) && fake_qemu_runs(f.qemu) && own_tables(&f),
	   "the vCPU has its own page tables back when the guest goes on");
	ok(!journal_has_loan(&f), "the journal says so");
	if (libvirt_guest_stop(guest, NULL) ||
	    guest->traps->set_break(guest, gva_of(PLACES), gpa_of(PLACES), false, NULL) ||
	    libvirt_guest_resume(guest, NULL))
		abort();
	ok(own_tables(&f), "as after the next loan");
	end_trace(&f);
}

/* Without libvirt the connection cannot be replaced: the guest must not go on like that. */
static void test_lost_for_good(void)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	guest = libvirt_guest(f.g);
	f.refuse = "Z0";
	libvirt_guest_stop(guest, NULL);
	libvirt_guest_open_stub(f.g, NULL);
	fake_qemu_set_dead_libvirtd(f.qemu, true);
	guest->traps->set_break(guest, gva_of(0), gpa_of(0), true, NULL);
	ok(libvirt_guest_resume(guest, NULL) && !fake_qemu_runs(f.qemu) && journal_has_loan(&f),
	   "a guest whose vCPU has borrowed page tables stays stopped, and the journal says why");
	fake_qemu_set_dead_libvirtd(f.qemu, false);
	ok(!libvirt_guest_stop(guest, NULL) && !libvirt_guest_resume(guest, NULL) &&
		   own_tables(&f) && fake_qemu_runs(f.qemu),
	   "libvirt is back: the vCPU gets its own, and the guest runs");
	tear_down(&f);
}

/* Neither a vCPU's tables nor those that it could borrow map the kernel. */
static void test_no_loan(void)
{
	struct fixture f;
	struct error err;

	set_up(&f, 0x80000, KERNEL_CS);
	ok(set_one(&f, 0, true) == -EAGAIN && are_out(&f) && fake_qemu_runs(f.qemu),
	   "without page tables of the kernel a breakpoint is refused for now");
	ok(!libvirt_guest_check_breaks(f.g, &err), "and is not counted as one");
	tear_down(&f);
	set_up(&f, KERNEL_CR3 | 0x1000, USER_CS);
	fake_qemu_be_kvm(f.qemu, 0x80000 | 0x1000, USER_CS);
	ok(set_one(&f, 0, true) == -EAGAIN && fake_qemu_cr3(f.qemu, 0) == (0x80000 | 0x1000),
	   "tables that do not map the kernel are not lent");
	tear_down(&f);
}

#define HIGH_CR3 (UINT64_C(1) << 62) /* LAM_U48: Intel SDM vol. 3, 2.5 */
enum { USER32_CS = 0x23 };

/* With page tables that could be lent, but in the kernel: the loan could not be told later. */
static void test_no_kernel_loan(void)
{
	struct fixture f;

	set_up(&f, USER_CR3, KERNEL_CS);
	ok(set_one(&f, 0, true) == -EAGAIN && are_out(&f) && own_tables(&f),
	   "to a vCPU in the kernel nothing is lent");
	tear_down(&f);
	set_up(&f, USER_CR3 | HIGH_CR3, USER32_CS);
	ok(set_one(&f, 0, true) == -EAGAIN && are_out(&f) &&
		   fake_qemu_cr3(f.qemu, 0) == (USER_CR3 | HIGH_CR3),
	   "nor to one in 32-bit code, of whose CR3 the gdbstub would set the lower half");
	tear_down(&f);
	set_up(&f, USER_CR3, USER32_CS);
	ok(!set_one(&f, 0, true) && own_tables(&f), "it is if the upper half is 0");
	set_one(&f, 0, false);
	tear_down(&f);
}

/* The loan that a dead tracer has left. */
static void test_end_loan(void)
{
	const struct journal_loan loan = {.vcpu = 1, .cr3 = USER_CR3, .lent = KERNEL_CR3};
	const struct journal_loan nobody = {.vcpu = VCPUS + 7, .cr3 = USER_CR3};
	struct fixture f;

	set_up(&f, KERNEL_CR3, USER_CS);
	libvirt_guest_stop(libvirt_guest(f.g), NULL);
	libvirt_guest_open_stub(f.g, NULL);
	ok(!libvirt_guest_end_loan(f.g, &loan, NULL) && fake_qemu_cr3(f.qemu, 1) == USER_CR3 &&
		   fake_qemu_cr3(f.qemu, 0) == KERNEL_CR3,
	   "a vCPU gets its own page tables back");
	libvirt_guest_resume(libvirt_guest(f.g), NULL);
	fake_qemu_be_kvm(f.qemu, 0x80000, USER_CS);
	libvirt_guest_stop(libvirt_guest(f.g), NULL);
	libvirt_guest_open_stub(f.g, NULL);
	ok(!libvirt_guest_end_loan(f.g, &loan, NULL) && fake_qemu_cr3(f.qemu, 1) == 0x80000,
	   "one that has others by now keeps them");
	ok(libvirt_guest_end_loan(f.g, &nobody, NULL) == -EPROTO,
	   "a loan of a vCPU that is not there is refused");
	libvirt_guest_resume(libvirt_guest(f.g), NULL);
	fake_qemu_be_kvm(f.qemu, KERNEL_CR3, KERNEL_CS);
	libvirt_guest_stop(libvirt_guest(f.g), NULL);
	libvirt_guest_open_stub(f.g, NULL);
	ok(!libvirt_guest_end_loan(f.g, &loan, NULL) && fake_qemu_cr3(f.qemu, 1) == KERNEL_CR3,
	   "one that runs in the kernel has the kernel's because it has gone on: it keeps them");
	libvirt_guest_resume(libvirt_guest(f.g), NULL);
	tear_down(&f);
}

/* The gdbstub sets a breakpoint, and refuses to give the vCPU its own page tables back. */
static void test_counted(void)
{
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	f.fault = FAKE_REFUSE;
	f.spare = 1;
	f.refuse = "P1d";
	ok(set_one(&f, 0, true) == -EIO && runs_with_own_tables(&f),
	   "a breakpoint whose loan cannot be ended at once is an error");
	ok(byte_of(&f, 0) == INT3 && libvirt_guest_holds_breaks(f.g) && hit(&f, 0, 0),
	   "it is in the guest's memory, counted, and served");
	end_trace(&f);
}

/* The same for one that the gdbstub does not set: there are no breakpoints when the guest goes on.
 */
static void test_refused_all(void)
{
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	f.fault = FAKE_REFUSE;
	f.spare = 1;
	f.refuse = "P1d";
	f.also = "Z0";
	ok(set_one(&f, 0, true) < 0 && !f.refuse && runs_with_own_tables(&f),
	   "without breakpoints, too, a guest goes on with its own page tables only");
	ok(!journal_has_loan(&f), "and the journal says so");
	f.also = NULL;
	end_trace(&f);
}

/*
 * The disk under the journal fills up while a vCPU has borrowed page tables. `fault`: of the packet
 * that ends the loan.
 */
static void test_full_disk(enum fake_fault fault)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	guest = libvirt_guest(f.g);
	f.full = true;
	f.fault = fault;
	f.spare = 1;
	f.refuse = "P1d";
	libvirt_guest_stop(guest, NULL);
	ok(guest->traps->set_break(guest, gva_of(0), gpa_of(0), true, NULL),
	   "a loan whose end the journal does not have is an error");
	libvirt_guest_resume(guest, NULL);
	ok(journal_has_loan(&f) && runs_with_own_tables(&f),
	   "the guest goes on with its own page tables, though the journal cannot say so");
	tear_down(&f);
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_loan();
	test_lost_loan("Z0", 0, true);
	test_lost_loan("Z0", 0, false);
	test_lost_loan("P1d", 0, false);
	test_lost_loan("P1d", 1, true);
	test_lost_loan("Hc", 0, false);
	test_lost_for_good();
	test_no_loan();
	test_no_kernel_loan();
	test_end_loan();
	test_counted();
	test_refused_all();
	test_full_disk(FAKE_OBEY);
	test_full_disk(FAKE_REFUSE);
	test_full_disk(FAKE_GARBAGE);
	return tap_done();
}

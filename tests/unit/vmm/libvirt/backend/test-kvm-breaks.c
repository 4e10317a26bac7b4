/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints of a domain that uses KVM: bytes in its memory, which QEMU finds with a vCPU's page
 * tables. What is written, what is put back, and when the guest is let go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/fake-int3.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/internal.h"

enum {
	PLACES = 2,
	VCPUS = 2,
	KERNEL_CR3 = 0x10000,
	USER_CR3 = KERNEL_CR3 | 0x1000, /* page table isolation */
	TABLES = 0x12000,
	TEXT = 0x40000,
	KERNEL_CS = 0x10,
	USER_CS = 0x33,
	INT3 = 0xcc,
	OWN = 0x55, /* the guest's bytes are this and the ones behind */
	PATIENCE_MS = 3000,
};

static const uint64_t text_gva = 0xffffffff81000000;

struct fixture {
	struct fake_qemu *qemu;
	struct libvirt_domain domain;
	struct libvirt_journal journal;
	struct libvirt_guest *g;
	_Atomic unsigned int hits, gaps;
	_Atomic uint64_t gap_ns; /* of all */
	const char *refuse; /* a packet that begins so meets `fault`, after `spare` others */
	const char *also;   /* all packets that begin so are refused */
	enum fake_fault fault;
	int spare, times; /* NULL `refuse` after so many */
	_Atomic unsigned int choices; /* packets that choose a vCPU for a breakpoint */
	_Atomic int sets; /* what the handler sets when a hit comes; 0: nothing */
	bool full;        /* the journal's disk is, from that packet on */
};

static uint64_t gva_of(unsigned int i)
{
	return text_gva + 0x10 * i;
}

static uint64_t gpa_of(unsigned int i)
{
	return TEXT + 0x10 * i;
}

static uint8_t byte_of(struct fixture *f, unsigned int i)
{
	return fake_qemu_byte(f->qemu, gpa_of(i));
}

static void set_byte(struct fixture *f, unsigned int i, uint8_t byte)
{
	fake_qemu_set_byte(f->qemu, gpa_of(i), byte);
}

static void set_from_handler(struct fixture *f)
{
	struct guest *guest = libvirt_guest(f->g);
	const unsigned int i = (unsigned int)f->sets;

	f->choices = 0;
	f->sets = 0;
	if (guest->traps->set_break(guest, gva_of(i), gpa_of(i), true, NULL))
		f->sets = -1;
}

static bool on_trap(void *arg, struct guest_trap *trap)
{
	struct fixture *f = arg;

	f->gap_ns += trap->gap_ns;
	f->gaps += trap->gap_ns != 0;
	f->hits += !trap->gap_ns;
	if (f->sets && !trap->gap_ns)
		set_from_handler(f);
	trap->regs.rip++;
	return true;
}

static void on_beat(void *arg, bool exposed)
{
	(void)arg;
	(void)exposed;
}

static enum fake_fault on_packet(void *arg, const char *packet)
{
	struct fixture *f = arg;

	f->choices += !strncmp(packet, "Hc", 2);
	if (f->also && !strncmp(packet, f->also, strlen(f->also)))
		return FAKE_REFUSE;
	if (!f->refuse || strncmp(packet, f->refuse, strlen(f->refuse)) || f->spare-- > 0)
		return FAKE_OBEY;
	if (--f->times <= 0)
		f->refuse = NULL;
	if (f->full && fcntl(f->journal.fd, F_ADD_SEALS, F_SEAL_GROW))
		abort();
	return f->fault;
}

static int set_one(struct fixture *f, unsigned int i, bool on)
{
	struct guest *guest = libvirt_guest(f->g);
	struct error err;
	int ret = libvirt_guest_stop(guest, NULL);

	if (!ret)
		ret = guest->traps->set_break(guest, gva_of(i), gpa_of(i), on, &err);
	libvirt_guest_resume(guest, NULL);
	return ret;
}

static int set_all(struct fixture *f, bool on)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < PLACES; i++)
		ret = set_one(f, i, on);
	return ret;
}

/* The vCPUs have these page tables. */
static void set_up(struct fixture *f, uint64_t cr3, uint32_t cs)
{
	uint64_t next = TABLES;
	struct fake_memory memory;
	struct guest *guest;

	*f = (struct fixture){
		.qemu = fake_qemu_create(VCPUS),
		.fault = FAKE_GARBAGE,
		.journal = {.fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING),
			    .compact_at = 1 << 20}};
	memory = (struct fake_memory){fake_qemu_ram(f->qemu), FAKE_QEMU_RAM};
	fake_map(&memory, KERNEL_CR3, text_gva, TEXT, &next);
	for (unsigned int i = 0; i < PLACES; i++)
		set_byte(f, i, (uint8_t)(OWN + i));
	fake_qemu_be_kvm(f->qemu, cr3, cs);
	f->domain = fake_qemu_domain(f->qemu);
	if (libvirt_guest_create(&f->domain, &f->journal, false, &f->g, NULL) ||
	    libvirt_guest_beat(f->g, on_beat, NULL, NULL) ||
	    libvirt_guest_use_traps(f->g, text_gva, TEXT, NULL))
		abort();
	guest = libvirt_guest(f->g);
	guest->traps->set_handler(guest, on_trap, f, NULL);
	fake_qemu_set_fault(f->qemu, on_packet, f);
}

static void tear_down(struct fixture *f)
{
	libvirt_guest_destroy(f->g);
	fake_qemu_destroy(f->qemu);
	close(f->journal.fd);
}

static bool await(struct fixture *f, bool (*is_so)(struct fixture *f))
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (is_so(f))
			return true;
		clock_wait_ms(1);
	}
	return false;
}

static bool are_in(struct fixture *f)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (byte_of(f, i) != INT3)
			return false;
	return fake_qemu_breaks(f->qemu) == PLACES;
}

static bool are_out(struct fixture *f)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (byte_of(f, i) != OWN + i)
			return false;
	return !fake_qemu_breaks(f->qemu);
}

static bool has_failed(struct fixture *f)
{
	struct libvirt_trap_counts counts;

	return libvirt_guest_trap_counts(f->g, &counts, NULL);
}

static uint64_t loans(struct fixture *f)
{
	struct libvirt_trap_counts counts;

	libvirt_guest_trap_counts(f->g, &counts, NULL);
	return counts.loans;
}

static bool hit(struct fixture *f, unsigned int vcpu, unsigned int i)
{
	const unsigned int before = f->hits;

	fake_qemu_reach(f->qemu, vcpu, gva_of(i));
	for (int ms = 0; ms < PATIENCE_MS && !has_failed(f); ms++) {
		if (f->hits > before && fake_qemu_runs(f->qemu))
			return true;
		clock_wait_ms(1);
	}
	return false;
}

static struct journal_contents journal_of(struct fixture *f)
{
	struct journal_contents contents;

	if (libvirt_journal_read(&f->journal, &contents, NULL))
		abort();
	return contents;
}

static bool journal_has_loan(struct fixture *f)
{
	struct journal_contents c = journal_of(f);
	bool lent = c.lent;

	journal_contents_deinit(&c);
	return lent;
}

/* Whether a recovery would put these bytes back. */
static bool journal_has_places(struct fixture *f)
{
	struct journal_contents c = journal_of(f);
	bool good = c.breaks && c.nr_places == PLACES && !c.lent;

	for (size_t i = 0; good && i < PLACES; i++)
		good = c.places[i].gpa == gpa_of((unsigned int)i) && c.places[i].size == 1 &&
		       c.places[i].original[0] == OWN + i;
	journal_contents_deinit(&c);
	return good;
}

static void end_trace(struct fixture *f)
{
	ok(!set_all(f, false) && are_out(f) && fake_qemu_runs(f->qemu) &&
		   !fake_qemu_has_debugger(f->qemu) && !libvirt_guest_check_breaks(f->g, NULL) &&
		   !libvirt_guest_holds_breaks(f->g),
	   "in the end the guest has its bytes, and runs without gdbstub");
	tear_down(f);
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

static bool own_tables(struct fixture *f)
{
	return fake_qemu_cr3(f->qemu, 0) == USER_CR3 && fake_qemu_cr3(f->qemu, 1) == USER_CR3;
}

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

/* With page tables that could be lent, but in the kernel: the loan could not be told later. */
#define HIGH_CR3 (UINT64_C(1) << 62) /* LAM_U48: Intel SDM vol. 3, 2.5 */
enum { USER32_CS = 0x23 };

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

static bool is_parked(struct fixture *f)
{
	return are_out(f) && !libvirt_guest_holds_breaks(f->g) &&
	       !libvirt_guest_check_breaks(f->g, NULL);
}

/* All are set, and the administrator has suspended the domain. */
static void park_all(struct fixture *f)
{
	if (set_all(f, true))
		abort();
	fake_qemu_suspend(f->qemu);
	await(f, is_parked);
}

static bool is_back(struct fixture *f)
{
	return are_in(f) && f->gaps == 1 && libvirt_guest_holds_breaks(f->g) &&
	       fake_qemu_runs(f->qemu);
}

/* The administrator suspends the domain: its memory may be saved. `cr3`: of the vCPUs then. */
static void test_parked(uint64_t cr3, uint32_t cs)
{
	struct fixture f;

	set_up(&f, cr3, cs);
	if (set_all(&f, true))
		abort();
	fake_qemu_suspend(f.qemu);
	ok(await(&f, is_parked) && !fake_qemu_runs(f.qemu),
	   "a domain that is suspended has its own bytes, and stays suspended");
	clock_wait_ms(300);
	ok(is_parked(&f) && !fake_qemu_runs(f.qemu) && !f.gaps, "as long as it is");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	ok(hit(&f, 0, 1) && hit(&f, 1, 0) && !has_failed(&f), "and served");
	end_trace(&f);
}

/* --- while libvirt answers nothing ------------------------------------------------------------ */

static void *stop_and_resume(void *arg)
{
	struct fixture *f = arg;
	struct guest *guest = libvirt_guest(f->g);

	if (!guest->control->stop(guest, NULL))
		guest->control->resume(guest, NULL);
	return NULL;
}

static bool is_waited_for(struct fixture *f)
{
	return fake_qemu_nr_waiting(f->qemu);
}

/* libvirt stops the domain to save it, and someone waits for libvirt then. */
static void save(struct fixture *f, const char *who)
{
	ok(await(f, is_waited_for), "%s waits for libvirt, which is busy", who);
	fake_qemu_suspend(f->qemu);
	ok(await(f, is_parked), "a domain that is saved meanwhile has its own bytes");
	fake_qemu_set_busy_libvirtd(f->qemu, false);
}

static void test_busy_at_stop(void)
{
	struct fixture f;
	pthread_t thread;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	fake_qemu_set_busy_libvirtd(f.qemu, true);
	if (pthread_create(&thread, NULL, stop_and_resume, &f))
		abort();
	save(&f, "a stop");
	pthread_join(thread, NULL);
	ok(is_parked(&f) && !fake_qemu_runs(f.qemu) && !has_failed(&f),
	   "the stop finds it suspended, and leaves it alone");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	end_trace(&f);
}

/* `hits`: before; without, a look after a while without any. */
static void test_busy_at_look(unsigned int hits)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	fake_qemu_set_busy_libvirtd(f.qemu, true);
	for (unsigned int i = 0; i < hits; i++)
		hit(&f, 0, i % PLACES);
	ok(f.hits == hits && !has_failed(&f), "%u hits are served", hits);
	save(&f, "the thread that asks");
	ok(!fake_qemu_runs(f.qemu) && !has_failed(&f), "and stays suspended");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	end_trace(&f);
}

static bool is_parked_and_runs(struct fixture *f)
{
	return is_parked(f) && fake_qemu_runs(f->qemu) && !has_failed(f);
}

/* When the domain is resumed, its vCPUs are in the kernel's first instructions, with the page tables of
 * user mode. */
static void test_put_back_later(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	park_all(&f);
	fake_qemu_be_kvm(f.qemu, USER_CR3, KERNEL_CS);
	fake_qemu_resume(f.qemu);
	clock_wait_ms(300);
	ok(await(&f, is_parked_and_runs) && !f.gaps,
	   "a domain whose page tables do not map the kernel runs on without breakpoints");
	fake_qemu_be_kvm(f.qemu, USER_CR3, USER_CS);
	ok(await(&f, is_back) && f.gap_ns > 300000000,
	   "they are put back when it can be done, and all of the time is a gap");
	end_trace(&f);
}

static void *leave_entry_code(void *arg)
{
	clock_wait_ms(50);
	fake_qemu_be_kvm(arg, USER_CR3, USER_CS);
	return NULL;
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

static bool runs_with_own_tables(struct fixture *f)
{
	return fake_qemu_runs(f->qemu) && own_tables(f);
}

/* The gdbstub refuses to set CR3 `times` times, when a breakpoint that was parked is put back and
 * the vCPU should get its own page tables back. The connection stays. */
static void test_refused_loan(unsigned int times)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	guest = libvirt_guest(f.g);
	park_all(&f);
	f.fault = FAKE_REFUSE;
	f.spare = 1;
	f.times = times;
	f.refuse = "P1d";
	fake_qemu_resume(f.qemu);
	ok(await(&f, has_failed), "a loan that cannot be ended at once ends the trace");
	if (times == 1) {
		ok(await(&f, runs_with_own_tables), "the guest goes on with its own page tables");
	} else {
		ok(!fake_qemu_runs(f.qemu) && journal_has_loan(&f),
		   "a guest whose vCPU has borrowed page tables does not go on");
		f.refuse = NULL;
		ok(!libvirt_guest_stop(guest, NULL) && !libvirt_guest_resume(guest, NULL) &&
			   runs_with_own_tables(&f),
		   "it does when the gdbstub gives the vCPU its own back");
	}
	ok(are_out(&f), "without breakpoints, which are served no longer");
	end_trace(&f);
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

/* While breakpoints are parked others are set and taken out. */
static void test_set_while_parked(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_one(&f, 0, true))
		abort();
	fake_qemu_suspend(f.qemu);
	for (int i = 0; i < PATIENCE_MS && fake_qemu_breaks(f.qemu); i++)
		clock_wait_ms(1);
	ok(!set_one(&f, 1, true) && are_out(&f) && !fake_qemu_runs(f.qemu),
	   "a breakpoint of a suspended domain is not in its memory yet");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "it is when the domain runs");
	end_trace(&f);
	set_up(&f, KERNEL_CR3, KERNEL_CS);
	fake_qemu_suspend(f.qemu);
	ok(!set_all(&f, true) && are_out(&f) && is_parked(&f),
	   "the first breakpoints of a suspended domain wait until it runs");
	fake_qemu_resume(f.qemu);
	ok(await(&f, are_in), "then they are in its memory");
	end_trace(&f);
}

/* The guest changes its code while the breakpoints are parked. */
static void test_changed(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	park_all(&f);
	set_byte(&f, 1, 0x90);
	fake_qemu_resume(f.qemu);
	ok(await(&f, has_failed), "a guest that has changed its code ends the trace");
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	ok(fake_qemu_runs(f.qemu) && byte_of(&f, 0) == OWN && byte_of(&f, 1) == 0x90 &&
		   !fake_qemu_breaks(f.qemu),
	   "it keeps its byte, no other breakpoint is put back, and it runs");
	ok(!libvirt_guest_check_breaks(f.g, NULL), "nothing is left to be taken out");
	tear_down(&f);
}

/* A place whose own byte is that of a breakpoint. */
static void test_own_int3(void)
{
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	set_byte(&f, 0, INT3);
	if (set_all(&f, true))
		abort();
	fake_qemu_suspend(f.qemu);
	for (int i = 0; i < PATIENCE_MS && libvirt_guest_holds_breaks(f.g); i++)
		clock_wait_ms(1);
	ok(byte_of(&f, 0) == INT3 && byte_of(&f, 1) == OWN + 1,
	   "an INT3 of the guest's own stays where it was");
	fake_qemu_resume(f.qemu);
	tear_down(&f);
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

/* The gdbstub fails when the second breakpoint is put back: all or none. */
static void test_half_back(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	park_all(&f);
	f.spare = 1;
	f.refuse = "Z0";
	fake_qemu_resume(f.qemu);
	ok(await(&f, has_failed), "a gdbstub that fails meanwhile ends the trace");
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	ok(await(&f, are_out) && fake_qemu_runs(f.qemu),
	   "the guest runs with its own bytes, all of them");
	tear_down(&f);
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

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_plain();
	test_first();
	test_full_at_first();
	test_refused_vcpu();
	test_loan();
	test_set_at_hit(FAKE_ALL_NOTICES);
	test_set_at_hit(FAKE_NO_NOTICES);
	test_lost_loan("Z0", 0, true);
	test_lost_loan("Z0", 0, false);
	test_lost_loan("P1d", 0, false);
	test_lost_loan("P1d", 1, true);
	test_lost_loan("Hc", 0, false);
	test_lost_for_good();
	test_no_loan();
	test_no_kernel_loan();
	test_end_loan();
	test_parked(KERNEL_CR3, KERNEL_CS);
	test_parked(USER_CR3, USER_CS);
	test_put_back_later();
	test_no_breaks(KERNEL_CR3, KERNEL_CS);
	test_no_breaks(USER_CR3, USER_CS);
	test_stopped_out_of_reach(true, true);
	test_stopped_out_of_reach(false, true);
	test_stopped_out_of_reach(false, false);
	test_refused_loan(1);
	test_refused_loan(1000);
	test_counted();
	test_refused_all();
	test_full_disk(FAKE_OBEY);
	test_full_disk(FAKE_REFUSE);
	test_full_disk(FAKE_GARBAGE);
	test_set_while_parked();
	test_changed();
	test_busy_at_stop();
	test_busy_at_look(0);
	test_busy_at_look(20);
	test_own_int3();
	test_refusals();
	test_half_back();
	test_reset_at_hit();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_LIBVIRT_BACKEND_KVM_BREAKS_FIXTURE_H
#define SONDE_TESTS_UNIT_VMM_LIBVIRT_BACKEND_KVM_BREAKS_FIXTURE_H

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
#include "tests/unit/vmm/libvirt/backend/traced-guest.h"

/* A domain that uses KVM: breakpoints at PLACES places are bytes in its memory, which QEMU finds
 * with a vCPU's page tables. */
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
	const char *refuse;      /* a packet that begins so meets `fault`, after `spare` others */
	const char *also;        /* all packets that begin so are refused */
	enum fake_fault fault;
	int spare, times;             /* NULL `refuse` after so many */
	_Atomic unsigned int choices; /* packets that choose a vCPU for a breakpoint */
	_Atomic int sets;             /* what the handler sets when a hit comes; 0: nothing */
	bool full;                    /* the journal's disk is, from that packet on */
};

static inline uint64_t gva_of(unsigned int i)
{
	return text_gva + 0x10 * i;
}

static inline uint64_t gpa_of(unsigned int i)
{
	return TEXT + 0x10 * i;
}

static inline uint8_t byte_of(struct fixture *f, unsigned int i)
{
	return fake_qemu_byte(f->qemu, gpa_of(i));
}

static inline void set_byte(struct fixture *f, unsigned int i, uint8_t byte)
{
	fake_qemu_set_byte(f->qemu, gpa_of(i), byte);
}

static inline void set_from_handler(struct fixture *f)
{
	struct guest *guest = libvirt_guest(f->g);
	const unsigned int i = (unsigned int)f->sets;

	f->choices = 0;
	f->sets = 0;
	if (guest->traps->set_break(guest, gva_of(i), gpa_of(i), true, NULL))
		f->sets = -1;
}

static inline bool on_trap(void *arg, struct guest_trap *trap)
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

static inline enum fake_fault on_packet(void *arg, const char *packet)
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

static inline int set_one(struct fixture *f, unsigned int i, bool on)
{
	struct guest *guest = libvirt_guest(f->g);
	struct error err;
	int ret = libvirt_guest_stop(guest, NULL);

	if (!ret)
		ret = guest->traps->set_break(guest, gva_of(i), gpa_of(i), on, &err);
	libvirt_guest_resume(guest, NULL);
	return ret;
}

static inline int set_all(struct fixture *f, bool on)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < PLACES; i++)
		ret = set_one(f, i, on);
	return ret;
}

/* The vCPUs have these page tables. */
static inline void set_up(struct fixture *f, uint64_t cr3, uint32_t cs)
{
	uint64_t next = TABLES;
	struct fake_memory memory;

	*f = (struct fixture){
		.qemu = fake_qemu_create(VCPUS),
		.fault = FAKE_GARBAGE,
		.journal = {.folder = -1,
			    .fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING),
			    .compact_at = 1 << 20}};
	memory = (struct fake_memory){fake_qemu_ram(f->qemu), FAKE_QEMU_RAM};
	fake_map(&memory, KERNEL_CR3, text_gva, TEXT, &next);
	for (unsigned int i = 0; i < PLACES; i++)
		set_byte(f, i, (uint8_t)(OWN + i));
	fake_qemu_be_kvm(f->qemu, cr3, cs);
	f->domain = fake_qemu_domain(f->qemu);
	f->g = create_traced(&f->domain, &f->journal, text_gva, TEXT, on_trap, f);
	fake_qemu_set_fault(f->qemu, on_packet, f);
}

static inline void tear_down(struct fixture *f)
{
	libvirt_guest_destroy(f->g);
	fake_qemu_destroy(f->qemu);
	libvirt_journal_close(&f->journal);
}

static inline bool await(struct fixture *f, bool (*is_so)(struct fixture *f))
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (is_so(f))
			return true;
		clock_wait_ms(1);
	}
	return false;
}

static inline bool are_in(struct fixture *f)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (byte_of(f, i) != INT3)
			return false;
	return fake_qemu_breaks(f->qemu) == PLACES;
}

static inline bool are_out(struct fixture *f)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (byte_of(f, i) != OWN + i)
			return false;
	return !fake_qemu_breaks(f->qemu);
}

static inline bool has_failed(struct fixture *f)
{
	struct libvirt_trap_counts counts;

	return libvirt_guest_trap_counts(f->g, &counts, NULL);
}

static inline uint64_t loans(struct fixture *f)
{
	struct libvirt_trap_counts counts;

	libvirt_guest_trap_counts(f->g, &counts, NULL);
	return counts.loans;
}

static inline bool hit(struct fixture *f, unsigned int vcpu, unsigned int i)
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

static inline struct journal_contents journal_of(struct fixture *f)
{
	struct journal_contents contents;

	if (libvirt_journal_read(&f->journal, &contents, NULL))
		abort();
	return contents;
}

static inline bool journal_has_loan(struct fixture *f)
{
	struct journal_contents c = journal_of(f);
	bool lent = c.lent;

	journal_contents_deinit(&c);
	return lent;
}

/* Whether a recovery would put these bytes back. */
static inline bool journal_has_places(struct fixture *f)
{
	struct journal_contents c = journal_of(f);
	bool good = c.breaks && c.nr_places == PLACES && !c.lent;

	for (size_t i = 0; good && i < PLACES; i++)
		good = c.places[i].gpa == gpa_of((unsigned int)i) && c.places[i].size == 1 &&
		       c.places[i].original[0] == OWN + i;
	journal_contents_deinit(&c);
	return good;
}

static inline bool own_tables(struct fixture *f)
{
	return fake_qemu_cr3(f->qemu, 0) == USER_CR3 && fake_qemu_cr3(f->qemu, 1) == USER_CR3;
}

static inline void end_trace(struct fixture *f)
{
	ok(!set_all(f, false) && are_out(f) && fake_qemu_runs(f->qemu) &&
		   !fake_qemu_has_debugger(f->qemu) && !libvirt_guest_check_breaks(f->g, NULL) &&
		   !libvirt_guest_holds_breaks(f->g),
	   "in the end the guest has its bytes, and runs without gdbstub");
	tear_down(f);
}

static inline bool runs_with_own_tables(struct fixture *f)
{
	return fake_qemu_runs(f->qemu) && own_tables(f);
}

#endif

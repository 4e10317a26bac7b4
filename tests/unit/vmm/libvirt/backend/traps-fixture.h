/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_LIBVIRT_BACKEND_TRAPS_FIXTURE_H
#define SONDE_TESTS_UNIT_VMM_LIBVIRT_BACKEND_TRAPS_FIXTURE_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/fake-qemu.h"
#include "tests/unit/vmm/libvirt/backend/traced-guest.h"

/* A fake domain with breakpoints at PLACES places, whose hits are counted and served. */
enum {
	PLACES = 2,
	FIRST_GVA = 0x1000,
	STEP = 0x100,
	PATIENCE_MS = 3000,
};

struct fixture {
	struct fake_qemu *qemu;
	struct libvirt_domain domain;
	struct libvirt_journal journal;
	struct libvirt_guest *g;
	_Atomic unsigned int hits, gaps;
	_Atomic uint64_t gap_ns; /* the last one */
	atomic_bool disown;      /* hits are not the tracer's */

	enum fake_fault fault;
	int countdown; /* the packet that meets the fault; 0: it has, or there is none */
	char met[40];
};

static inline uint64_t place(unsigned int i)
{
	return FIRST_GVA + i * STEP;
}

static inline bool on_trap(void *arg, struct guest_trap *trap)
{
	struct fixture *f = arg;

	if (trap->gap_ns) {
		f->gaps++;
		f->gap_ns = trap->gap_ns;
		return true;
	}
	f->hits++;
	if (f->disown)
		return false;
	trap->regs.rip++;
	return true;
}

static inline enum fake_fault on_packet(void *arg, const char *packet)
{
	struct fixture *f = arg;

	if (!f->countdown || --f->countdown)
		return FAKE_OBEY;
	snprintf(f->met, sizeof(f->met), "%.8s", packet);
	return f->fault;
}

static inline int set_all(struct fixture *f, bool on)
{
	struct guest *guest = libvirt_guest(f->g);
	int ret = libvirt_guest_stop(guest, NULL);

	if (ret)
		return ret;
	for (unsigned int i = 0; !ret && i < PLACES; i++)
		ret = guest->traps->set_break(guest, place(i), place(i), on, NULL);
	libvirt_guest_resume(guest, NULL);
	return ret;
}

/* A tracer comes: the breakpoints are set, and the domain runs. */
static inline void attach(struct fixture *f)
{
	struct fake_qemu *qemu = f->qemu;

	*f = (struct fixture){
		.qemu = qemu,
		.journal = {.folder = -1,
			    .fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING),
			    .compact_at = 1 << 20}};
	f->domain = fake_qemu_domain(f->qemu);
	f->g = create_traced(&f->domain, &f->journal, FIRST_GVA, FIRST_GVA, on_trap, f);
	if (set_all(f, true))
		abort();
}

static inline void detach(struct fixture *f)
{
	libvirt_guest_destroy(f->g);
	libvirt_journal_close(&f->journal);
}

static inline void set_up_domain(struct fixture *f)
{
	f->qemu = fake_qemu_create(2);
	attach(f);
}

static inline void tear_down(struct fixture *f)
{
	detach(f);
	fake_qemu_destroy(f->qemu);
}

static inline bool failed(struct fixture *f, struct error *err)
{
	struct libvirt_trap_counts counts;

	return libvirt_guest_trap_counts(f->g, &counts, err);
}

/* A vCPU reaches a breakpoint. Waits until it is served. False: it will not be. */
static inline bool hit(struct fixture *f, unsigned int vcpu, unsigned int i)
{
	const uint64_t end = clock_monotonic_ms() + PATIENCE_MS;
	const unsigned int before = f->hits;
	struct error err;

	fake_qemu_reach(f->qemu, vcpu, place(i));
	while (clock_monotonic_ms() < end && !failed(f, &err)) {
		if (f->hits > before && fake_qemu_runs(f->qemu))
			return true;
		clock_wait_ms(1);
	}
	return false;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_INTERNAL_H
#define SONDE_VMM_LIBVIRT_BACKEND_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "vmm/libvirt/gdb/stub.h"
#include "vmm/libvirt/backend/clock.h"
#include "vmm/libvirt/backend/guest.h"
#include "vmm/libvirt/backend/memory.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/connection/monitor.h"

/*
 * Inside of a libvirt guest: libvirt-guest.c is its memory and its life, libvirt-stop.c stops it
 * and lets it run, libvirt-vcpus.c reads its registers, libvirt-traps.c serves its breakpoints.
 */
enum { LIBVIRT_MAX_BREAKS = 1024 };

struct libvirt_break {
	uint64_t gva, gpa;
	uint8_t before; /* what is there without it */
	bool armed;
	bool noted; /* in the journal */
};

/* All but `wake` and `ending` is for whoever holds the stopper's lock. */
struct libvirt_traps {
	bool enabled;
	struct libvirt_break *breaks; /* LIBVIRT_MAX_BREAKS of them */
	size_t nr_breaks, nr_armed;
	bool running;   /* there are breakpoints, and the gdbstub was told to let the guest run */
	bool noted;     /* in the journal: there may be breakpoints */
	bool in_memory; /* as INT3: KVM */
	bool parked;    /* those that are armed are not in QEMU: libvirt-breaks.c */
	uint64_t parked_ns;
	bool chosen; /* of this stop: the vCPU whose page tables are used for breakpoints ... */
	bool sees_kernel; /* ... which can do for them */
	guest_trap_fn *fn;
	void *arg;
	struct libvirt_trap_counts counts;
	unsigned int unpaced; /* hits since libvirt was waited for */
	struct error failure; /* no breakpoint is served any more; code 0: all is well */

	pthread_t thread;
	int wake; /* eventfd: look again whether the guest runs */
	atomic_bool ending;
	atomic_bool moving; /* by a migration: they are to go, and to stay out */
	bool unpaced_now;   /* libvirt should be waited for, with no lock held */
};

struct libvirt_guest {
	struct guest guest;
	size_t nr_present; /* vCPUs when it was opened; guest.nr_vcpus counts slots for them */
	struct libvirt_domain *domain;
	struct libvirt_journal *journal;
	struct libvirt_memory memory;
	struct guest_region shmem; /* size 0: none */
	bool plugged;              /* or it was tried to */
	bool shmem_used;
	size_t nr_regions; /* atomic; of memory.regions, with the scratch memory in use */
	pthread_mutex_t stopper;
	_Atomic unsigned int stops; /* by the thread that holds `stopper` */
	atomic_bool let_go;         /* the last resume lets it run */
	bool found_paused;          /* by its administrator, when this stop began */
	bool adopted;               /* this stop is that of a tracer that died */
	struct gdbstub stub;
	struct rsp_registers registers[LIBVIRT_MAX_VCPUS];
	bool have_registers[LIBVIRT_MAX_VCPUS];       /* of this stop */
	struct guest_sregs states[LIBVIRT_MAX_VCPUS]; /* likewise; see libvirt-registers.h */
	bool have_states;
	struct libvirt_clock clock;
	struct tsc_clock rate; /* mult 0: not asked for yet */
	struct libvirt_traps traps;
};

static inline struct libvirt_guest *libvirt_from_guest(struct guest *guest)
{
	return (struct libvirt_guest *)guest;
}

/* --- libvirt-stop.c -------------------------------------------------------------------------- */

/* Operations of struct guest_control_ops. */
int libvirt_guest_stop(struct guest *guest, struct error *err);
int libvirt_guest_try_stop(struct guest *guest, struct error *err);
int libvirt_guest_resume(struct guest *guest, struct error *err);
bool libvirt_guest_is_stopped(struct guest *guest);

/* While the guest is stopped: have the gdbstub open. */
int libvirt_guest_open_stub(struct libvirt_guest *g, struct error *err);

/* QEMU's RunState: what we and the administrator make, no more. */
enum libvirt_status { LIBVIRT_STATUS_RUNNING, LIBVIRT_STATUS_PAUSED, LIBVIRT_STATUS_DEBUG };
/* -ECANCELED in all other states: it is being moved, saved or ended; -ESRCH if it has ended, also
 * where it was started again. */
int libvirt_guest_status(struct libvirt_guest *g, enum libvirt_status *out, struct error *err);

/* What is known of the vCPUs is of another stop. */
void libvirt_guest_begin_stop(struct libvirt_guest *g);
/* The last resume: let it go on, if it may. */
int libvirt_guest_end_stop(struct libvirt_guest *g, struct error *err);

/* --- libvirt-vcpus.c ------------------------------------------------------------------------- */

int libvirt_guest_get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			   struct error *err);
int libvirt_guest_get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			    struct error *err);
/* Also while it runs. */
void libvirt_guest_sample_idle(struct guest *guest, bool *outside);
/* Those of this stop. */
int libvirt_guest_read_registers(struct libvirt_guest *g, unsigned int vcpu, struct error *err);

/* --- libvirt-traps.c ------------------------------------------------------------------------- */

int libvirt_guest_set_trap_handler(struct guest *guest, guest_trap_fn *fn, void *arg,
				   struct error *err);
/* A guest with breakpoints that was let run, of which QEMU says `status`: stop it. */
int libvirt_traps_interrupt(struct libvirt_guest *g, enum libvirt_status status, struct error *err);
/* With breakpoints in place: from now on they are served; and let it run. */
int libvirt_traps_resume(struct libvirt_guest *g, bool let_go, struct error *err);
/* Breakpoints were taken out: now, and by this stop. */
void libvirt_traps_note_parked(struct libvirt_guest *g);
void libvirt_traps_init(struct libvirt_traps *traps);
/* With no lock held. */
void libvirt_traps_deinit(struct libvirt_guest *g);

/* --- serve.c --------------------------------------------------------------------------------- */

/* The thread that serves hits, until traps.ending. */
void *libvirt_traps_serve(void *guest);
/* With the stopper's lock: serve what the gdbstub has said. `silent`: it has said nothing for a
 * while. */
void libvirt_traps_poll(struct libvirt_guest *g, bool silent);

/* --- libvirt-breaks.c ------------------------------------------------------------------------ */

int libvirt_guest_set_break(struct guest *guest, uint64_t gva, uint64_t gpa, bool on,
			    struct error *err);
/* NULL if there was none at gva. */
struct libvirt_break *libvirt_find_break(struct libvirt_traps *traps, uint64_t gva);
/* While it is stopped: take them out of QEMU and the guest, though they stay armed; nothing is
 * asked of libvirt. */
int libvirt_breaks_park(struct libvirt_guest *g, struct error *err);
int libvirt_breaks_unpark(struct libvirt_guest *g, struct error *err);

#endif

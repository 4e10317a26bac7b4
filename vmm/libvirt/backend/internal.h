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
 * The inside of a libvirt guest, for guest.c (memory, creation), stop.c (stop, resume), vcpus.c
 * (registers), breaks.c (which breakpoints there are, and how QEMU has them), traps.c and serve.c
 * (hits, and the thread that serves them), asker.c (a thread that asks libvirt).
 */
enum { LIBVIRT_MAX_BREAKS = 1024 };

struct libvirt_break {
	uint64_t gva, gpa;
	uint8_t before; /* the guest's own byte */
	bool armed;
	bool journaled;
};

/* QEMU's RunState, as far as sonde or an administrator causes it. DEBUG: the gdbstub has stopped
 * it. */
enum libvirt_status { LIBVIRT_STATUS_RUNNING, LIBVIRT_STATUS_PAUSED, LIBVIRT_STATUS_DEBUG };

struct libvirt_answer {
	bool known; /* else libvirt could not say */
	enum libvirt_status status;
};

/* asker.c */
struct libvirt_asker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool running;
	int answered; /* eventfd; -1 before it starts */
	/* under lock: */
	bool asked, parked, ending;
	struct libvirt_answer answer; /* the last one */
};

/* Protected by the guest's `stopper`, but for `wake` and the atomic fields. */
struct libvirt_traps {
	bool enabled;
	struct libvirt_break text;    /* any place in the kernel's text; never set */
	struct libvirt_break *breaks; /* room for LIBVIRT_MAX_BREAKS */
	size_t nr_breaks, nr_armed;
	bool running;   /* there are breakpoints, and the gdbstub has resumed the guest */
	bool journaled; /* the journal says that there may be breakpoints */
	bool in_memory; /* breakpoints are INT3 in the guest's memory: KVM */
	bool parked;    /* armed breakpoints are not in QEMU: breaks.c */
	uint64_t parked_ns;
	bool chosen;      /* in this stop: a vCPU for breakpoints was chosen */
	bool sees_kernel; /* and its page tables map the kernel */
	bool lent;        /* a vCPU has borrowed page tables: */
	struct journal_loan loan;
	guest_trap_fn *fn;
	void *arg;
	struct libvirt_trap_counts counts;
	uint64_t stops;       /* of any thread, hits included */
	struct error failure; /* why no breakpoint is served any more; code 0: served */

	pthread_t thread;
	int wake; /* eventfd: `running` has changed */
	atomic_bool ending;
	atomic_bool moving; /* QEMU writes the memory elsewhere: breakpoints stay out for good */
	_Atomic unsigned int stoppers; /* wait for libvirt, without the lock, to stop the domain */
	/* Of the thread: hits since libvirt was last asked; it has been, and has not answered;
	 * `stops` then. */
	unsigned int unpaced;
	bool waiting;
	int pace_ms;
	uint64_t stops_before;
	struct libvirt_asker asker;

	atomic_bool exposed; /* there are armed breakpoints, which are not parked */
	atomic_bool patched; /* libvirt_guest_expose() */
	_Atomic unsigned int stopping; /* stops that are being made, by several threads */
	pthread_mutex_t beat_lock;
	pthread_t beater;
	int beater_wake; /* eventfd: `ending` */
	libvirt_beat_fn *beat;
	void *beat_arg;
};

struct libvirt_guest {
	struct guest guest;
	size_t nr_present; /* vCPUs when it was created; guest.nr_vcpus counts their slots */
	struct libvirt_domain *domain;
	struct libvirt_journal *journal;
	struct libvirt_memory memory;
	struct guest_region shmem; /* size 0: none */
	bool plugged;              /* or plugging was tried */
	bool shmem_used;
	pthread_mutex_t stopper;    /* held while it is stopped; recursive */
	_Atomic unsigned int stops; /* nested stops of the thread that holds `stopper` */
	atomic_bool will_run;       /* the last resume lets the guest run */
	_Atomic uint64_t
		stopped_ns; /* since when it is stopped by sonde or at a breakpoint; 0: not */
	bool found_paused;  /* this stop found it paused by its administrator */
	bool adopted;       /* a dead tracer had made this stop */
	struct gdbstub stub;
	/* A connection to the gdbstub was lost: bytes under way may stop it later. */
	atomic_bool lost_stub;
	struct rsp_registers registers[LIBVIRT_MAX_VCPUS];
	bool have_registers[LIBVIRT_MAX_VCPUS];       /* registers[] is of this stop */
	struct guest_sregs states[LIBVIRT_MAX_VCPUS]; /* by libvirt_read_registers() */
	bool have_states;
	struct libvirt_clock clock;
	struct tsc_clock rate; /* mult 0: not measured yet */
	struct libvirt_traps traps;
};

static inline struct libvirt_guest *libvirt_from_guest(struct guest *guest)
{
	return (struct libvirt_guest *)guest;
}

/* --- stop.c ---------------------------------------------------------------------------------- */

/* Operations of struct guest_control_ops. */
int libvirt_guest_stop(struct guest *guest, struct error *err);
int libvirt_guest_try_stop(struct guest *guest, struct error *err);
int libvirt_guest_resume(struct guest *guest, struct error *err);
bool libvirt_guest_is_stopped(struct guest *guest);

/* -ECANCELED: any other state (it is being moved, saved or ended). -ESRCH: the traced instance has
 * ended. */
int libvirt_guest_status(struct libvirt_guest *g, enum libvirt_status *out, struct error *err);

/* Forget what is known of the vCPUs from an earlier stop. */
void libvirt_guest_begin_stop(struct libvirt_guest *g);
/* The last resume: let the guest run if will_run says so. */
int libvirt_guest_end_stop(struct libvirt_guest *g, struct error *err);

/* --- vcpus.c --------------------------------------------------------------------------------- */

int libvirt_guest_get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			   struct error *err);
int libvirt_guest_get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			    struct error *err);
/* May be called while it runs. */
void libvirt_guest_sample_idle(struct guest *guest, bool *outside);
/* Read registers[vcpu], by the gdbstub, unless this stop has done so. */
int libvirt_guest_read_registers(struct libvirt_guest *g, unsigned int vcpu, struct error *err);
/* Read states[], by QEMU's monitor, unless this stop has done so. */
int libvirt_guest_read_states(struct libvirt_guest *g, struct error *err);

/* --- traps.c --------------------------------------------------------------------------------- */

int libvirt_guest_set_trap_handler(struct guest *guest, guest_trap_fn *fn, void *arg,
				   struct error *err);
/* Stop a guest that runs with breakpoints. `status` is QEMU's. */
int libvirt_traps_interrupt(struct libvirt_guest *g, enum libvirt_status status, struct error *err);
/* With armed breakpoints: serve them from now on, and let the guest run if `will_run`. Once serving
 * has failed they are parked for good. */
int libvirt_traps_resume(struct libvirt_guest *g, bool will_run, struct error *err);
/* No breakpoint is served any more; the first reason counts. */
void libvirt_traps_fail(struct libvirt_traps *traps, const struct error *why);
/* nr_armed or parked has changed. */
void libvirt_traps_changed(struct libvirt_traps *traps);
/* This stop has parked the breakpoints. */
void libvirt_traps_note_parked(struct libvirt_guest *g);
void libvirt_traps_init(struct libvirt_traps *traps);
/* Without the lock. */
void libvirt_traps_deinit(struct libvirt_guest *g);

/* --- asker.c --------------------------------------------------------------------------------- */

int libvirt_asker_start(struct libvirt_guest *g, struct error *err);
/* If it was started. It may have to wait for libvirt's answer. */
void libvirt_asker_stop(struct libvirt_guest *g);
/* Ask libvirt, whose last answer has come: traps.asker.answered becomes readable when this one
 * does. `parked`: only whether the domain runs, as libvirt knows it. */
void libvirt_asker_ask(struct libvirt_guest *g, bool parked);
/* True once for each. */
bool libvirt_asker_has_answer(struct libvirt_guest *g, struct libvirt_answer *out);

/* --- serve.c --------------------------------------------------------------------------------- */

/* The thread that serves hits, until traps.ending. */
void *libvirt_traps_serve(void *guest);
/* With the lock: serve a stop notice of the gdbstub, if there is one. */
void libvirt_traps_poll(struct libvirt_guest *g);

/* --- beat.c ---------------------------------------------------------------------------------- */

/* Whether the guest depends on this process: see libvirt_guest_beat(). */
bool libvirt_beat_is_exposed(struct libvirt_guest *g);
/* Without waiting for the next second. */
void libvirt_beat_now(struct libvirt_guest *g);
/* If it was started. With no lock held. */
void libvirt_beat_stop(struct libvirt_guest *g);

/* --- breaks.c -------------------------------------------------------------------------------- */

int libvirt_guest_set_break(struct guest *guest, uint64_t gva, uint64_t gpa, bool on,
			    struct error *err);
/* NULL: no breakpoint was ever set at gva. */
struct libvirt_break *libvirt_find_break(struct libvirt_traps *traps, uint64_t gva);
/* With the guest stopped. False: as its vCPUs stand, no breakpoint can be set or removed. */
bool libvirt_breaks_in_reach(struct libvirt_guest *g);
/* A vCPU gets its own page tables back, if it has borrowed others. Before the guest is let go on.
 */
int libvirt_breaks_end_loan(struct libvirt_guest *g, struct error *err);
/* While it is stopped: take armed breakpoints out of QEMU and the guest's memory, without a command
 * to libvirt; and put them back. */
int libvirt_breaks_park(struct libvirt_guest *g, struct error *err);
int libvirt_breaks_unpark(struct libvirt_guest *g, struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traps of a domain: breakpoints of QEMU's gdbstub, which stays open while there are any. A thread
 * waits for the guest to stop at one, has it handled, and lets all vCPUs go on. No instruction is
 * ever stepped over: the handler says where the vCPU goes on, behind the breakpoint. A vCPU whose
 * breakpoint was not told, because another one or we have stopped the guest at the same moment,
 * still stands before it, and meets it again.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/backend/internal.h"

enum {
	WATCH_MS = 500,  /* a silent gdbstub: does the guest really run? */
	PARKED_MS = 100, /* does it run again? */
	PACE_HITS = 8,   /* each of which makes two events that libvirt has to digest */
};

/* --- hits ------------------------------------------------------------------------------------ */

static bool stands_at_break(struct libvirt_guest *g, unsigned int vcpu)
{
	const struct libvirt_break *b;

	if (libvirt_guest_read_registers(g, vcpu, NULL))
		return false;
	b = libvirt_find_break(&g->traps, g->registers[vcpu].regs.rip);
	return b && b->armed;
}

static int handle_vcpu(struct libvirt_guest *g, unsigned int vcpu, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	struct guest_trap trap = {
		.vcpu = vcpu, .time_ns = clock_monotonic_ns(), .regs = g->registers[vcpu].regs};
	const struct guest_regs before = trap.regs;

	t->counts.hits++;
	if (!t->fn || !t->fn(t->arg, &trap))
		return error_set_at(err, EPROTO, before.rip, "nobody knows of a breakpoint");
	if (!memcmp(&before, &trap.regs, sizeof(before)))
		return 0;
	g->registers[vcpu].regs = trap.regs;
	return rsp_set_registers(&g->stub.rsp, vcpu, &trap.regs, err);
}

/* The vCPU that it is told of; if that is wrong, whoever stands at one. */
static int handle_hit(struct libvirt_guest *g, const struct rsp_stop *stop, struct error *err)
{
	int ret = 0;

	if (stop->known && stands_at_break(g, stop->vcpu))
		return handle_vcpu(g, stop->vcpu, err);
	for (unsigned int i = 0; !ret && i < g->guest.nr_vcpus; i++)
		if (stands_at_break(g, i))
			ret = handle_vcpu(g, i, err);
	return ret;
}

/*
 * QEMU tells libvirt of each stop, and of each going on, and libvirt writes that to disk. When it
 * lags behind, all commands wait behind the events, those of its other users too: so wait for it
 * now and then, with a command whose answer comes behind them. That may take as long as a migration
 * or a save, so it is for a thread that holds no lock and no guest.
 */
static void keep_pace(struct libvirt_guest *g)
{
	enum libvirt_status status;

	if (!g->traps.unpaced_now)
		return;
	g->traps.unpaced_now = false;
	libvirt_guest_status(g, &status, NULL);
}

/* The guest has stopped by itself, or its administrator has stopped it: then it stays so. */
static void serve(struct libvirt_guest *g, const struct rsp_stop *stop)
{
	uint64_t begin = clock_monotonic_ns();
	struct error err;
	int ret = 0, resumed;

	g->traps.running = false;
	libvirt_guest_begin_stop(g);
	/* QEMU chooses the one that it tells of */
	g->traps.chosen = g->traps.sees_kernel = stop->known && stop->trap;
	atomic_store(&g->let_go, stop->trap);
	atomic_store(&g->stops, 1);
	if (stop->trap)
		ret = handle_hit(g, stop, &err);
	else if (g->traps.in_memory)
		ret = libvirt_breaks_park(g, &err);
	if (stop->trap && ++g->traps.unpaced == PACE_HITS) {
		g->traps.unpaced = 0;
		g->traps.unpaced_now = true;
	}
	resumed = libvirt_guest_end_stop(g, ret ? NULL : &err);
	atomic_store(&g->stops, 0);
	g->let_go = false;
	g->traps.counts.held_ns += clock_monotonic_ns() - begin;
	if ((ret || resumed) && !g->traps.failure.code)
		g->traps.failure = err;
}

/* --- the thread that waits for them ---------------------------------------------------------- */

static bool has_news(struct libvirt_guest *g)
{
	struct pollfd poll_fd = {.fd = g->stub.fd, .events = POLLIN};

	return g->traps.running && (rsp_has_more(&g->stub.rsp) || poll(&poll_fd, 1, 0) > 0);
}

/* A stop of ours puts them in again if it finds the guest running. libvirt says whether that is
 * worth trying, without waiting for anything. */
static void end_park(struct libvirt_guest *g)
{
	enum libvirt_run_state state;

	if (libvirt_domain_state(g->domain, &state, NULL) || state != LIBVIRT_RUNS ||
	    libvirt_guest_stop(&g->guest, NULL))
		return;
	libvirt_guest_resume(&g->guest, NULL);
}

/*
 * Nothing is asked of libvirt, whose monitor is the migration's. A hit at this moment is lost. A
 * domain that was stopped to be saved has told of it before.
 */
static int evacuate(struct libvirt_guest *g, struct error *err)
{
	struct rsp_stop stop;
	int ret = rsp_interrupt(&g->stub.rsp, err);

	if (!ret)
		ret = rsp_await_stop(&g->stub.rsp, &stop, err);
	libvirt_guest_begin_stop(g);
	atomic_store(&g->stops, 1);
	if (!ret)
		ret = libvirt_breaks_park(g, err);
	atomic_store(&g->stops, 0);
	/* unless QEMU is about to complete the migration */
	return ret || !(stop.trap || stop.interrupt) ? ret : rsp_continue(&g->stub.rsp, err);
}

void libvirt_traps_poll(struct libvirt_guest *g, bool silent)
{
	enum libvirt_status status = LIBVIRT_STATUS_RUNNING;
	struct rsp_stop stop = {.trap = true};
	struct error err;

	if (!g->traps.running || g->traps.failure.code)
		return;
	if (has_news(g)) {
		if (rsp_await_stop(&g->stub.rsp, &stop, &err))
			g->traps.failure = err;
		else
			serve(g, &stop);
	} else if (atomic_load(&g->traps.moving)) {
		if (!g->traps.parked && evacuate(g, &err))
			g->traps.failure = err;
	} else if (g->traps.parked) {
		end_park(g);
	} else if (silent && !libvirt_guest_status(g, &status, NULL) &&
		   status == LIBVIRT_STATUS_DEBUG) {
		/* newer QEMUs tell of one stop only, though an administrator's came first */
		serve(g, &stop);
	}
}

static void wait_for_news(struct libvirt_guest *g, bool *silent)
{
	struct pollfd fds[] = {{.fd = g->traps.wake, .events = POLLIN},
			       {.fd = -1, .events = POLLIN}};
	uint64_t count;
	int n, ms;

	pthread_mutex_lock(&g->stopper);
	if (g->traps.running && !g->traps.failure.code)
		fds[1].fd = g->stub.fd;
	n = has_news(g) && fds[1].fd >= 0 ? 1 : 0;
	ms = g->traps.parked ? PARKED_MS : WATCH_MS;
	pthread_mutex_unlock(&g->stopper);
	*silent = false;
	if (n)
		return;
	*silent = poll(fds, 2, fds[1].fd < 0 ? -1 : ms) == 0;
	if (fds[0].revents && read(g->traps.wake, &count, sizeof(count)) < 0)
		return; /* somebody else's news */
}

void *libvirt_traps_serve(void *arg)
{
	struct libvirt_guest *g = arg;
	bool silent;

	while (!atomic_load(&g->traps.ending)) {
		wait_for_news(g, &silent);
		pthread_mutex_lock(&g->stopper);
		/* a stop by this thread itself is over by now */
		libvirt_traps_poll(g, silent);
		pthread_mutex_unlock(&g->stopper);
		keep_pace(g);
	}
	return NULL;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Serves hits of a domain's breakpoints. The gdbstub stays open while there are any. A thread waits
 * until the guest stops at one, calls the handler, and resumes all vCPUs. No instruction is ever
 * stepped over: the handler sets RIP behind the breakpoint. If QEMU reports no hit for a vCPU,
 * because another vCPU or sonde stopped the guest at the same moment, that vCPU still stands before
 * its breakpoint, and hits it again.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/backend/internal.h"

enum {
	WATCH_MS = 500,    /* without a stop notice: check that the guest runs */
	PARKED_MS = 100,   /* with parked breakpoints: check whether the guest runs again */
	PACE_HITS = 8,     /* ask libvirt after so many; each makes two events for it */
	PACE_MS = 5,       /* before a hit while someone waits for its answer: at first ... */
	PACE_MAX_MS = 500, /* ... and in the end, if it does not come */
};

/* --- hits ------------------------------------------------------------------------------------ */

static int stands_at_break(struct libvirt_guest *g, unsigned int vcpu, bool *out, struct error *err)
{
	const struct libvirt_break *b;
	int ret = libvirt_guest_read_registers(g, vcpu, err);

	*out = false;
	if (ret)
		return ret;
	b = libvirt_find_break(&g->traps, g->registers[vcpu].regs.rip);
	*out = b && b->armed;
	return 0;
}

/*
 * A reset of the domain may come between the hit and its answer, which then has replaced registers
 * of the next guest: it could not boot. That guest has not run yet, so another reset undoes it. The
 * breakpoints go, and libvirt's event of the reset ends the trace.
 */
static int undo_reset(struct libvirt_guest *g, struct error *err)
{
	int ret = libvirt_qmp(g->domain, "system_reset", NULL, -1, NULL, err);

	libvirt_guest_begin_stop(g);
	return ret ? ret : libvirt_breaks_park(g, err);
}

static int go_on_at(struct libvirt_guest *g, unsigned int vcpu, const struct guest_regs *regs,
		    struct error *err)
{
	const bool long_mode = vcpu_in_long_mode(&g->registers[vcpu].sregs);
	struct rsp_registers after;
	int ret = rsp_set_registers(&g->stub.rsp, vcpu, regs, &after, err);

	g->registers[vcpu].regs = *regs;
	if (!ret && long_mode && !vcpu_in_long_mode(&after.sregs))
		ret = undo_reset(g, err);
	return ret;
}

static int handle_vcpu(struct libvirt_guest *g, unsigned int vcpu, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	struct guest_trap trap = {
		.vcpu = vcpu, .time_ns = clock_monotonic_ns(), .regs = g->registers[vcpu].regs};
	const struct guest_regs before = trap.regs;

	t->counts.hits++;
	if (!t->fn || !t->fn(t->arg, &trap))
		return error_set_at(err, EPROTO, before.rip, "no tracer handles this breakpoint");
	if (!memcmp(&before, &trap.regs, sizeof(before)))
		return 0;
	return go_on_at(g, vcpu, &trap.regs, err);
}

static int handle_if_hit(struct libvirt_guest *g, unsigned int vcpu, bool *hit, struct error *err)
{
	int ret = stands_at_break(g, vcpu, hit, err);

	return ret || !*hit ? ret : handle_vcpu(g, vcpu, err);
}

/* The vCPU that QEMU names; if it stands at no breakpoint, every vCPU that does. */
static int handle_hit(struct libvirt_guest *g, const struct rsp_stop *stop, struct error *err)
{
	bool named = false, hit;
	int ret = 0;

	if (stop->known && stop->vcpu < g->guest.nr_vcpus)
		ret = handle_if_hit(g, stop->vcpu, &named, err);
	for (unsigned int i = 0; !ret && !named && i < g->guest.nr_vcpus; i++)
		ret = handle_if_hit(g, i, &hit, err);
	return ret;
}

static int handle_stop(struct libvirt_guest *g, const struct rsp_stop *stop, struct error *err)
{
	if (!stop->trap)
		return g->traps.in_memory ? libvirt_breaks_park(g, err) : 0;
	g->traps.unpaced++;
	return handle_hit(g, stop, err);
}

/* The journal does not say that the guest is stopped at a breakpoint, unless it stays stopped. */
static void go_on(struct libvirt_guest *g)
{
	struct error err;

	if (!libvirt_guest_end_stop(g, &err))
		return;
	libvirt_traps_fail(&g->traps, &err);
	if (g->will_run && g->journal)
		libvirt_journal_stop(g->journal, true, NULL);
}

/* The guest has stopped: at a breakpoint, or because its administrator has stopped it. In the
 * latter case it stays stopped. */
static void serve(struct libvirt_guest *g, const struct rsp_stop *stop)
{
	uint64_t begin = clock_monotonic_ns();
	struct error err;

	g->traps.running = false;
	libvirt_guest_begin_stop(g);
	/* QEMU chooses the vCPU that it reports */
	g->traps.chosen = g->traps.sees_kernel = stop->known && stop->trap;
	atomic_store(&g->will_run, stop->trap);
	atomic_store(&g->stops, 1);
	if (handle_stop(g, stop, &err))
		libvirt_traps_fail(&g->traps, &err);
	go_on(g);
	atomic_store(&g->stops, 0);
	atomic_store(&g->stopped_ns, 0);
	g->will_run = false;
	g->traps.counts.held_ns += clock_monotonic_ns() - begin;
}

/* --- stop notices ---------------------------------------------------------------------------- */

static bool has_stop_notice(struct libvirt_guest *g)
{
	struct pollfd poll_fd = {.fd = g->stub.fd, .events = POLLIN};

	return g->traps.running && (rsp_has_more(&g->stub.rsp) || poll(&poll_fd, 1, 0) > 0);
}

/* With the guest stopped by a byte to the gdbstub. */
static int park_stopped(struct libvirt_guest *g, struct error *err)
{
	int ret;

	libvirt_guest_begin_stop(g);
	atomic_store(&g->stops, 1);
	ret = libvirt_breaks_park(g, err);
	atomic_store(&g->stops, 0);
	atomic_store(&g->stopped_ns, 0);
	return ret;
}

/*
 * Without a command to libvirt, whose monitor is busy with the migration. A hit at this moment is
 * lost. If the domain was stopped to be saved, its stop notice came before.
 */
static int park_for_move(struct libvirt_guest *g, struct error *err)
{
	struct rsp_stop stop = {0};
	int ret = g->journal ? libvirt_journal_stop(g->journal, true, err) : 0;

	if (!ret)
		ret = rsp_interrupt(&g->stub.rsp, err);
	if (!ret)
		ret = rsp_await_stop(&g->stub.rsp, &stop, err);
	if (!ret)
		ret = park_stopped(g, err);
	/* another stop is QEMU's, which is about to complete the migration */
	if (!ret && (stop.trap || stop.interrupt))
		ret = rsp_continue(&g->stub.rsp, err);
	if (!ret && g->journal)
		ret = libvirt_journal_stop(g->journal, false, err);
	return ret;
}

/* The resume takes breakpoints out, or puts them back. */
static void stop_and_resume(struct libvirt_guest *g)
{
	if (!libvirt_guest_stop(&g->guest, NULL))
		libvirt_guest_resume(&g->guest, NULL);
}

/* What the gdbstub sends cannot be relied on: the breakpoints go. If that fails, too, it is left to
 * the end of the trace. */
static void give_up(struct libvirt_guest *g, const struct error *why)
{
	libvirt_traps_fail(&g->traps, why);
	stop_and_resume(g);
}

/*
 * QEMU reports each stop and resume to libvirt, which writes them to disk. If libvirt lags behind,
 * all commands queue behind these events, those of its other users too. So it is asked from time to
 * time, and answers after these events. Until then hits wait, longer and longer: a libvirt that
 * hangs for a minute must not find thousands of events. Other stops do not wait.
 */
static void pace(struct libvirt_traps *t)
{
	struct pollfd answered = {.fd = t->asker.answered, .events = POLLIN};

	if (!t->waiting || atomic_load(&t->moving))
		return;
	poll(&answered, 1, t->pace_ms);
	t->pace_ms = t->pace_ms < PACE_MAX_MS / 2 ? 2 * t->pace_ms : PACE_MAX_MS;
}

void libvirt_traps_poll(struct libvirt_guest *g)
{
	struct rsp_stop stop = {.trap = true};
	struct error err;

	if (!g->traps.running || g->traps.failure.code)
		return;
	if (has_stop_notice(g)) {
		if (rsp_await_stop(&g->stub.rsp, &stop, &err)) {
			give_up(g, &err);
			return;
		}
		if (stop.trap)
			pace(&g->traps);
		serve(g, &stop);
	} else if (atomic_load(&g->traps.moving) && !g->traps.parked && park_for_move(g, &err)) {
		libvirt_traps_fail(&g->traps, &err);
	}
}

/* --- libvirt's answers ------------------------------------------------------------------------ */

static bool is_to_be_asked(const struct libvirt_traps *t, bool silent)
{
	return !t->waiting && !atomic_load(&t->moving) &&
	       (t->unpaced >= PACE_HITS || (silent && t->running));
}

static void ask(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;

	t->waiting = true;
	t->pace_ms = PACE_MS;
	t->unpaced = 0;
	t->stops_before = t->stops;
	libvirt_asker_ask(g, t->parked);
}

static void take_answer(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;
	struct rsp_stop stop = {.trap = true};
	struct libvirt_answer answer;

	if (!libvirt_asker_has_answer(g, &answer))
		return;
	t->waiting = false;
	if (!answer.known || !t->running || t->failure.code || t->stops != t->stops_before ||
	    has_stop_notice(g))
		return;
	/* DEBUG without a notice: newer QEMUs send that of the first stop only */
	if (answer.status == LIBVIRT_STATUS_DEBUG && !t->parked)
		serve(g, &stop);
	else if (answer.status == LIBVIRT_STATUS_RUNNING && t->parked)
		stop_and_resume(g);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* True: nothing has happened for a while. */
static bool wait_for_hit(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;
	struct pollfd fds[] = {{.fd = t->wake, .events = POLLIN},
			       {.fd = t->asker.answered, .events = POLLIN},
			       {.fd = -1, .events = POLLIN}};
	bool has_more = false, silent;
	eventfd_t count;
	int ms = -1;

	pthread_mutex_lock(&g->stopper);
	if (t->running && !t->failure.code) {
		fds[2].fd = g->stub.fd;
		ms = t->parked ? PARKED_MS : WATCH_MS;
		has_more = rsp_has_more(&g->stub.rsp);
	}
	pthread_mutex_unlock(&g->stopper);
	if (has_more)
		return false;
	if (atomic_load(&t->stoppers))
		poll(fds, 2, PACE_MS);
	silent = poll(fds, 3, ms) == 0;
	if (fds[0].revents)
		eventfd_read(t->wake, &count);
	return silent;
}

void *libvirt_traps_serve(void *arg)
{
	struct libvirt_guest *g = arg;
	bool silent;

	while (!atomic_load(&g->traps.ending)) {
		silent = wait_for_hit(g);
		pthread_mutex_lock(&g->stopper);
		/* the thread itself holds no stop here */
		libvirt_traps_poll(g);
		take_answer(g);
		if (is_to_be_asked(&g->traps, silent))
			ask(g);
		pthread_mutex_unlock(&g->stopper);
	}
	return NULL;
}

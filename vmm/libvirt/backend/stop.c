/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stops and resumes a domain. */
#include <errno.h>
#include <string.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/backend/internal.h"

/* How long to look for a moment at which breakpoints can be set. */
static const uint64_t reach_ns = 300000000;

/* Commands reach whichever QEMU the domain has now, also that of its next start. */
static int check_same(struct libvirt_guest *g, struct error *err)
{
	if (!libvirt_process_ended(&g->domain->qemu))
		return 0;
	return error_set(err, ESRCH, "domain %s has ended", g->domain->name);
}

/*
 * QEMU takes up what was on its way in the lost connection before it notices that it is closed, and
 * a new one is not opened before that. So nothing of it arrives later, and the guest is stopped.
 */
static int replace_stub(struct libvirt_guest *g, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	int ret;

	g->lost_stub = true;
	memset(g->have_registers, 0, sizeof(g->have_registers));
	t->chosen = t->sees_kernel = false;
	gdbstub_drop(&g->stub);
	ret = gdbstub_open(&g->stub, g->domain, err);
	if (ret)
		return ret;
	ret = libvirt_breaks_end_loan(g, err);
	if (!ret && t->nr_armed) {
		t->parked = false; /* a Z0 may have been on its way */
		ret = libvirt_breaks_park(g, err);
	}
	if (ret)
		gdbstub_drop(&g->stub);
	return ret;
}

int libvirt_guest_open_stub(struct libvirt_guest *g, struct error *err)
{
	const bool lost = g->stub.fd >= 0 ? rsp_is_lost(&g->stub.rsp) : g->lost_stub;
	int ret;

	if (!atomic_load(&g->stops))
		return error_set(err, EBUSY, "the domain is not stopped");
	if (g->stub.fd >= 0 && !lost)
		return 0;
	ret = check_same(g, err);
	if (ret)
		return ret;
	return lost ? replace_stub(g, err) : gdbstub_open(&g->stub, g->domain, err);
}

static bool parse_status(const char *text, enum libvirt_status *out)
{
	static const struct {
		const char *name;
		enum libvirt_status status;
	} states[] = {{"running", LIBVIRT_STATUS_RUNNING},
		      {"debug", LIBVIRT_STATUS_DEBUG},
		      {"paused", LIBVIRT_STATUS_PAUSED},
		      /* stopped by a full disk or by the guest, for the administrator */
		      {"io-error", LIBVIRT_STATUS_PAUSED},
		      {"watchdog", LIBVIRT_STATUS_PAUSED},
		      {"guest-panicked", LIBVIRT_STATUS_PAUSED},
		      {"internal-error", LIBVIRT_STATUS_PAUSED},
		      {"suspended", LIBVIRT_STATUS_PAUSED}};

	for (size_t i = 0; text && i < sizeof(states) / sizeof(states[0]); i++) {
		if (strcmp(text, states[i].name))
			continue;
		*out = states[i].status;
		return true;
	}
	return false;
}

int libvirt_guest_status(struct libvirt_guest *g, enum libvirt_status *out, struct error *err)
{
	json_t *reply = NULL;
	int ret = libvirt_qmp(g->domain, "query-status", NULL, -1, &reply, err);

	if (!ret)
		ret = check_same(g, err);
	if (!ret && !parse_status(json_string_value(json_object_get(reply, "status")), out))
		ret = error_set(err, ECANCELED,
				"the domain is neither running nor paused: it is "
				"being migrated, saved or ended");
	json_decref(reply);
	return ret;
}

/* A byte that was under way in a lost connection to the gdbstub stops the guest. Such a pause has
 * no reason, as all of sonde's. */
static int status_at_stop(struct libvirt_guest *g, enum libvirt_status *out, struct error *err)
{
	enum libvirt_pause pause;
	int ret = libvirt_guest_status(g, out, err);

	if (!ret && *out == LIBVIRT_STATUS_PAUSED && g->lost_stub &&
	    !libvirt_domain_pause(g->domain, &pause, NULL) && pause == LIBVIRT_PAUSE_MONITOR)
		*out = LIBVIRT_STATUS_DEBUG;
	return ret;
}

/* After a stop that failed: the journal must not claim a later pause for the tracer. */
static void cancel_stop_line(struct libvirt_guest *g)
{
	enum libvirt_status status;

	if (g->journal && !libvirt_guest_status(g, &status, NULL) &&
	    status == LIBVIRT_STATUS_RUNNING)
		libvirt_journal_stop(g->journal, false, NULL);
}

static int refuse_moving(struct error *err)
{
	return error_set(err, ECANCELED, "the domain is being migrated");
}

/* LIBVIRT_STATUS_DEBUG: stopped at a breakpoint of a tracer that has died, or by this one. */
static int stop_running(struct libvirt_guest *g, struct error *err)
{
	enum libvirt_status status;
	int ret = status_at_stop(g, &status, err);

	if (ret || status == LIBVIRT_STATUS_PAUSED)
		return ret;
	if (g->journal)
		ret = libvirt_journal_stop(g->journal, true, err);
	if (!ret && status == LIBVIRT_STATUS_RUNNING)
		ret = libvirt_qmp(g->domain, "stop", NULL, -1, NULL, err);
	if (!ret)
		g->will_run = true;
	else
		cancel_stop_line(g);
	return ret;
}

/*
 * libvirt may answer no sooner than a save is over, and before that it stops the domain, whose
 * breakpoints have to leave its memory at once. So others may stop the domain meanwhile, or serve a
 * stop: then the answer may be a wrong one.
 */
static int status_while_served(struct libvirt_guest *g, enum libvirt_status *out, struct error *err)
{
	enum { TRIES = 5 }; /* a hit waits longer than an answer mostly takes */

	for (int i = 0; i < TRIES; i++) {
		const uint64_t before = g->traps.stops;
		int ret;

		atomic_fetch_add(&g->traps.stoppers, 1);
		pthread_mutex_unlock(&g->stopper);
		ret = status_at_stop(g, out, err);
		pthread_mutex_lock(&g->stopper);
		atomic_fetch_sub(&g->traps.stoppers, 1);
		if (ret || g->traps.stops == before)
			return ret;
	}
	return status_at_stop(g, out, err);
}

static int interrupt(struct libvirt_guest *g, enum libvirt_status status, struct error *err)
{
	int ret = 0;

	if (status != LIBVIRT_STATUS_PAUSED && g->journal)
		ret = libvirt_journal_stop(g->journal, true, err);
	if (!ret)
		ret = libvirt_traps_interrupt(g, status, err);
	if (!ret)
		g->will_run = status != LIBVIRT_STATUS_PAUSED;
	else
		cancel_stop_line(g);
	return ret;
}

/* The gdbstub stops it, or QEMU's monitor if the connection to the gdbstub is lost. */
static int stop_served(struct libvirt_guest *g, struct error *err)
{
	const bool lost = rsp_is_lost(&g->stub.rsp);
	enum libvirt_status status;
	int ret = lost ? 0 : status_while_served(g, &status, err);

	if (!ret && atomic_load(&g->traps.moving))
		return refuse_moving(err);
	if (!ret && !g->traps.running)
		return stop_running(g, err);
	if (!ret && !lost)
		ret = interrupt(g, status, err);
	if (!rsp_is_lost(&g->stub.rsp))
		return ret;
	g->lost_stub = true;
	ret = stop_running(g, err);
	if (ret)
		return ret;
	g->traps.running = false;
	atomic_store(&g->stops, 1);
	ret = libvirt_guest_open_stub(g, err);
	atomic_store(&g->stops, 0);
	return ret;
}

/* The guest runs, or the administrator has paused it: this stop does not resume it. */
static void disown_stop(struct libvirt_guest *g)
{
	g->will_run = false;
	if (g->journal)
		libvirt_journal_stop(g->journal, false, NULL);
}

/*
 * The administrator may suspend the domain between query-status and this stop, and may resume it
 * while this stop holds it. libvirt's reason for the pause shows both. (It does not show a suspend
 * while this stop holds it: libvirt then reports success and does nothing.) If libvirt does not
 * answer, nothing changes.
 */
static void check_pause_at_stop(struct libvirt_guest *g)
{
	enum libvirt_pause pause;

	g->found_paused =
		!libvirt_domain_pause(g->domain, &pause, NULL) && pause == LIBVIRT_PAUSE_OTHERS;
	if (g->found_paused)
		disown_stop(g);
}

/* The same before the domain is resumed. */
static void check_pause_at_resume(struct libvirt_guest *g)
{
	enum libvirt_status status = LIBVIRT_STATUS_PAUSED;
	enum libvirt_pause pause;

	if (g->adopted || libvirt_domain_pause(g->domain, &pause, NULL))
		return;
	if (pause == LIBVIRT_PAUSE_OTHERS) {
		if (g->will_run)
			disown_stop(g);
		return;
	}
	/* it runs; or a byte to the gdbstub has stopped it again; or libvirt lags behind QEMU */
	if (pause == LIBVIRT_PAUSE_NONE)
		libvirt_guest_status(g, &status, NULL);
	if (status != LIBVIRT_STATUS_RUNNING)
		g->will_run = g->will_run || g->found_paused;
	else if (g->will_run)
		disown_stop(g);
}

void libvirt_guest_begin_stop(struct libvirt_guest *g)
{
	g->traps.stops++;
	memset(g->have_registers, 0, sizeof(g->have_registers));
	g->have_states = false;
	atomic_store(&g->stopped_ns, clock_monotonic_ns());
	g->traps.chosen = g->traps.sees_kernel = false;
}

static int stop_domain(struct libvirt_guest *g, struct error *err)
{
	int ret = g->traps.running ? stop_served(g, err) : stop_running(g, err);

	if (!ret)
		libvirt_clock_freeze(&g->clock, true);
	if (!ret)
		check_pause_at_stop(g);
	libvirt_guest_begin_stop(g);
	if (ret)
		atomic_store(&g->stopped_ns, 0);
	return ret;
}

/* The watchdog hears of it before: this process may be stopped right behind. */
static int stop_watched(struct libvirt_guest *g, struct error *err)
{
	const bool heard = libvirt_beat_is_exposed(g);
	int ret;

	atomic_fetch_add(&g->traps.stopping, 1);
	if (!heard)
		libvirt_beat_now(g);
	ret = stop_domain(g, err);
	atomic_fetch_sub(&g->traps.stopping, 1);
	if (ret && !heard)
		libvirt_beat_now(g);
	return ret;
}

/* With the lock, which is released if this fails. */
static int stop_locked(struct libvirt_guest *g, struct error *err)
{
	int ret = 0;

	if (!atomic_load(&g->stops))
		ret = atomic_load(&g->traps.moving) ? refuse_moving(err) : stop_watched(g, err);
	if (ret)
		pthread_mutex_unlock(&g->stopper);
	else
		atomic_fetch_add(&g->stops, 1);
	return ret;
}

/* With the guest stopped. Whether a stop at a later moment may do what this one cannot: no vCPU's
 * page tables map the kernel in the first instructions of an interrupt in user mode. */
static bool is_out_of_reach(struct libvirt_guest *g)
{
	return atomic_load(&g->stops) == 1 && atomic_load(&g->will_run) &&
	       !libvirt_breaks_in_reach(g);
}

int libvirt_guest_stop(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	const uint64_t end = clock_monotonic_ns() + reach_ns;
	int ret;

	for (;;) {
		pthread_mutex_lock(&g->stopper);
		ret = stop_locked(g, err);
		if (ret || !is_out_of_reach(g) || clock_monotonic_ns() >= end)
			return ret;
		ret = libvirt_guest_resume(guest, err);
		if (ret)
			return ret;
		clock_wait_ms(1);
	}
}

int libvirt_guest_try_stop(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	if (pthread_mutex_trylock(&g->stopper))
		return error_set(err, EBUSY, "another thread holds the domain stopped");
	return stop_locked(g, err);
}

int libvirt_guest_check_left(struct libvirt_guest *g, struct error *err)
{
	enum libvirt_status status = LIBVIRT_STATUS_RUNNING;
	bool lost;
	int ret;

	pthread_mutex_lock(&g->stopper);
	lost = g->lost_stub;
	ret = lost || g->traps.enabled ? status_at_stop(g, &status, err) : 0;
	pthread_mutex_unlock(&g->stopper);
	/* what the gdbstub has acknowledged needs no answer of libvirt's */
	if (ret)
		return lost ? ret : 0;
	if (status != LIBVIRT_STATUS_DEBUG)
		return 0;
	return error_set(err, EIO, "the tracer stopped the domain and could not resume it");
}

/* libvirt does not answer: the gdbstub, which is still open, resumes the guest, too. What is left
 * of it in QEMU is removed when it is next opened. */
static int resume_by_stub(struct libvirt_guest *g, struct error *err)
{
	int ret = check_same(g, err);

	if (!ret)
		ret = rsp_continue(&g->stub.rsp, err);
	gdbstub_drop(&g->stub);
	return ret;
}

int libvirt_guest_end_stop(struct libvirt_guest *g, struct error *err)
{
	int ret, closed;

	if (g->traps.nr_armed)
		return libvirt_traps_resume(g, g->will_run, err);
	g->traps.parked = false;
	libvirt_traps_changed(&g->traps);
	closed = gdbstub_close(&g->stub, err);
	if (!g->will_run)
		return 0;
	if (closed)
		return resume_by_stub(g, err);
	ret = check_same(g, err);
	return ret ? ret : libvirt_qmp(g->domain, "cont", NULL, -1, NULL, err);
}

/* No vCPU may go on with page tables that it has borrowed. */
static int end_loan(struct libvirt_guest *g, struct error *err)
{
	int ret = g->traps.lent ? libvirt_guest_open_stub(g, err) : 0;

	return ret ? ret : libvirt_breaks_end_loan(g, err);
}

static int resume_domain(struct libvirt_guest *g, struct error *err)
{
	int ret = end_loan(g, err);

	if (ret)
		return ret;
	/* closing sends bytes, which stop a domain that was resumed meanwhile: check afterwards */
	if (!g->traps.nr_armed)
		gdbstub_close(&g->stub, NULL);
	check_pause_at_resume(g);
	ret = libvirt_guest_end_stop(g, err);
	if (!ret && g->will_run && g->journal)
		ret = libvirt_journal_stop(g->journal, false, err);
	if (!ret)
		g->will_run = g->adopted = false;
	return ret;
}

int libvirt_guest_resume(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = 0;

	if (atomic_load(&g->stops) == 1) {
		ret = resume_domain(g, err);
		libvirt_clock_freeze(&g->clock, false);
		atomic_store(&g->stopped_ns, 0);
		if (!libvirt_beat_is_exposed(g))
			libvirt_beat_now(g);
	}
	atomic_fetch_sub(&g->stops, 1);
	pthread_mutex_unlock(&g->stopper);
	return ret;
}

/* A libvirtd that was restarted meanwhile reports such a pause as the administrator's. */
void libvirt_guest_adopt_stop(struct libvirt_guest *g)
{
	g->will_run = g->adopted = true;
}

/* Whether its administrator has paused it. Sonde's own stops do not count; libvirt's reason tells
 * them apart. */
bool libvirt_guest_is_stopped(struct guest *guest)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	enum libvirt_pause pause;

	if (atomic_load(&g->stops))
		return !atomic_load(&g->will_run);
	return !libvirt_domain_pause(g->domain, &pause, NULL) && pause == LIBVIRT_PAUSE_OTHERS;
}

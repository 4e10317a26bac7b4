/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stopping a domain, and letting it run. */
#include <errno.h>
#include <string.h>
#include "vmm/libvirt/backend/internal.h"

/* What libvirt is told would be told to the next one, if it was started again. */
static int check_same(struct libvirt_guest *g, struct error *err)
{
	if (!libvirt_process_ended(&g->domain->qemu))
		return 0;
	return error_set(err, ESRCH, "domain %s has ended", g->domain->name);
}

int libvirt_guest_open_stub(struct libvirt_guest *g, struct error *err)
{
	int ret;

	if (!atomic_load(&g->stops))
		return error_set(err, EBUSY, "the domain is not stopped");
	if (g->stub.fd >= 0)
		return 0;
	ret = check_same(g, err);
	return ret ? ret : gdbstub_open(&g->stub, g->domain, err);
}

static bool parse_status(const char *text, enum libvirt_status *out)
{
	static const struct {
		const char *name;
		enum libvirt_status status;
	} states[] = {{"running", LIBVIRT_STATUS_RUNNING},
		      {"debug", LIBVIRT_STATUS_DEBUG},
		      {"paused", LIBVIRT_STATUS_PAUSED},
		      /* by a full disk or by itself, for somebody to look at it */
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
				"being moved, saved or ended");
	json_decref(reply);
	return ret;
}

/* A stop that failed is not to be taken for one of ours later. */
static void unnote_stop(struct libvirt_guest *g)
{
	enum libvirt_status status;

	if (g->journal && !libvirt_guest_status(g, &status, NULL) &&
	    status == LIBVIRT_STATUS_RUNNING)
		libvirt_journal_stop(g->journal, false, NULL);
}

/* A breakpoint's stop is nobody's but that of a tracer that has died. */
static int stop_running(struct libvirt_guest *g, struct error *err)
{
	enum libvirt_status status;
	int ret = libvirt_guest_status(g, &status, err);

	if (ret || status == LIBVIRT_STATUS_PAUSED)
		return ret;
	if (g->journal)
		ret = libvirt_journal_stop(g->journal, true, err);
	if (!ret && status == LIBVIRT_STATUS_RUNNING)
		ret = libvirt_qmp(g->domain, "stop", NULL, -1, NULL, err);
	if (!ret)
		g->let_go = true;
	else
		unnote_stop(g);
	return ret;
}

static int stop_served(struct libvirt_guest *g, struct error *err)
{
	enum libvirt_status status;
	int ret = libvirt_guest_status(g, &status, err);

	if (!ret && status != LIBVIRT_STATUS_PAUSED && g->journal)
		ret = libvirt_journal_stop(g->journal, true, err);
	if (!ret)
		ret = libvirt_traps_interrupt(g, status, err);
	if (!ret)
		g->let_go = status != LIBVIRT_STATUS_PAUSED;
	else
		unnote_stop(g);
	return ret;
}

/* It needs nothing of us any more: it runs, or is its administrator's. */
static void leave_alone(struct libvirt_guest *g)
{
	g->let_go = false;
	if (g->journal)
		libvirt_journal_stop(g->journal, false, NULL);
}

/*
 * Its administrator may suspend the domain between our look at it and our stop, and let it go on
 * while we hold it: both are seen by what libvirt takes it to be paused for. (Not so a suspend
 * while we hold it: libvirt says that this is done, and does nothing.) Where libvirt does not
 * answer, all stays as it was taken to be.
 */
static void look_who_paused(struct libvirt_guest *g)
{
	enum libvirt_pause pause;

	g->found_paused =
		!libvirt_domain_pause(g->domain, &pause, NULL) && pause == LIBVIRT_PAUSE_OTHERS;
	if (g->found_paused)
		leave_alone(g);
}

/* Likewise before it is let go on. */
static void look_who_resumed(struct libvirt_guest *g)
{
	enum libvirt_status status = LIBVIRT_STATUS_PAUSED;
	enum libvirt_pause pause;

	if (g->adopted || libvirt_domain_pause(g->domain, &pause, NULL))
		return;
	if (pause == LIBVIRT_PAUSE_OTHERS) {
		if (g->let_go)
			leave_alone(g);
		return;
	}
	/* it runs, or was stopped again by what we have written; or libvirt lags behind QEMU */
	if (pause == LIBVIRT_PAUSE_NONE)
		libvirt_guest_status(g, &status, NULL);
	if (status != LIBVIRT_STATUS_RUNNING)
		g->let_go = g->let_go || g->found_paused;
	else if (g->let_go)
		leave_alone(g);
}

void libvirt_guest_begin_stop(struct libvirt_guest *g)
{
	memset(g->have_registers, 0, sizeof(g->have_registers));
	g->have_states = false;
	g->traps.chosen = g->traps.sees_kernel = false;
}

/* With the stopper's lock, which is kept unless this fails. */
static int stop_locked(struct libvirt_guest *g, struct error *err)
{
	int ret = 0;

	if (!atomic_load(&g->stops) && atomic_load(&g->traps.moving)) {
		ret = error_set(err, ECANCELED, "the domain is being migrated");
	} else if (!atomic_load(&g->stops)) {
		ret = g->traps.running ? stop_served(g, err) : stop_running(g, err);
		if (!ret)
			look_who_paused(g);
		if (!ret)
			libvirt_clock_freeze(&g->clock, true);
		libvirt_guest_begin_stop(g);
	}
	if (ret)
		pthread_mutex_unlock(&g->stopper);
	else
		atomic_fetch_add(&g->stops, 1);
	return ret;
}

int libvirt_guest_stop(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	pthread_mutex_lock(&g->stopper);
	return stop_locked(g, err);
}

int libvirt_guest_try_stop(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	if (pthread_mutex_trylock(&g->stopper))
		return error_set(err, EBUSY, "another thread holds the domain stopped");
	return stop_locked(g, err);
}

int libvirt_guest_end_stop(struct libvirt_guest *g, struct error *err)
{
	int ret = 0;

	if (g->traps.nr_armed)
		return libvirt_traps_resume(g, g->let_go, err);
	g->traps.parked = false;
	gdbstub_close(&g->stub);
	if (g->let_go)
		ret = check_same(g, err);
	if (g->let_go && !ret)
		ret = libvirt_qmp(g->domain, "cont", NULL, -1, NULL, err);
	return ret;
}

static int let_domain_go(struct libvirt_guest *g, struct error *err)
{
	int ret;

	/* What is said to the gdbstub stops a domain that was let go on meanwhile: look behind it.
	 */
	if (!g->traps.nr_armed)
		gdbstub_close(&g->stub);
	look_who_resumed(g);
	ret = libvirt_guest_end_stop(g, err);
	if (!ret && g->let_go && g->journal)
		ret = libvirt_journal_stop(g->journal, false, err);
	if (!ret)
		g->let_go = g->adopted = false;
	return ret;
}

int libvirt_guest_resume(struct guest *guest, struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = 0;

	if (atomic_load(&g->stops) == 1) {
		ret = let_domain_go(g, err);
		libvirt_clock_freeze(&g->clock, false);
	}
	atomic_fetch_sub(&g->stops, 1);
	pthread_mutex_unlock(&g->stopper);
	return ret;
}

/* libvirt, if it was started anew meanwhile, calls it paused by a user. */
void libvirt_guest_adopt_stop(struct libvirt_guest *g)
{
	g->let_go = g->adopted = true;
}

/* By its administrator: our own stops are over soon, however long QEMU takes to make one, and
 * libvirt tells them apart. */
bool libvirt_guest_is_stopped(struct guest *guest)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	enum libvirt_pause pause;

	if (atomic_load(&g->stops))
		return !atomic_load(&g->let_go);
	return !libvirt_domain_pause(g->domain, &pause, NULL) && pause == LIBVIRT_PAUSE_OTHERS;
}

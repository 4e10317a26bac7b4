/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stopping a domain while its administrator suspends and resumes it: a model of libvirt and QEMU,
 * with what the administrator does between any two commands of ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/internal.h"

/* virDomainState and its reasons */
enum { STATE_RUNNING = 1, STATE_PAUSED = 3, BY_UNKNOWN = 0, BY_USER = 1 };

/* What may happen. */
enum { SUSPEND = 's', RESUME = 'r', STUB = 'b' /* we write, which stops QEMU */ };

static struct {
	bool runs; /* QEMU */
	int state, reason;
	const char *status;  /* QEMU's, of one that does not run; NULL: paused */
	bool dead;           /* libvirtd */
	unsigned int conts;  /* of ours */
	const char *acts;    /* before our next stop all this is done */
	const char *closing; /* and this while the gdbstub is closed */
} world;

static void qemu_stops(int reason)
{
	if (!world.runs)
		return;
	world.runs = false;
	world.state = STATE_PAUSED;
	world.reason = reason;
}

static void qemu_goes_on(void)
{
	world.runs = true;
	world.state = STATE_RUNNING;
}

static void do_act(char act)
{
	if (act == RESUME && world.state == STATE_PAUSED)
		qemu_goes_on();
	/* of a domain that is paused libvirt does not even tell QEMU */
	if (act == SUSPEND && world.state == STATE_RUNNING)
		qemu_stops(BY_USER);
	if (act == STUB)
		qemu_stops(BY_UNKNOWN);
}

static void do_acts(const char **acts)
{
	for (const char *at = *acts; at && *at; at++)
		do_act(*at);
	*acts = NULL;
}

static int command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	(void)domain;
	(void)flags;
	*result = NULL;
	if (world.dead)
		return -1;
	if (strstr(text, "\"query-status\"")) {
		const char *still = world.status ? world.status : "paused";

		return asprintf(result, "{\"return\": {\"status\": \"%s\"}}",
				world.runs ? "running" : still) < 0;
	}
	if (strstr(text, "\"stop\"")) {
		do_acts(&world.acts);
		qemu_stops(BY_UNKNOWN);
	} else if (strstr(text, "gdbserver")) {
		do_acts(&world.closing);
	} else {
		world.conts++;
		qemu_goes_on();
	}
	*result = strdup("{\"return\": {}}");
	return 0;
}

static int domain_state(virDomainPtr domain, int *state, int *reason, unsigned int flags)
{
	(void)domain;
	(void)flags;
	*state = world.state;
	*reason = world.reason;
	return world.dead ? -1 : 0;
}

static int last_code(void)
{
	return 1;
}

static const char *last_message(void)
{
	return "no";
}

static const struct libvirt_api api = {.monitor_command = command,
				       .domain_state = domain_state,
				       .last_code = last_code,
				       .last_message = last_message};

struct fixture {
	struct libvirt_domain domain;
	struct libvirt_guest g;
};

/* A running domain. */
static void set_up(struct fixture *f)
{
	*f = (struct fixture){.domain = {.api = &api},
			      .g = {.domain = &f->domain, .stub = {.fd = -1}}};
	pthread_mutex_init(&f->g.stopper, NULL);
	libvirt_clock_init(&f->g.clock);
	memset(&world, 0, sizeof(world));
	qemu_goes_on();
}

static void tear_down(struct fixture *f)
{
	libvirt_clock_deinit(&f->g.clock);
	pthread_mutex_destroy(&f->g.stopper);
}

/*
 * Stop a domain, hold it, let it go, while its administrator does `at_start` (before libvirt is
 * asked, if the domain is paused then), `at_stop` (between our look and our stop) and `held`.
 */
static bool runs_after(const char *at_start, const char *at_stop, const char *held)
{
	struct fixture f;

	set_up(&f);
	world.acts = at_start;
	do_acts(&world.acts);
	world.acts = at_stop;
	if (libvirt_guest_stop(&f.g.guest, NULL))
		abort();
	ok(!world.runs &&
		   libvirt_guest_is_stopped(&f.g.guest) == (*at_start || world.reason == BY_USER),
	   "it stands still, and whose pause that is is known");
	do_acts(&held);
	if (libvirt_guest_resume(&f.g.guest, NULL))
		abort();
	tear_down(&f);
	return world.runs;
}

/* The same, with `closing` done while the gdbstub is closed, behind which nothing stops QEMU. */
static bool runs_after_stub(const char *at_start, const char *closing)
{
	struct fixture f;

	set_up(&f);
	world.acts = at_start;
	do_acts(&world.acts);
	if (libvirt_guest_stop(&f.g.guest, NULL))
		abort();
	f.g.stub.domain = &f.domain;
	f.g.stub.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	world.closing = closing;
	if (libvirt_guest_resume(&f.g.guest, NULL) || f.g.stub.fd >= 0)
		abort();
	tear_down(&f);
	return world.runs;
}

static void test_stub(void)
{
	ok(runs_after_stub("", "b"), "the gdbstub was open: runs");
	ok(!runs_after_stub("s", "b"), "open, and suspended before: stays so");
	ok(runs_after_stub("s", "rb"), "resumed before the gdbstub is closed: runs");
	ok(runs_after_stub("s", "r"), "resumed after that: runs");
	ok(!runs_after_stub("s", "rs"), "resumed and suspended again: stays so");
}

static void test_own(void)
{
	ok(runs_after("", "", ""), "nobody but us");
	ok(!runs_after("s", "", ""), "it was suspended before");
	ok(!runs_after("b", "", ""), "it was stopped by another monitor's user before");
}

static void test_crossing(void)
{
	ok(!runs_after("", "s", ""), "suspended between our look and our stop: stays so");
	ok(runs_after("", "sr", ""), "suspended and resumed there: runs");
	ok(runs_after("s", "", "r"), "suspended before, resumed while we hold it: runs");
	ok(runs_after("s", "", "rb"), "and stopped again by what we write: runs");
	ok(!runs_after("s", "", "rs"), "and suspended again: stays so");
	ok(runs_after("", "", "r") && !world.conts, "resumed while we hold it: runs, without us");
	ok(runs_after("", "", "rb") && world.conts == 1, "and stopped again: goes on with us");
	ok(!runs_after("", "", "rs"), "and suspended then: stays so");
	ok(!runs_after("", "s", "rs"), "suspended, resumed, suspended: stays so");
	ok(runs_after("", "s", "rb"), "suspended, resumed, stopped by us: runs");
	ok(runs_after("", "", "s"), "a suspend of what stands still is none, for libvirt");
}

/* What a dead tracer has stopped runs again, whatever libvirt calls it. */
static void test_adopted(void)
{
	struct fixture f;

	set_up(&f);
	qemu_stops(BY_USER);
	libvirt_guest_stop(&f.g.guest, NULL);
	libvirt_guest_adopt_stop(&f.g);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "a stop that is adopted is ours");
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && world.runs, "and ends with us");
	do_act(SUSPEND);
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && !world.runs, "the next one is not");
	tear_down(&f);
}

/* Something else than a pause, and not ours: it can be looked at and written to, and stays. */
static void test_states(void)
{
	static const char *const still[] = {"io-error", "watchdog", "guest-panicked",
					    "internal-error", "suspended"};
	struct fixture f;

	for (size_t i = 0; i < sizeof(still) / sizeof(still[0]); i++) {
		set_up(&f);
		qemu_stops(BY_USER);
		world.status = still[i];
		ok(!libvirt_guest_stop(&f.g.guest, NULL) && libvirt_guest_is_stopped(&f.g.guest) &&
			   !libvirt_guest_resume(&f.g.guest, NULL) && !world.conts,
		   "stands still, and stays so: %s", still[i]);
		tear_down(&f);
	}
	set_up(&f);
	qemu_stops(BY_UNKNOWN);
	world.status = "finish-migrate";
	ok(libvirt_guest_stop(&f.g.guest, NULL) == -ECANCELED, "it moves: not to be touched");
	tear_down(&f);
}

/* Also by whoever does not hold it. */
static void test_is_stopped(void)
{
	struct fixture f;

	set_up(&f);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "a domain that runs is not stopped");
	do_act(SUSPEND);
	ok(libvirt_guest_is_stopped(&f.g.guest), "one that is suspended is");
	libvirt_guest_stop(&f.g.guest, NULL);
	libvirt_guest_resume(&f.g.guest, NULL);
	ok(libvirt_guest_is_stopped(&f.g.guest), "and stays so after a stop of ours");
	do_act(RESUME);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "until it is resumed");
	do_act(STUB);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "a stop that we are about to make is ours");
	do_act(RESUME);
	do_act(SUSPEND);
	world.dead = true;
	ok(!libvirt_guest_is_stopped(&f.g.guest), "nothing is known without libvirt");
	tear_down(&f);
}

static void test_dead(void)
{
	struct fixture f;

	set_up(&f);
	libvirt_guest_stop(&f.g.guest, NULL);
	world.dead = true;
	ok(libvirt_guest_resume(&f.g.guest, NULL) < 0, "libvirt is gone: told");
	world.dead = false;
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && world.runs,
	   "and back: what could not be let go on then is now");
	tear_down(&f);
}

/* What libvirt calls by the same name now is another domain: nothing is said to it. */
static void test_started_anew(void)
{
	struct fixture f;
	struct error err;
	int ended[2];

	set_up(&f);
	if (pipe(ended) || close(ended[1]))
		abort();
	libvirt_guest_stop(&f.g.guest, NULL);
	qemu_goes_on();
	qemu_stops(BY_USER);
	/* readable, as the pidfd of a process that has ended */
	f.domain.qemu = (struct libvirt_process){.pid = 1, .fd = ended[0]};
	ok(libvirt_guest_open_stub(&f.g, &err) == -ESRCH, "ended while it stood: %s", err.text);
	f.g.let_go = f.g.adopted = true;
	ok(libvirt_guest_resume(&f.g.guest, NULL) == -ESRCH && !world.conts && !world.runs,
	   "the next one, which its administrator has paused, stays so");
	qemu_goes_on();
	ok(libvirt_guest_stop(&f.g.guest, &err) == -ESRCH && world.runs, "it is not stopped: %s",
	   err.text);
	libvirt_process_close(&f.domain.qemu);
	tear_down(&f);
}

int main(void)
{
	test_own();
	test_crossing();
	test_stub();
	test_adopted();
	test_states();
	test_is_stopped();
	test_dead();
	test_started_anew();
	return tap_done();
}

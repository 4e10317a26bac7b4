/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stops of a domain while its administrator suspends and resumes it: a model of libvirt and QEMU,
 * in which the administrator acts between any two commands of sonde.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/internal.h"

/* virDomainState and its reasons */
enum { STATE_RUNNING = 1, STATE_PAUSED = 3, BY_UNKNOWN = 0, BY_USER = 1 };

enum { SUSPEND = 's', RESUME = 'r', STUB = 'b' /* sonde sends a byte, which stops QEMU */ };

static struct {
	bool runs;           /* QEMU does */
	int state, reason;   /* libvirt's */
	const char *status;  /* QEMU's while it does not run; NULL: paused */
	bool dead;           /* libvirtd is */
	unsigned int conts;  /* by sonde */
	const char *acts;    /* happen before sonde's next stop */
	const char *closing; /* happen while the gdbstub is closed */
	enum { STOP_OBEYED, STOP_REFUSED, STOP_CUT /* obeyed, without a reply */ } stop;
	const struct libvirt_journal *journal;
	bool noted; /* the journal had the stop when QEMU got it */
} world;

static bool has_stop(const struct libvirt_journal *journal)
{
	struct journal_contents contents;
	bool stopped;

	if (libvirt_journal_read(journal, &contents, NULL))
		abort();
	stopped = contents.stopped;
	journal_contents_deinit(&contents);
	return stopped;
}

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
	/* libvirt sends QEMU nothing if the domain is paused already */
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
	if (strstr(text, "\"query-chardev\"")) {
		*result = strdup("{\"return\": [{\"label\": \"sonde-gdb\", \"filename\": "
				 "\"unix:\", \"frontend-open\": true}]}");
		return 0;
	}
	if (strstr(text, "\"stop\"")) {
		do_acts(&world.acts);
		world.noted = world.journal && has_stop(world.journal);
		if (world.stop != STOP_REFUSED)
			qemu_stops(BY_UNKNOWN);
		if (world.stop != STOP_OBEYED)
			return -1;
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
 * Whether a domain runs after a stop and a resume. The administrator does `at_start` before,
 * `at_stop` between query-status and stop, and `held` while it is stopped.
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
	   "'%s', '%s' then stop: the guest is stopped, and is_stopped() is the administrator's "
	   "pause",
	   at_start, at_stop ? at_stop : "");
	do_acts(&held);
	if (libvirt_guest_resume(&f.g.guest, NULL))
		abort();
	tear_down(&f);
	return world.runs;
}

/* The same with an open gdbstub; `closing` happens while sonde closes it. */
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
	ok(runs_after_stub("", "b"), "a domain whose gdbstub was open runs after the resume");
	ok(!runs_after_stub("s", "b"), "a domain suspended before the stop stays suspended");
	ok(runs_after_stub("s", "rb"),
	   "a domain resumed while the gdbstub is closed, and stopped by that, runs");
	ok(runs_after_stub("s", "r"), "a domain resumed after the gdbstub was closed runs");
	ok(!runs_after_stub("s", "rs"),
	   "a domain resumed and suspended while the gdbstub is closed stays suspended");
}

static void test_own(void)
{
	ok(runs_after("", "", ""), "a domain that no other user pauses runs after the resume");
	ok(!runs_after("s", "", ""), "a domain suspended before the stop stays suspended");
	ok(!runs_after("b", "", ""), "a domain that a monitor's user had stopped stays stopped");
}

static void test_crossing(void)
{
	ok(!runs_after("", "s", ""), "suspended between query and stop: stays suspended");
	ok(runs_after("", "sr", ""), "suspended and resumed between query and stop: runs");
	ok(runs_after("s", "", "r"), "suspended before, resumed while held: runs");
	ok(runs_after("s", "", "rb"),
	   "suspended before, resumed while held, stopped by a byte: runs");
	ok(!runs_after("s", "", "rs"),
	   "suspended before, resumed and suspended while held: stays suspended");
	ok(runs_after("", "", "r") && !world.conts, "resumed while held: runs without a cont");
	ok(runs_after("", "", "rb") && world.conts == 1,
	   "resumed while held, stopped by a byte: runs after one cont");
	ok(!runs_after("", "", "rs"), "resumed and suspended while held: stays suspended");
	ok(!runs_after("", "s", "rs"),
	   "suspended between query and stop, resumed and suspended while held: stays suspended");
	ok(runs_after("", "s", "rb"),
	   "suspended between query and stop, resumed while held, stopped by a byte: runs");
	ok(runs_after("", "", "s"), "a suspend of a held domain is ignored by libvirt: runs");
}

/* A domain that a dead tracer has stopped runs again, whatever reason libvirt reports. */
static void test_adopted(void)
{
	struct fixture f;

	set_up(&f);
	qemu_stops(BY_USER);
	libvirt_guest_stop(&f.g.guest, NULL);
	libvirt_guest_adopt_stop(&f.g);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "an adopted stop is not the administrator's");
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && world.runs, "an adopted stop is resumed");
	do_act(SUSPEND);
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && !world.runs,
	   "a suspend after an adopted stop stays");
	do_act(RESUME);
	libvirt_guest_stop(&f.g.guest, NULL);
	do_act(RESUME);
	do_act(SUSPEND);
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && !world.runs,
	   "so does one during the stop behind it");
	tear_down(&f);
}

/* A thread that would not wait for another one's stop: NULL if it could stop the domain. */
static void *try_to_stop(void *arg)
{
	struct guest *guest = arg;

	if (libvirt_guest_try_stop(guest, NULL))
		return guest;
	libvirt_guest_resume(guest, NULL);
	return NULL;
}

static void *on_a_thread(void *(*fn)(void *), void *arg)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, fn, arg) || pthread_join(thread, &result))
		abort();
	return result;
}

static void test_try(void)
{
	struct fixture f;

	set_up(&f);
	ok(!on_a_thread(try_to_stop, &f.g.guest), "a domain that no thread holds can be stopped");
	ok(world.runs, "and runs again");
	if (libvirt_guest_stop(&f.g.guest, NULL))
		abort();
	ok(on_a_thread(try_to_stop, &f.g.guest) && !world.runs,
	   "one that another thread holds stopped is left to it");
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && world.runs, "which lets it go on");
	tear_down(&f);
}

/* Other states in which the guest stands still: it can be read and written, and is not resumed. */
static void test_states(void)
{
	static const char *const still[] = {"io-error", "watchdog", "guest-panicked",
					    "internal-error", "suspended"};
	struct fixture f;

	for (size_t i = 0; i < 2 * sizeof(still) / sizeof(still[0]); i++) {
		set_up(&f);
		qemu_stops(i % 2 ? BY_USER : BY_UNKNOWN);
		world.status = still[i / 2];
		ok(!libvirt_guest_stop(&f.g.guest, NULL) && libvirt_guest_is_stopped(&f.g.guest) &&
			   !libvirt_guest_resume(&f.g.guest, NULL) && !world.conts,
		   "a domain in state '%s' is held and not resumed", still[i / 2]);
		tear_down(&f);
	}
	set_up(&f);
	qemu_stops(BY_UNKNOWN);
	world.status = "finish-migrate";
	ok(libvirt_guest_stop(&f.g.guest, NULL) == -ECANCELED,
	   "a domain that migrates is not stopped");
	tear_down(&f);
}

/* is_stopped() while no stop is held. */
static void test_is_stopped(void)
{
	struct fixture f;

	set_up(&f);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "a domain that runs is not stopped");
	do_act(SUSPEND);
	ok(libvirt_guest_is_stopped(&f.g.guest), "a domain that is suspended is stopped");
	libvirt_guest_stop(&f.g.guest, NULL);
	libvirt_guest_resume(&f.g.guest, NULL);
	ok(libvirt_guest_is_stopped(&f.g.guest),
	   "a suspended domain is stopped after sonde's own stop, too");
	do_act(RESUME);
	ok(!libvirt_guest_is_stopped(&f.g.guest), "a domain that was resumed is not stopped");
	do_act(STUB);
	ok(!libvirt_guest_is_stopped(&f.g.guest),
	   "a pause without a reason is sonde's: not stopped");
	do_act(RESUME);
	do_act(SUSPEND);
	world.dead = true;
	ok(!libvirt_guest_is_stopped(&f.g.guest), "without libvirt a domain counts as not stopped");
	tear_down(&f);
}

static void test_dead(void)
{
	struct fixture f;

	set_up(&f);
	libvirt_guest_stop(&f.g.guest, NULL);
	world.dead = true;
	ok(libvirt_guest_resume(&f.g.guest, NULL) < 0, "a resume without libvirtd fails");
	world.dead = false;
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && world.runs,
	   "a domain that could not be resumed is resumed when libvirtd is back");
	tear_down(&f);
}

/* The watchdog is told of a stop that lasts long: the time of each must be known, and end. */
static void test_since(void)
{
	struct fixture f;

	set_up(&f);
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(f.g.stopped_ns, "it is known since when a domain is stopped");
	libvirt_guest_resume(&f.g.guest, NULL);
	ok(!f.g.stopped_ns, "a domain that runs again is not stopped since any time");
	world.stop = STOP_REFUSED;
	ok(libvirt_guest_stop(&f.g.guest, NULL) < 0 && !f.g.stopped_ns,
	   "nor is one that could not be stopped");
	tear_down(&f);
}

/* The estimate of the guest's clock stands still as long as the guest does. */
static void test_clock(void)
{
	struct fixture f;

	set_up(&f);
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(f.g.clock.frozen, "the clock of a domain that is stopped stands still");
	libvirt_guest_resume(&f.g.guest, NULL);
	ok(!f.g.clock.frozen, "that of one which runs again does not");
	world.stop = STOP_REFUSED;
	ok(libvirt_guest_stop(&f.g.guest, NULL) < 0 && !f.g.clock.frozen,
	   "nor does that of one which could not be stopped");
	tear_down(&f);
}

/* QEMU says that a debugger has stopped the domain. */
static void test_check_left(void)
{
	struct fixture f;

	set_up(&f);
	qemu_stops(BY_UNKNOWN);
	world.status = "debug";
	ok(!libvirt_guest_check_left(&f.g, NULL),
	   "that is another one if the tracer has no breakpoints and lost no connection");
	f.g.traps.enabled = true;
	ok(libvirt_guest_check_left(&f.g, NULL) == -EIO, "it is the tracer if it has breakpoints");
	f.g.traps.enabled = false;
	f.g.lost_stub = true;
	ok(libvirt_guest_check_left(&f.g, NULL) == -EIO, "or if it has lost a connection");
	tear_down(&f);
}

/* libvirt has started the domain again, under the same name: no command may reach it. */
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
	ok(libvirt_guest_open_stub(&f.g, &err) == -ESRCH,
	   "the gdbstub of a domain that has ended is not opened: %s", err.text);
	f.g.will_run = f.g.adopted = true;
	ok(libvirt_guest_resume(&f.g.guest, NULL) == -ESRCH && !world.conts && !world.runs,
	   "the domain's next start, which its administrator has paused, is not resumed");
	qemu_goes_on();
	ok(libvirt_guest_stop(&f.g.guest, &err) == -ESRCH && world.runs,
	   "the domain's next start is not stopped: %s", err.text);
	libvirt_process_close(&f.domain.qemu);
	tear_down(&f);
}

static void set_up_journal(struct fixture *f, struct libvirt_journal *journal)
{
	set_up(f);
	*journal = (struct libvirt_journal){
		.folder = -1,
		.fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING),
		.compact_at = 1 << 20};
	world.journal = f->g.journal = journal;
}

/* The tracer may die at any command: the journal says whether the pause is its own. */
static void test_journal(void)
{
	struct libvirt_journal journal;
	struct fixture f;

	set_up_journal(&f, &journal);
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(world.noted && has_stop(&journal), "the journal has a stop before QEMU gets it");
	libvirt_guest_resume(&f.g.guest, NULL);
	ok(!has_stop(&journal), "when the domain runs again, it no longer does");
	world.stop = STOP_REFUSED;
	ok(libvirt_guest_stop(&f.g.guest, NULL) && world.runs && !has_stop(&journal),
	   "nor does it after a stop that failed, while the domain runs");
	world.stop = STOP_CUT;
	ok(libvirt_guest_stop(&f.g.guest, NULL) && !world.runs && has_stop(&journal),
	   "it does after one that failed with the domain stopped");
	qemu_goes_on();
	libvirt_journal_stop(&journal, false, NULL);
	world.stop = STOP_OBEYED;
	do_act(SUSPEND);
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(!has_stop(&journal), "a domain that was suspended before is not the tracer's to resume");
	libvirt_guest_resume(&f.g.guest, NULL);
	do_act(RESUME);
	world.acts = "s";
	libvirt_guest_stop(&f.g.guest, NULL);
	ok(world.noted && !has_stop(&journal),
	   "nor is one that was suspended between query and stop");
	libvirt_guest_resume(&f.g.guest, NULL);
	libvirt_journal_close(&journal);
	tear_down(&f);
}

/* The file system of the journal is full. A patched domain has to be stopped to take patches back.
 */
static void test_full_journal(void)
{
	struct libvirt_journal journal;
	struct fixture f;

	set_up_journal(&f, &journal);
	libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"g", (const uint8_t *)"o", 1,
			      NULL);
	if (fcntl(journal.fd, F_ADD_SEALS, F_SEAL_GROW))
		abort();
	ok(!libvirt_guest_stop(&f.g.guest, NULL) && !world.runs && !world.noted,
	   "with a full journal a patched domain is stopped without a line");
	ok(!libvirt_guest_resume(&f.g.guest, NULL) && world.runs, "and runs on");
	libvirt_journal_written(&journal, 0x1000, (const uint8_t *)"g", 1);
	ok(libvirt_guest_stop(&f.g.guest, NULL) == -EIO && world.runs,
	   "one that is not patched is not stopped");
	libvirt_journal_close(&journal);
	tear_down(&f);
}

int main(void)
{
	test_own();
	test_crossing();
	test_stub();
	test_adopted();
	test_try();
	test_states();
	test_is_stopped();
	test_dead();
	test_since();
	test_clock();
	test_check_left();
	test_started_anew();
	test_journal();
	test_full_journal();
	return tap_done();
}

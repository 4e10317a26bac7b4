/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints of a domain whose gdbstub answers late, twice, in part, or something else: in the end
 * the domain runs without breakpoints, or the checks at the end of a trace say that it does not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/libvirt/backend/traps-fixture.h"

enum {
	TIMEOUT_MS = 150, /* less than a stall */
	END_TRIES = 3,
};

static void be_impatient(struct fixture *f)
{
	pthread_mutex_lock(&f->g->stopper);
	f->g->stub.rsp.timeout_ms = TIMEOUT_MS;
	pthread_mutex_unlock(&f->g->stopper);
}

static void set_up(struct fixture *f)
{
	set_up_domain(f);
	be_impatient(f);
}

static bool journal_is_stopped(struct fixture *f)
{
	struct journal_contents contents;
	bool stopped;

	if (libvirt_journal_read(&f->journal, &contents, NULL))
		abort();
	stopped = contents.stopped;
	journal_contents_deinit(&contents);
	return stopped;
}

/* What the end of a trace checks. */
static bool looks_undone(struct fixture *f)
{
	return !journal_is_stopped(f) && !libvirt_guest_check_breaks(f->g, NULL) &&
	       !libvirt_guest_check_left(f->g, NULL);
}

static bool is_undone(struct fixture *f)
{
	return fake_qemu_runs(f->qemu) && !fake_qemu_breaks(f->qemu) &&
	       !fake_qemu_has_debugger(f->qemu);
}

/* As a session does: the trace is ended, and what is left is tried again. */
static bool end_trace(struct fixture *f)
{
	for (int i = 0; i < END_TRIES; i++)
		if (!set_all(f, false) && looks_undone(f))
			return true;
	return false;
}

static void test_plain(void)
{
	struct fixture f;
	struct error err;

	set_up_domain(&f);
	is_u64(fake_qemu_breaks(f.qemu), 2 * PLACES, "breakpoints are in QEMU, of all vCPUs");
	ok(hit(&f, 0, 0) && hit(&f, 1, 1) && hit(&f, 0, 1), "hits of two vCPUs are served");
	is_u64(fake_qemu_rip(f.qemu, 0), place(1) + 1, "a vCPU goes on where the handler says");
	ok(!failed(&f, NULL), "nothing has failed");
	ok(libvirt_guest_check_breaks(f.g, &err) == -EIO && !strncmp(err.text, "2 ", 2),
	   "as long as there are breakpoints the check counts them: %s", err.text);
	ok(end_trace(&f) && is_undone(&f),
	   "in the end the domain runs, without breakpoints and gdbstub");
	ok(!set_all(&f, true) && hit(&f, 0, 0) && !failed(&f, NULL),
	   "tracing can begin again, and hits are served");
	ok(end_trace(&f) && is_undone(&f), "and end again");
	ok(!f.gaps, "no time was left out");
	tear_down(&f);
}

static const char *const fault_names[] = {"obeys",
					  "stalls",
					  "answers twice",
					  "cuts its reply and closes",
					  "sends a stop notice in between",
					  "answers something else",
					  "does not answer"};

/* The fault meets packet `n` of: two hits, and the end. */
static bool test_fault(struct fake_qemu *qemu, enum fake_fault fault, int n)
{
	struct error err = {0};
	struct fixture f = {.qemu = qemu};
	bool undone;

	attach(&f);
	be_impatient(&f);
	f.fault = fault;
	f.countdown = n;
	fake_qemu_set_fault(f.qemu, on_packet, &f);
	if (hit(&f, 0, 0))
		hit(&f, 1, 1);
	failed(&f, &err);
	undone = end_trace(&f) && is_undone(&f);
	ok(undone,
	   "the gdbstub %s at packet %d (%s): the end leaves the domain running, without "
	   "breakpoints (%s)",
	   fault_names[fault], n, f.met, err.code ? err.text : "no error");
	if (!undone)
		tap_diag("runs: %d, %zu breakpoints, debugger: %d, journal "
			 "stopped: "
			 "%d",
			 fake_qemu_runs(f.qemu), fake_qemu_breaks(f.qemu),
			 fake_qemu_has_debugger(f.qemu), journal_is_stopped(&f));
	fake_qemu_set_fault(f.qemu, NULL, NULL);
	detach(&f);
	return undone;
}

/* Of one domain, as long as each tracer leaves it as it was. */
static void test_faults(void)
{
	enum { PACKETS = 20 };
	struct fake_qemu *qemu = fake_qemu_create(2);
	bool undone = true;

	for (enum fake_fault fault = FAKE_STALL; undone && fault <= FAKE_DEAF; fault++)
		for (int n = 1; undone && n <= PACKETS; n++)
			undone = test_fault(qemu, fault, n);
	fake_qemu_destroy(qemu);
}

/* The guest must not wait for the end of the trace. */
static void test_runs_on(void)
{
	struct error err;
	struct fixture f;

	set_up(&f);
	f.fault = FAKE_STALL;
	f.countdown = 2;
	fake_qemu_set_fault(f.qemu, on_packet, &f);
	ok(!hit(&f, 0, 0), "a late reply ends the service");
	ok(failed(&f, &err) && err.code == ETIMEDOUT,
	   "a late reply: the trace ends with an error: %s", err.text);
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	fake_qemu_reach(f.qemu, 1, place(1));
	clock_wait_ms(20);
	ok(fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu),
	   "a late reply: the guest runs on without breakpoints, before the trace ends");
	ok(end_trace(&f) && is_undone(&f), "a late reply: the end finds nothing left");
	tear_down(&f);
}

/* A breakpoint that the tracer does not know: the guest must not meet it again and again. */
static void test_disowned(void)
{
	struct error err;
	struct fixture f;

	set_up(&f);
	f.disown = true;
	ok(!hit(&f, 0, 0) && failed(&f, &err) && err.code == EPROTO,
	   "a hit that no tracer handles ends the trace: %s", err.text);
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	ok(fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu) && f.hits == 1,
	   "the guest runs on without breakpoints, before the trace ends");
	ok(end_trace(&f) && is_undone(&f), "the end finds nothing left");
	tear_down(&f);
}

/* Without libvirt a lost connection cannot be replaced: the checks must say so. */
static void test_no_libvirt(void)
{
	struct fixture f;

	set_up(&f);
	f.fault = FAKE_DEAF;
	f.countdown = 2;
	fake_qemu_set_fault(f.qemu, on_packet, &f);
	fake_qemu_set_dead_libvirtd(f.qemu, true);
	hit(&f, 0, 0);
	ok(!end_trace(&f) && !fake_qemu_runs(f.qemu),
	   "the gdbstub and libvirt fail: the end reports that the domain is not as it was");
	ok(journal_is_stopped(&f),
	   "the gdbstub and libvirt fail: the journal says that the domain is stopped");
	fake_qemu_set_dead_libvirtd(f.qemu, false);
	ok(end_trace(&f) && is_undone(&f), "libvirt is back: the next try undoes everything");
	tear_down(&f);
}

/* The gdbstub stops answering while it serves a hit; the domain is let go on. */
static void lose_connection(struct fixture *f)
{
	f->fault = FAKE_STALL;
	f->countdown = 2;
	fake_qemu_set_fault(f->qemu, on_packet, f);
	hit(f, 0, 0);
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f->qemu); i++)
		clock_wait_ms(1);
}

/* Without a gdbstub QEMU's monitor stops the domain. */
static void test_stop_after_loss(void)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f);
	guest = libvirt_guest(f.g);
	pthread_mutex_lock(&f.g->stopper);
	error_set(&f.g->stub.rsp.lost, ECONNRESET, "lost");
	fake_qemu_set_dead_libvirtd(f.qemu, true);
	ok(libvirt_guest_stop(guest, NULL) < 0 && fake_qemu_runs(f.qemu) && f.g->traps.running,
	   "a stop without gdbstub and libvirt fails, and the domain counts as running with its "
	   "breakpoints");
	fake_qemu_set_dead_libvirtd(f.qemu, false);
	ok(!libvirt_guest_stop(guest, NULL) && !fake_qemu_runs(f.qemu) && !f.g->traps.running &&
		   !rsp_is_lost(&f.g->stub.rsp),
	   "a stop after a lost connection stops the domain, and has a new one");
	ok(!libvirt_guest_resume(guest, NULL) && fake_qemu_runs(f.qemu), "the domain runs on");
	pthread_mutex_unlock(&f.g->stopper);
	ok(end_trace(&f) && is_undone(&f), "the end finds nothing left");
	tear_down(&f);
}

/* An administrator's suspend is kept, also after the connection was lost. */
static void test_suspended(bool lost)
{
	struct fixture f;

	set_up(&f);
	if (lost)
		lose_connection(&f);
	fake_qemu_suspend(f.qemu);
	ok(!set_all(&f, false) && looks_undone(&f) && !fake_qemu_runs(f.qemu),
	   "%s: a domain that its administrator has suspended stays suspended, and is as it was",
	   lost ? "after a lost connection" : "plain");
	fake_qemu_resume(f.qemu);
	ok(is_undone(&f), "and runs without breakpoints when it is resumed");
	tear_down(&f);
}

/* The connection is lost while no hit is served: tracing goes on, with a gap. */
static void test_goes_on(void)
{
	const uint64_t begin = clock_monotonic_ns();
	struct guest *guest;
	struct fixture f;

	set_up(&f);
	f.fault = FAKE_DEAF;
	f.countdown = 1;
	fake_qemu_set_fault(f.qemu, on_packet, &f);
	guest = libvirt_guest(f.g);
	if (libvirt_guest_stop(guest, NULL))
		abort();
	ok(guest->traps->set_break(guest, place(PLACES), place(PLACES), true, NULL) == -ETIMEDOUT,
	   "a breakpoint meets a gdbstub that does not answer");
	ok(!libvirt_guest_resume(guest, NULL) && fake_qemu_runs(f.qemu) &&
		   fake_qemu_breaks(f.qemu) >= 2 * PLACES,
	   "the resume replaces the connection, and puts the breakpoints back");
	ok(hit(&f, 0, 0) && f.gaps == 1 && !failed(&f, NULL),
	   "hits are served again, and the handler was told of the gap");
	ok(f.gap_ns <= clock_monotonic_ns() - begin,
	   "which is as long as the breakpoints were out");
	if (libvirt_guest_stop(guest, NULL) ||
	    guest->traps->set_break(guest, place(PLACES), place(PLACES), false, NULL) ||
	    libvirt_guest_resume(guest, NULL))
		abort();
	ok(end_trace(&f) && is_undone(&f), "the end finds nothing left");
	tear_down(&f);
}

/* Another user of QEMU's monitor stops the domain. Such a stop has no reason, like sonde's. */
static void test_monitor_stop(bool lost)
{
	struct fixture f;

	set_up(&f);
	if (lost)
		lose_connection(&f);
	libvirt_qmp(&f.domain, "stop", NULL, -1, NULL, NULL);
	ok(libvirt_guest_check_left(f.g, NULL) == (lost ? -EIO : 0),
	   "a stop by a monitor's user %s",
	   lost ? "may be by a byte of sonde's after a lost "
		  "connection"
		: "is not sonde's");
	ok(!set_all(&f, false) && fake_qemu_runs(f.qemu) == lost, "%s",
	   lost ? "so the domain is resumed" : "so the domain stays stopped");
	tear_down(&f);
}

/* The same when the trace has ended, and no connection was lost. */
static void test_stop_after_end(void)
{
	struct fixture f;

	set_up(&f);
	if (!end_trace(&f) || set_all(&f, false))
		abort();
	libvirt_qmp(&f.domain, "stop", NULL, -1, NULL, NULL);
	ok(!set_all(&f, false) && !fake_qemu_runs(f.qemu),
	   "a stop by a monitor's user after the end: the domain stays stopped");
	tear_down(&f);
}

/* libvirt does not say whose pause it is. */
static void test_unknown_stop(bool lost)
{
	struct fixture f;

	set_up(&f);
	if (lost)
		lose_connection(&f);
	fake_qemu_set_dead_libvirtd(f.qemu, true);
	ok(!libvirt_guest_check_left(f.g, NULL) == !lost, "without libvirt a domain counts as %s",
	   lost ? "stopped, after a lost connection" : "left");
	fake_qemu_set_dead_libvirtd(f.qemu, false);
	ok(end_trace(&f) && is_undone(&f), "the end finds nothing left");
	tear_down(&f);
}

/* The tracer may die while the gdbstub holds the domain. */
static void test_journal(void)
{
	struct fixture f;

	set_up(&f);
	libvirt_guest_stop(libvirt_guest(f.g), NULL);
	ok(!fake_qemu_runs(f.qemu) && journal_is_stopped(&f),
	   "the journal has a stop by the gdbstub");
	libvirt_guest_resume(libvirt_guest(f.g), NULL);
	ok(fake_qemu_runs(f.qemu) && !journal_is_stopped(&f),
	   "when the domain runs again, it no longer does");
	tear_down(&f);
}

static void test_moving(void)
{
	struct fixture f;

	set_up(&f);
	fake_qemu_set_dead_libvirtd(f.qemu, true);
	libvirt_guest_move(f.g);
	ok(fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu) &&
		   !libvirt_guest_check_breaks(f.g, NULL) && !journal_is_stopped(&f),
	   "without libvirt, the gdbstub takes the breakpoints out and the domain runs");
	ok(!failed(&f, NULL), "that is no error");
	ok(libvirt_guest_stop(libvirt_guest(f.g), NULL) == -ECANCELED,
	   "a domain that is being moved is not stopped");
	tear_down(&f);
}

static void test_moving_full(void)
{
	struct fixture f;

	set_up(&f);
	if (fcntl(f.journal.fd, F_ADD_SEALS, F_SEAL_GROW))
		abort();
	libvirt_guest_move(f.g);
	ok(fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu) && !failed(&f, NULL),
	   "without room for the journal the breakpoints are taken out of a domain that moves");
	tear_down(&f);
}

/* A vCPU reaches a breakpoint while the gdbstub is asked to stop the domain. */
static void test_moving_hit(void)
{
	struct fixture f;

	set_up(&f);
	fake_qemu_cross(f.qemu, place(0));
	libvirt_guest_move(f.g);
	ok(fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu) && !journal_is_stopped(&f),
	   "a hit at the moment of a move: the breakpoints are out, and the domain runs");
	ok(!failed(&f, NULL), "that is no error");
	tear_down(&f);
}

/* QEMU itself stops the domain at that moment, to send the rest of its memory. */
static void test_moving_ends(void)
{
	struct fixture f;

	set_up(&f);
	fake_qemu_cross(f.qemu, FAKE_MIGRATION);
	libvirt_guest_move(f.g);
	ok(!fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu) && !journal_is_stopped(&f),
	   "QEMU's stop at the end of a move: the breakpoints are out, and QEMU goes on itself");
	tear_down(&f);
}

static void test_moving_deaf(void)
{
	struct fixture f;
	struct error err = {0};

	set_up(&f);
	f.fault = FAKE_DEAF;
	f.countdown = 2;
	fake_qemu_set_fault(f.qemu, on_packet, &f);
	libvirt_guest_move(f.g);
	ok(libvirt_guest_check_breaks(f.g, NULL) == -EIO && journal_is_stopped(&f),
	   "a gdbstub that does not answer while the domain is moved: the checks say so");
	ok(failed(&f, &err) && err.code == ETIMEDOUT, "and the trace ends with an error: %s",
	   err.text);
	tear_down(&f);
}

/* Newer QEMUs send no stop notice for most hits. */
static void test_no_notice(void)
{
	struct fixture f;

	set_up_domain(&f);
	fake_qemu_set_notices(f.qemu, FAKE_NO_NOTICES);
	ok(hit(&f, 0, 0) && hit(&f, 1, 1) && !failed(&f, NULL),
	   "a hit without a stop notice is found by asking");
	fake_qemu_set_notices(f.qemu, FAKE_ALL_NOTICES);
	ok(end_trace(&f) && is_undone(&f), "and nothing is left in the end");
	tear_down(&f);
}

/* A stop notice that names a vCPU which is not there. */
static void test_strange_notice(void)
{
	struct fixture f;

	set_up_domain(&f);
	fake_qemu_set_notices(f.qemu, FAKE_STRANGE_NOTICES);
	ok(hit(&f, 0, 0) && hit(&f, 1, 1) && !failed(&f, NULL),
	   "the vCPUs that stand at breakpoints are served");
	fake_qemu_set_notices(f.qemu, FAKE_ALL_NOTICES);
	ok(end_trace(&f) && is_undone(&f), "and nothing is left in the end");
	tear_down(&f);
}

/* A stop notice that means nothing: the guest must not wait for the end of the trace. */
static void test_broken_notice(void)
{
	struct error err = {0};
	struct fixture f;

	set_up(&f);
	fake_qemu_set_notices(f.qemu, FAKE_BROKEN_NOTICES);
	hit(&f, 0, 0);
	for (int i = 0; i < PATIENCE_MS && !failed(&f, &err); i++)
		clock_wait_ms(1);
	ok(err.code == EBADMSG, "a malformed stop notice ends the service: %s", err.text);
	fake_qemu_set_notices(f.qemu, FAKE_ALL_NOTICES);
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	ok(fake_qemu_runs(f.qemu) && !fake_qemu_breaks(f.qemu),
	   "the guest runs on, without breakpoints, before the trace ends");
	ok(end_trace(&f) && is_undone(&f), "the end finds nothing left");
	tear_down(&f);
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_plain();
	test_runs_on();
	test_disowned();
	test_no_libvirt();
	test_suspended(false);
	test_suspended(true);
	test_goes_on();
	test_stop_after_loss();
	test_monitor_stop(false);
	test_monitor_stop(true);
	test_stop_after_end();
	test_unknown_stop(false);
	test_unknown_stop(true);
	test_journal();
	test_moving();
	test_moving_full();
	test_moving_hit();
	test_moving_ends();
	test_moving_deaf();
	test_no_notice();
	test_strange_notice();
	test_broken_notice();
	test_faults();
	return tap_done();
}

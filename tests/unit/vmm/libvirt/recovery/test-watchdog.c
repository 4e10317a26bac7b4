/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The watchdog, which recovers a domain when its tracer has died or hangs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/libvirt/recovery/recover-fixture.h"
#include "vmm/libvirt/recovery/watchdog.h"

/* A tracer that a /proc with hidepid hides from all others. */
static pid_t hidden;

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (hidden && getpid() != hidden && !strcmp(path, ".")) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

/* Its watchdog would take it for one that lives for ever. */
static void test_hidden(void)
{
	struct libvirt_watchdog watchdog;
	struct error err = {0};

	hidden = getpid();
	ok(libvirt_watchdog_start(NULL, &watchdog, &err) == -ENOENT &&
		   strstr(err.text, "cannot look at this process"),
	   "a watchdog that cannot see its tracer is not relied on: %s", err.text);
	hidden = 0;
	if (!err.code)
		libvirt_watchdog_end(&watchdog, true);
}

static void on_signal(int signal)
{
	(void)signal;
}

/* From now on signals interrupt this process again and again. */
static void be_interrupted(void)
{
	const struct itimerval often = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};

	if (setitimer(ITIMER_REAL, &often, NULL))
		_exit(99);
}

/*
 * A tracer, in a process of its own, arms its watchdog and reports `undone`, or dies. Signals
 * interrupt both of them.
 */
static void run_tracer(bool undone, bool exposed, bool hang)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct libvirt_watchdog watchdog;

	sigaction(SIGALRM, &action, NULL);
	if (libvirt_watchdog_start(NULL, &watchdog, NULL) ||
	    libvirt_watchdog_arm(&watchdog, fake_qemu_uuid(), NULL))
		_exit(99);
	libvirt_watchdog_beat(&watchdog, true);
	if (!exposed)
		libvirt_watchdog_beat(&watchdog, false);
	clock_wait_ms(50);
	kill(watchdog.pid, SIGALRM);
	/* time enough for a watchdog that takes the tracer for one that hangs */
	if (!hang)
		clock_wait_ms(50);
	else
		sleep(24); /* more than the watchdog's looks for one that is dead */
	be_interrupted();
	_exit(libvirt_watchdog_end(&watchdog, undone) ? 0 : 1);
}

static int said_fd = -1; /* what the last tracer and its watchdog said: */
static char said[1024];

static void read_said(void)
{
	ssize_t n = pread(said_fd, said, sizeof(said) - 1, 0);

	said[n > 0 ? n : 0] = '\0';
	for (char *c = strchr(said, '\n'); c; c = strchr(c, '\n'))
		*c = ';';
}

/* A watchdog whose tracer does not wait for it may say it later. */
static bool await_said(const char *text)
{
	for (int i = 0; i < 5000 && !strstr(said, text); i++) {
		clock_wait_ms(1);
		read_said();
	}
	return strstr(said, text);
}

static int trace(bool undone, bool exposed, bool hang)
{
	pid_t child;
	int status;

	if (said_fd >= 0)
		close(said_fd);
	said_fd = memfd_create("stderr", MFD_CLOEXEC);
	/* a watchdog starts before its tracer has a journal */
	libvirt_journal_close(&journal);
	fake_qemu_join(qemu);
	child = fork();
	if (!child) {
		dup2(said_fd, STDERR_FILENO);
		run_tracer(undone, exposed, hang);
	}
	waitpid(child, &status, 0);
	read_said();
	return status;
}

static void test_watchdog(void)
{
	int status;

	begin();
	stand_at_breakpoint();
	status = trace(false, true, false);
	ok(WIFEXITED(status) && !WEXITSTATUS(status) && fake_qemu_runs(qemu) &&
		   !fake_qemu_breaks(qemu) && !has_journal(),
	   "a tracer that does not report that all is undone: the watchdog recovers the domain");
	ok(strstr(said, "has put back 0 places, removed the breakpoints, and resumed the domain") &&
		   !strstr(said, "killed"),
	   "and says what it has done: %s", said);
	end();
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	stop_by_monitor();
	status = trace(true, true, false);
	ok(WIFEXITED(status) && !WEXITSTATUS(status) && !fake_qemu_runs(qemu) && has_journal(),
	   "a tracer that reports that all is undone: the watchdog changes nothing");
	ok(!*said, "and says nothing: %s", said);
	end();
	begin();
	trace(false, true, false);
	ok(strstr(said, "has put back 0 places;"), "it says no more than it has done: %s", said);
	end();
	begin();
	stand_at_breakpoint();
	fake_qemu_set_fault(qemu, end_qemu, NULL);
	trace(false, true, false);
	ok(strstr(said, "has ended") && !strstr(said, "put back 0") && !has_journal(),
	   "or that the domain has ended: %s", said);
	end();
}

/* Pauses between the watchdog's attempts are shorter than this, and grow. */
static bool await_end_of_journal(void)
{
	const uint64_t end_ms = clock_monotonic_ms() + 20000;

	while (has_journal() && clock_monotonic_ms() < end_ms)
		clock_wait_ms(1);
	return !has_journal();
}

/* The first recovery fails, for a reason that passes by itself; or the first two do. */
static void test_watchdog_tries_again(bool suspended)
{
	unsigned int tries;
	int status;

	begin();
	stand_at_breakpoint();
	libvirt_journal_stop(&journal, true, NULL);
	fake_qemu_set_fault(qemu, be_deaf, NULL);
	status = trace(false, true, false);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 1 && has_journal(),
	   "the watchdog's first recovery fails, and it says so");
	tries = *deaf;
	for (int i = 0; i < 10000 && !suspended && *deaf == tries; i++)
		clock_wait_ms(1);
	if (suspended) {
		fake_qemu_resume(qemu);
		fake_qemu_forget(qemu);
		fake_qemu_resume(qemu);
		fake_qemu_suspend(qemu);
	}
	fake_qemu_set_fault(qemu, NULL, NULL);
	ok(await_end_of_journal() && !fake_qemu_breaks(qemu), "it tries again, and succeeds");
	ok(fake_qemu_runs(qemu) == !suspended, "the domain %s",
	   suspended ? "that its administrator has suspended since stays suspended" : "runs");
	end();
}

/* The first recovery fails, and others would. */
static void test_watchdog_gives_up(void)
{
	int status;

	begin();
	fake_qemu_plug(qemu);
	write_ours(OTHER_PLACE, "\0\0\0\0\0\0\0\0", "pmdentry", 8);
	status = trace(false, true, false);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 1, "a recovery that cannot succeed fails");
	memset(fake_qemu_ram(qemu) + OTHER_PLACE, 0, 8);
	clock_wait_ms(1500);
	ok(has_journal(), "the watchdog leaves it to the administrator");
	end();
}

/* Right after the tracer's death the domain is still in the tracer's hands. */
static void test_watchdog_at_once(void)
{
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	fake_qemu_suspend(qemu);
	trace(false, true, false);
	ok(fake_qemu_runs(qemu) && !has_journal(),
	   "a domain that the tracer has stopped is resumed by its watchdog at once");
	end();
}

/* As if both were frozen, and the watchdog ran again first. */
static void run_frozen_tracer(void)
{
	struct libvirt_watchdog watchdog;

	if (libvirt_watchdog_start(NULL, &watchdog, NULL) ||
	    libvirt_watchdog_arm(&watchdog, fake_qemu_uuid(), NULL))
		_exit(99);
	libvirt_watchdog_beat(&watchdog, true);
	clock_wait_ms(50);
	kill(watchdog.pid, SIGSTOP);
	sleep(11);
	kill(watchdog.pid, SIGCONT);
	clock_wait_ms(900);
	libvirt_watchdog_beat(&watchdog, true);
	clock_wait_ms(2500);
	_exit(libvirt_watchdog_end(&watchdog, true) ? 0 : 1);
}

/* At the same time, as each takes 10 s. */
static void test_hanging(void)
{
	pid_t child, frozen;
	int status;

	begin();
	stand_at_breakpoint();
	libvirt_journal_close(&journal);
	fake_qemu_join(qemu);
	child = fork();
	if (!child)
		run_tracer(true, false, true);
	frozen = fork();
	if (!frozen)
		run_frozen_tracer();
	status = trace(true, true, true);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	   "a tracer that does not beat with breakpoints in the domain is killed");
	ok(await_said("the watchdog has killed it"), "and the watchdog says so: %s", said);
	for (int i = 0; i < 5000 && has_journal(); i++)
		clock_wait_ms(1);
	ok(fake_qemu_runs(qemu) && !fake_qemu_breaks(qemu) && !has_journal(),
	   "and the watchdog recovers the domain");
	waitpid(child, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status),
	   "a tracer without breakpoints in the domain may take its time");
	waitpid(frozen, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status),
	   "so may one that beats again soon after both were frozen");
	end();
}

static void arm(struct libvirt_watchdog *watchdog)
{
	if (libvirt_watchdog_start(NULL, watchdog, NULL) ||
	    libvirt_watchdog_arm(watchdog, fake_qemu_uuid(), NULL))
		_exit(99);
}

static void be_watched_tracer(void)
{
	struct libvirt_watchdog watchdog;

	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
	arm(&watchdog);
	be_tracer();
}

/* A tracer that is killed while a thread of its own hangs in the kernel keeps its descriptors. */
static void test_hangs_dead(void)
{
	pid_t tracer;

	begin();
	tracer = start_dead_tracer(be_watched_tracer);
	ok(await_end_of_journal() && fake_qemu_runs(qemu) && !fake_qemu_breaks(qemu),
	   "a dead tracer keeps its descriptors: its watchdog recovers the domain");
	end_dead_tracer(tracer);
	end();
}

static void be_done_tracer(void)
{
	struct libvirt_watchdog watchdog;

	arm(&watchdog);
	be_tracer();
	if (write(watchdog.fd, "q", 1) != 1)
		_exit(99);
}

/* It has reported that all is undone. */
static void test_hangs_done(void)
{
	pid_t tracer;

	begin();
	tracer = start_dead_tracer(be_done_tracer);
	sleep(5); /* more than the watchdog waits for a dead tracer's end */
	ok(has_journal() && fake_qemu_breaks(qemu),
	   "the watchdog of one that has undone all does nothing");
	end_dead_tracer(tracer);
	end();
}

/* As a log's file system, which hangs: a pipe that is full. */
static void test_output_hangs(void)
{
	static const char text[4096];
	const unsigned int tries = *deaf;
	struct libvirt_watchdog watchdog;
	int full[2];
	pid_t child;

	if (pipe2(full, O_CLOEXEC | O_NONBLOCK))
		abort();
	while (write(full[1], text, sizeof(text)) > 0)
		;
	fcntl(full[1], F_SETFL, 0);
	begin();
	stand_at_breakpoint();
	fake_qemu_set_fault(qemu, be_deaf, NULL);
	libvirt_journal_close(&journal);
	fake_qemu_join(qemu);
	child = fork();
	if (!child) {
		close(full[0]);
		dup2(full[1], STDERR_FILENO);
		arm(&watchdog);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	for (int i = 0; i < 10000 && *deaf == tries; i++)
		clock_wait_ms(1);
	clock_wait_ms(500);
	fake_qemu_set_fault(qemu, NULL, NULL);
	ok(await_end_of_journal() && fake_qemu_runs(qemu),
	   "a watchdog whose output hangs tries again as well");
	close(full[0]);
	close(full[1]);
	end();
}

/* A pipe's ends are the last descriptors that this process may open, but for some. */
static void test_no_descriptors(unsigned int spare, const char *what)
{
	struct libvirt_watchdog watchdog;
	struct rlimit before, few;
	struct error err = {0};
	int ends[2];

	if (getrlimit(RLIMIT_NOFILE, &before) || pipe2(ends, O_CLOEXEC))
		abort();
	few = before;
	few.rlim_cur = (rlim_t)ends[1] + 1 + spare;
	close(ends[0]);
	close(ends[1]);
	if (setrlimit(RLIMIT_NOFILE, &few))
		abort();
	ok(libvirt_watchdog_start("test:///default", &watchdog, &err) == -EMFILE && watchdog.fd < 0,
	   "a watchdog is not started that could not %s: %s", what, err.text);
	setrlimit(RLIMIT_NOFILE, &before);
	ok(!pipe2(ends, O_CLOEXEC) && ends[1] + 1 + (int)spare == (int)few.rlim_cur,
	   "and no descriptor is left");
	close(ends[0]);
	close(ends[1]);
}

#ifdef __SANITIZE_THREAD__
enum { CHILD_MAY_HAVE_THREADS = 0 };
#else
enum { CHILD_MAY_HAVE_THREADS = 1 };
#endif

int main(int argc, char **argv)
{
	set_up_tests(argc, argv);
	test_watchdog();
	test_watchdog_tries_again(false);
	test_watchdog_tries_again(true);
	test_watchdog_gives_up();
	test_watchdog_at_once();
	test_hanging();
	if (CHILD_MAY_HAVE_THREADS) {
		test_hangs_dead();
		test_hangs_done();
	} else {
		tap_skip("a dead tracer's watchdog",
			 "ThreadSanitizer follows no threads in a child of a process with threads");
	}
	test_output_hangs();
	test_hidden();
	test_no_descriptors(0, "end its tracer");
	test_no_descriptors(1, "see its tracer's death");
	return end_tests();
}

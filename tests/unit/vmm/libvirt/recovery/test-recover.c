/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recovery, or the watchdog, does to a domain whose tracer has died. */
#include "vmm/libvirt/recovery/recover.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"
#include "vmm/cmd.h"
#include "vmm/libvirt/gdb/rsp.h"
#include "vmm/libvirt/gdb/stub.h"
#include "vmm/libvirt/recovery/watchdog.h"

enum { NOBODY = 65534, PLACE = 0x2000, OTHER_PLACE = 0x3000, BYTE_PLACE = 0x4000, GVA = 0x1000 };

int libvirt_lib_load(const struct libvirt_api **out, struct error *err)
{
	(void)err;
	*out = fake_qemu_libvirt();
	return 0;
}

static char folder[] = "/tmp/test-recover-XXXXXX";
static struct fake_qemu *qemu;
static struct libvirt_domain domain;
static struct libvirt_journal journal;
static struct libvirt_recovery outcome;
static struct error why;

/* A tracer has a journal of a running domain. */
static void begin(void)
{
	qemu = fake_qemu_create(2);
	domain = fake_qemu_domain(qemu);
	if (libvirt_journal_create(fake_qemu_uuid(), &journal, NULL) ||
	    libvirt_journal_instance(&journal, &domain.qemu.instance, NULL))
		abort();
	memset(&why, 0, sizeof(why));
}

static bool has_journal(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/sonde/%s", folder, fake_qemu_uuid());
	return !access(path, F_OK);
}

static void end(void)
{
	struct libvirt_journal left;

	if (!libvirt_journal_adopt(fake_qemu_uuid(), &left, NULL))
		libvirt_journal_remove(&left);
	fake_qemu_destroy(qemu);
}

/* The tracer dies; a recovery follows. */
static int recover(bool just_died)
{
	libvirt_journal_close(&journal);
	return libvirt_recover(NULL, fake_qemu_uuid(), just_died, 0, &outcome, &why);
}

/* The domain stands at a breakpoint, whose tracer's connection has ended. */
static void stand_at_breakpoint(void)
{
	struct gdbstub stub;

	libvirt_journal_breaks(&journal, NULL);
	if (gdbstub_open(&stub, &domain, NULL) || rsp_breakpoint(&stub.rsp, GVA, true, NULL) ||
	    rsp_continue(&stub.rsp, NULL))
		abort();
	fake_qemu_reach(qemu, 0, GVA);
	gdbstub_drop(&stub);
}

static void stop_by_monitor(void)
{
	struct gdbstub stub;

	/* opening the gdbstub stops a domain, as QEMU's monitor does: without a reason */
	if (gdbstub_open(&stub, &domain, NULL) || gdbstub_close(&stub, NULL))
		abort();
}

static void test_breakpoints(void)
{
	begin();
	stand_at_breakpoint();
	ok(!fake_qemu_runs(qemu) && fake_qemu_breaks(qemu), "a domain stands at a breakpoint");
	is_u64((uint64_t)-recover(true), 0, "a domain at a breakpoint is recovered");
	ok(fake_qemu_runs(qemu) && !fake_qemu_breaks(qemu) && !fake_qemu_has_debugger(qemu),
	   "it runs, without breakpoints and gdbstub");
	ok(outcome.had_breaks && outcome.resumed && outcome.had_journal && !has_journal(),
	   "this is reported, and the journal is removed");
	end();
}

static void test_running(void)
{
	begin();
	is_u64((uint64_t)-recover(true), 0, "a running domain is recovered");
	ok(fake_qemu_runs(qemu) && !outcome.resumed && !outcome.had_breaks && !has_journal(),
	   "it runs, and nothing else is reported");
	end();
}

static void test_stopped(bool just_died)
{
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	stop_by_monitor();
	is_u64((uint64_t)-recover(just_died), 0, "a domain that the tracer stopped is recovered");
	ok(fake_qemu_runs(qemu) && outcome.resumed, "it is resumed");
	end();
}

/* The journal may lack the stop. */
static void test_unnoted(void)
{
	begin();
	stop_by_monitor();
	is_u64((uint64_t)-recover(false), 0, "a pause without a reason is recovered from");
	ok(fake_qemu_runs(qemu) && outcome.resumed, "the domain is resumed");
	end();
}

static void test_suspended(void)
{
	begin();
	fake_qemu_suspend(qemu);
	is_u64((uint64_t)-recover(true), 0,
	       "a domain that its administrator suspended is recovered");
	ok(!fake_qemu_runs(qemu) && !outcome.resumed && !has_journal(), "it stays suspended");
	end();
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	fake_qemu_suspend(qemu);
	is_u64((uint64_t)-recover(false), 0, "the tracer's stop was followed by a suspend");
	ok(!fake_qemu_runs(qemu) && !outcome.resumed, "the domain stays suspended");
	end();
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	fake_qemu_suspend(qemu);
	is_u64((uint64_t)-recover(true), 0,
	       "right after the tracer's death a pause is the tracer's, whatever libvirt says");
	ok(fake_qemu_runs(qemu) && outcome.resumed, "the domain is resumed");
	end();
}

static void write_ours(uint64_t gpa, const char *original, const char *ours)
{
	const size_t n = strlen(ours);

	if (libvirt_journal_write(&journal, gpa, (const uint8_t *)original, (const uint8_t *)ours,
				  n, NULL))
		abort();
	memcpy(fake_qemu_ram(qemu) + gpa, ours, n);
}

static bool holds(uint64_t gpa, const char *text)
{
	return !memcmp(fake_qemu_ram(qemu) + gpa, text, strlen(text));
}

static void test_places(bool reset)
{
	begin();
	write_ours(PLACE, "guest", "trace");
	write_ours(OTHER_PLACE, "guest", "trace");
	write_ours(BYTE_PLACE, "g", "\xcc");
	memcpy(fake_qemu_ram(qemu) + OTHER_PLACE, "other", 5);
	if (reset)
		libvirt_journal_reset(&journal, NULL);
	is_u64((uint64_t)-recover(true), 0, "a domain with a tracer's bytes is recovered");
	ok(holds(PLACE, "guest"), "its own bytes are back");
	ok(holds(OTHER_PLACE, "other"), "bytes that are neither's are left alone");
	ok(holds(BYTE_PLACE, reset ? "\xcc" : "g"), "a single byte is %s",
	   reset ? "left alone after a reset" : "put back");
	ok(fake_qemu_runs(qemu) && outcome.places.restored == (reset ? 1 : 2),
	   "the domain runs, and the places are counted");
	end();
}

/* The domain was started again: its memory is another guest's. */
static void test_started_again(void)
{
	struct libvirt_instance earlier;

	qemu = fake_qemu_create(1);
	domain = fake_qemu_domain(qemu);
	earlier = domain.qemu.instance;
	earlier.start--;
	if (libvirt_journal_create(fake_qemu_uuid(), &journal, NULL) ||
	    libvirt_journal_instance(&journal, &earlier, NULL))
		abort();
	libvirt_journal_stop(&journal, true, NULL);
	write_ours(PLACE, "guest", "trace");
	stop_by_monitor();
	is_u64((uint64_t)-recover(true), 0, "a domain that was started again needs no recovery");
	ok(outcome.ended && holds(PLACE, "trace") && !fake_qemu_runs(qemu),
	   "nothing of it is changed");
	ok(!has_journal(), "the journal is removed");
	end();
}

static _Atomic unsigned int *deaf; /* how often it was; shared with processes that are forked */

static enum fake_fault be_deaf(void *arg, const char *packet)
{
	(void)arg;
	if (packet[0] != '?')
		return FAKE_OBEY;
	++*deaf;
	return FAKE_CUT;
}

static void test_failures(void)
{
	begin();
	stand_at_breakpoint();
	fake_qemu_set_fault(qemu, be_deaf, NULL);
	ok(recover(true) == -ECONNRESET && has_journal() && fake_qemu_breaks(qemu),
	   "a recovery that cannot remove breakpoints fails, and keeps the journal: %s", why.text);
	fake_qemu_set_fault(qemu, NULL, NULL);
	is_u64((uint64_t)-recover(false), 0, "the next one succeeds");
	ok(fake_qemu_runs(qemu) && !fake_qemu_breaks(qemu) && !has_journal(),
	   "the domain runs without breakpoints");
	end();
	begin();
	stand_at_breakpoint();
	fake_qemu_set_dead_libvirtd(qemu, true);
	ok(recover(true) < 0 && has_journal(), "without libvirtd the journal is kept: %s",
	   why.text);
	end();
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	stop_by_monitor();
	fake_qemu_refuse(qemu, "cont", 0);
	ok(recover(true) < 0 && strlen(why.text) && has_journal() && !fake_qemu_runs(qemu),
	   "a recovery that cannot resume the domain says so, and keeps the journal: %s", why.text);
	fake_qemu_refuse(qemu, NULL, 0);
	ok(!recover(false) && fake_qemu_runs(qemu) && !has_journal(), "the next one resumes it");
	end();
}

static enum fake_fault end_qemu(void *arg, const char *packet)
{
	(void)arg;
	if (packet[0] != '?')
		return FAKE_OBEY;
	fake_qemu_kill(qemu);
	/* it is a child of another process, if this one is a watchdog */
	for (int i = 0; i < 5000 && !libvirt_process_ended(&domain.qemu); i++)
		clock_wait_ms(1);
	return FAKE_CUT;
}

/* A domain that ends while it is recovered has no memory in which anything is left. */
static void test_ends_meanwhile(void)
{
	begin();
	stand_at_breakpoint();
	fake_qemu_set_fault(qemu, end_qemu, NULL);
	ok(!recover(true) && outcome.ended && !has_journal(),
	   "a domain that ends while it is recovered needs no recovery: %s", why.text);
	end();
}

static struct journal_contents journal_now(void)
{
	struct journal_contents contents = {0}, copy;
	char path[128], text[65536];
	size_t size;
	FILE *in;

	snprintf(path, sizeof(path), "%s/sonde/%s", folder, fake_qemu_uuid());
	in = fopen(path, "r");
	size = in ? fread(text, 1, sizeof(text), in) : 0;
	if (in)
		fclose(in);
	journal_parse(text, size, &contents, NULL);
	copy = contents;
	journal_contents_deinit(&contents);
	return copy; /* without its places */
}

static bool noted;

static enum fake_fault look_and_be_deaf(void *arg, const char *packet)
{
	if (packet[0] == '?')
		noted |= journal_now().stopped;
	return be_deaf(arg, packet);
}

/* A recovery may die, too: the next one has to know that it has stopped the domain. */
static void test_noted(void)
{
	begin();
	libvirt_journal_breaks(&journal, NULL);
	fake_qemu_set_fault(qemu, look_and_be_deaf, NULL);
	ok(recover(false) < 0 && has_journal(), "a recovery of a running domain fails");
	ok(noted, "while it held the domain stopped its journal said so");
	ok(fake_qemu_runs(qemu) && !journal_now().stopped,
	   "the domain runs again, and the journal says that, too");
	end();
	begin();
	libvirt_journal_breaks(&journal, NULL);
	fake_qemu_suspend(qemu);
	fake_qemu_set_fault(qemu, look_and_be_deaf, NULL);
	noted = false;
	ok(recover(false) < 0 && !noted && !journal_now().stopped,
	   "a suspend is the administrator's, and not noted");
	end();
}

/* --- the memory device ------------------------------------------------------------------------ */

static bool is_empty(const uint8_t *memory)
{
	return !memory[0] && !memcmp(memory, memory + 1, FAKE_DEVICE_BYTES - 1);
}

static void test_device(void)
{
	uint8_t *memory;

	begin();
	memory = fake_qemu_plug(qemu);
	memory[4096] = 1;
	memory[FAKE_DEVICE_BYTES - 1] = 1;
	is_u64((uint64_t)-recover(true), 0,
	       "a domain with a memory device is recovered: no mapping");
	ok(is_empty(memory) && !fake_qemu_has_device(qemu) && outcome.had_device,
	   "its memory is emptied, and it is plugged out");
	end();
	begin();
	memory = fake_qemu_plug(qemu);
	memory[4096] = 1;
	write_ours(PLACE, "guest", "trace");
	/* an entry of a page table, which was free before */
	if (libvirt_journal_write(&journal, OTHER_PLACE, (const uint8_t *)"\0\0\0\0\0\0\0\0",
				  (const uint8_t *)"pmdentry", 8, NULL))
		abort();
	memcpy(fake_qemu_ram(qemu) + OTHER_PLACE, "pmdentry", 8);
	ok(recover(true) == -EPROTO && has_journal(),
	   "tasks may be in it, and nothing says how to find them: %s", why.text);
	ok(holds(PLACE, "guest") && holds(OTHER_PLACE, "pmdentry") && memory[4096] &&
		   fake_qemu_has_device(qemu) && fake_qemu_runs(qemu),
	   "the guest has its own text and runs, but keeps the device, mapped and as it is");
	end();
}

static int recover_without_journal(void)
{
	libvirt_journal_remove(&journal);
	return libvirt_recover(NULL, fake_qemu_uuid(), false, 0, &outcome, &why);
}

static void test_device_alone(void)
{
	uint8_t *memory;

	begin();
	memory = fake_qemu_plug(qemu);
	memory[FAKE_DEVICE_BYTES / 2] = 1;
	ok(recover_without_journal() == -EBUSY && fake_qemu_has_device(qemu),
	   "a device in use, without a journal, is another user's: %s", why.text);
	end();
	begin();
	fake_qemu_plug(qemu);
	ok(!recover_without_journal() && !fake_qemu_has_device(qemu) && !outcome.had_journal,
	   "one that is not in use is plugged out");
	end();
	begin();
	fake_qemu_plug(qemu);
	fake_qemu_unmap(qemu);
	ok(!recover_without_journal() && !fake_qemu_has_device(qemu),
	   "so is one that the guest does not have in its memory");
	end();
	begin();
	ok(!recover_without_journal() && !outcome.had_device, "without both nothing is done");
	end();
}

/* --- libvirt ---------------------------------------------------------------------------------- */

static void *come_back(void *arg)
{
	(void)arg;
	clock_wait_ms(300);
	fake_qemu_set_dead_libvirtd(qemu, false);
	return NULL;
}

static void test_patience(void)
{
	pthread_t thread;

	begin();
	stand_at_breakpoint();
	libvirt_journal_close(&journal);
	fake_qemu_set_dead_libvirtd(qemu, true);
	if (pthread_create(&thread, NULL, come_back, NULL))
		abort();
	ok(!libvirt_recover(NULL, fake_qemu_uuid(), true, 10000, &outcome, &why) &&
		   fake_qemu_runs(qemu),
	   "a libvirtd that is restarted is waited for");
	pthread_join(thread, NULL);
	end();
}

static void test_hidden(void)
{
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	fake_qemu_hide(qemu, true);
	ok(recover(false) == -EBUSY && has_journal(),
	   "the domain runs, but not at this connection: its journal stays: %s", why.text);
	fake_qemu_kill(qemu);
	ok(!libvirt_recover(NULL, fake_qemu_uuid(), false, 0, &outcome, &why) && outcome.ended &&
		   !has_journal(),
	   "once it has ended its journal is removed");
	end();
}

enum { LONGEST_HANG_S = 20 };

/* --- sonde recover ---------------------------------------------------------------------------- */

static void test_verb(void)
{
	const char *const argv[] = {"recover", "fake", NULL}, *const none[] = {"recover", NULL};
	struct verb_result result;

	begin();
	stand_at_breakpoint();
	libvirt_journal_close(&journal);
	result = verb_run(cmd_recover, argv);
	ok(!result.status && fake_qemu_runs(qemu) && !has_journal(),
	   "sonde recover DOMAIN recovers it: %s%s", result.out, result.err);
	ok(fake_qemu_keep_alive(qemu) && fake_qemu_keep_alive(qemu) <= LONGEST_HANG_S,
	   "a libvirtd that hangs is given up after %u s", fake_qemu_keep_alive(qemu));
	verb_result_deinit(&result);
	result = verb_run(cmd_recover, argv);
	ok(!result.status, "there is nothing more to do: %s%s", result.out, result.err);
	verb_result_deinit(&result);
	fake_qemu_set_dead_libvirtd(qemu, true);
	result = verb_run(cmd_recover, argv);
	ok(result.status == 1 && strlen(result.err), "without libvirtd it fails: %s", result.err);
	verb_result_deinit(&result);
	result = verb_run(cmd_recover, none);
	ok(result.status == 2, "a domain has to be named");
	verb_result_deinit(&result);
	end();
}

/* A tracer that lives holds its journal. */
static void test_alive(void)
{
	begin();
	libvirt_journal_stop(&journal, true, NULL);
	stop_by_monitor();
	ok(libvirt_recover(NULL, fake_qemu_uuid(), false, 0, &outcome, &why) == -EBUSY &&
		   !fake_qemu_runs(qemu) && has_journal(),
	   "the domain of a tracer that lives is left alone: %s", why.text);
	libvirt_journal_close(&journal);
	end();
}

/* --- the watchdog ---------------------------------------------------------------------------- */

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
		sleep(14);
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
	if (libvirt_journal_write(&journal, OTHER_PLACE, (const uint8_t *)"\0\0\0\0\0\0\0\0",
				  (const uint8_t *)"pmdentry", 8, NULL))
		abort();
	memcpy(fake_qemu_ram(qemu) + OTHER_PLACE, "pmdentry", 8);
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

/* At the same time, as each takes 10 s. */
static void test_hanging(void)
{
	pid_t child;
	int status;

	begin();
	stand_at_breakpoint();
	libvirt_journal_close(&journal);
	fake_qemu_join(qemu);
	child = fork();
	if (!child)
		run_tracer(true, false, true);
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
	end();
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		abort();
	if (!geteuid() && (chown(folder, NOBODY, NOBODY) || setgid(NOBODY) || setuid(NOBODY)))
		abort();
	prctl(PR_SET_DUMPABLE, 1);
	deaf = mmap(NULL, sizeof(*deaf), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (deaf == MAP_FAILED)
		abort();
	test_breakpoints();
	test_running();
	test_stopped(true);
	test_stopped(false);
	test_unnoted();
	test_suspended();
	test_places(false);
	test_places(true);
	test_started_again();
	test_failures();
	test_ends_meanwhile();
	test_noted();
	test_device();
	test_device_alone();
	test_patience();
	test_hidden();
	test_verb();
	test_alive();
	test_watchdog();
	test_watchdog_tries_again(false);
	test_watchdog_tries_again(true);
	test_watchdog_gives_up();
	test_watchdog_at_once();
	test_hanging();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recovery does to a domain whose tracer has died. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"
#include "tests/unit/vmm/libvirt/recovery/recover-fixture.h"
#include "vmm/cmd.h"

enum { PLACE = 0x2000, BYTE_PLACE = 0x4000 };

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

static void test_places(bool reset)
{
	begin();
	write_ours(PLACE, "guest", "trace", 5);
	write_ours(OTHER_PLACE, "guest", "trace", 5);
	write_ours(BYTE_PLACE, "g", "\xcc", 1);
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
	write_ours(PLACE, "guest", "trace", 5);
	stop_by_monitor();
	is_u64((uint64_t)-recover(true), 0, "a domain that was started again needs no recovery");
	ok(outcome.ended && holds(PLACE, "trace") && !fake_qemu_runs(qemu),
	   "nothing of it is changed");
	ok(!has_journal(), "the journal is removed");
	end();
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
	write_ours(PLACE, "guest", "trace", 5);
	/* an entry of a page table, which was free before */
	write_ours(OTHER_PLACE, "\0\0\0\0\0\0\0\0", "pmdentry", 8);
	ok(recover(true) == -EPROTO && has_journal(),
	   "tasks may be in it, and nothing says how to find them: %s", why.text);
	ok(holds(PLACE, "guest") && holds(OTHER_PLACE, "pmdentry") && memory[4096] &&
		   fake_qemu_has_device(qemu) && fake_qemu_runs(qemu),
	   "the guest has its own text and runs, but keeps the device, mapped and as it is");
	end();
}

/* It died before the device was plugged in. `runs`: the domain does. */
static void test_file_alone(bool runs)
{
	char name[32], path[64];

	begin();
	snprintf(name, sizeof(name), "ua-sonde-%016x", (unsigned int)getpid());
	snprintf(path, sizeof(path), "/dev/shm/%s", name);
	close(open(path, O_CREAT | O_RDWR, 0600));
	libvirt_journal_file(&journal, name, NULL);
	if (!runs) {
		fake_qemu_hide(qemu, true);
		fake_qemu_kill(qemu);
	}
	ok(!recover(true) && access(path, F_OK) && !has_journal() && outcome.ended == !runs,
	   "the file of a device that was never plugged in is removed, the domain %s",
	   runs ? "runs" : "has ended");
	end();
}

static int recover_without_journal(void)
{
	libvirt_journal_remove(&journal);
	return libvirt_recover(NULL, fake_qemu_uuid(), false, 0, &outcome, &why);
}

/* Whether it succeeds. */
static bool recover_with_blank_journal(void)
{
	if (ftruncate(journal.fd, 0))
		abort();
	return !recover(false);
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
	memory = fake_qemu_plug(qemu);
	memory[FAKE_DEVICE_BYTES / 2] = 1;
	ok(!recover_with_blank_journal() && fake_qemu_has_device(qemu) && has_journal(),
	   "one whose journal says nothing is left alone: %s", why.text);
	end();
	begin();
	fake_qemu_plug(qemu);
	ok(recover_with_blank_journal() && !fake_qemu_has_device(qemu) && !has_journal(),
	   "unless it is not in use");
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

/* One that is dead holds it as well, and the gdbstub, while a thread of its own hangs. The first
 * recovery fails when it has taken the journal. */
static void test_hangs_dead(void)
{
	pid_t tracer;

	begin();
	tracer = start_dead_tracer(be_tracer);
	fake_qemu_refuse(qemu, "query-cpus-fast", 0);
	ok(libvirt_recover(NULL, fake_qemu_uuid(), true, 0, &outcome, &why) == -EREMOTEIO &&
		   outcome.had_journal && has_journal() && !fake_qemu_runs(qemu),
	   "the journal is taken from a tracer that is dead: %s", why.text);
	fake_qemu_refuse(qemu, NULL, 0);
	ok(!libvirt_recover(NULL, fake_qemu_uuid(), false, 0, &outcome, &why) &&
		   fake_qemu_runs(qemu) && !fake_qemu_breaks(qemu) && !has_journal(),
	   "a later recovery takes the gdbstub from it: %s", why.text);
	end_dead_tracer(tracer);
	end();
}

static void be_stopping_tracer(void)
{
	be_tracer();
	libvirt_journal_stop(&journal, true, NULL);
}

/* It has nothing to undo but a stop. It keeps the connection to the gdbstub, which would keep
 * others out. */
static void test_hangs_stopped(void)
{
	struct gdbstub stub;
	pid_t tracer;

	begin();
	if (gdbstub_open(&stub, &domain, NULL))
		abort();
	libvirt_journal_close(&journal);
	tracer = dead_process_start(be_stopping_tracer);
	gdbstub_drop(&stub);
	ok(!libvirt_recover(NULL, fake_qemu_uuid(), true, 0, &outcome, &why) &&
		   fake_qemu_runs(qemu) && !gdbstub_check_free(&domain, &why),
	   "nothing of a dead tracer's gdbstub is left: %s", why.text);
	end_dead_tracer(tracer);
	end();
}

/* Another user's sonde has attached to the domain since the first recovery lost its connection. */
static void test_hangs_taken(void)
{
	struct gdbstub other;
	pid_t tracer;

	begin();
	tracer = start_dead_tracer(be_tracer);
	fake_qemu_refuse(qemu, "cont", 0);
	ok(libvirt_recover(NULL, fake_qemu_uuid(), true, 0, &outcome, &why) < 0 && has_journal() &&
		   !fake_qemu_breaks(qemu),
	   "a recovery takes the gdbstub from a dead tracer, and fails later: %s", why.text);
	fake_qemu_refuse(qemu, NULL, 0);
	if (gdbstub_open(&other, &domain, NULL))
		abort();
	ok(libvirt_recover(NULL, fake_qemu_uuid(), true, 0, &outcome, &why) == -EBUSY &&
		   !rsp_is_lost(&other.rsp) && gdbstub_check_free(&domain, NULL) == -EBUSY,
	   "the next one does not take it from another sonde: %s", why.text);
	gdbstub_close(&other, NULL);
	end_dead_tracer(tracer);
	end();
}

/* Its domain ends. */
static void test_hangs_dead_alone(void)
{
	pid_t tracer;

	begin();
	tracer = start_dead_tracer(be_tracer);
	fake_qemu_hide(qemu, true);
	fake_qemu_kill(qemu);
	ok(!libvirt_recover(NULL, fake_qemu_uuid(), false, 0, &outcome, &why) && outcome.ended &&
		   !has_journal(),
	   "the journal of a dead tracer is removed once its domain has ended");
	end_dead_tracer(tracer);
	end();
}

int main(int argc, char **argv)
{
	set_up_tests(argc, argv);
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
	test_file_alone(true);
	test_file_alone(false);
	test_patience();
	test_hidden();
	test_verb();
	test_alive();
	test_hangs_dead();
	test_hangs_stopped();
	test_hangs_taken();
	test_hangs_dead_alone();
	return end_tests();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of sonde attach: what is checked, and when the journal is left to the watchdog. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/libvirt/backend/internal.h"

enum { PLACE = 0x3000, SHUT_OFF = 5 /* libvirt, virDomainState */ };

static char folder[] = "/tmp/test-end-XXXXXX";
static struct fake_qemu *qemu;
static struct attach attach;
static struct attach_options options;
static struct libvirt_api api;
static struct error err;

/* Of the journal, which attach_end() closes. */
static struct libvirt_journal kept;

/* --- the recorder ---------------------------------------------------------------------------- */

static struct {
	unsigned int ends;
	enum recorder_leave leave;
	const char *why;
	bool moves; /* whether its guest did then */
} recorded;

void recorder_end(struct recorder *recorder, enum recorder_leave leave, const char *why)
{
	(void)recorder;
	recorded.ends++;
	recorded.leave = leave;
	recorded.why = why;
	recorded.moves = libvirt_guest_moves(attach.guest);
}

void recorder_destroy(struct recorder *recorder)
{
	(void)recorder;
}

/* --- the watchdog ---------------------------------------------------------------------------- */

static int marks[2]; /* how many bytes a watchdog has got */

/* One whose recovery has this status. */
static void start_watchdog(int status)
{
	unsigned char n = 0;
	int ends[2];
	char c;

	if (pipe(ends))
		abort();
	attach.watchdog.pid = fork();
	if (!attach.watchdog.pid) {
		close(ends[1]);
		while (read(ends[0], &c, 1) == 1)
			n++;
		_exit(write(marks[1], &n, 1) == 1 ? status : 99);
	}
	close(ends[0]);
	attach.watchdog.fd = ends[1];
}

/* Whether it was told that all is undone. */
static bool was_told(void)
{
	unsigned char n = 0;

	return read(marks[0], &n, 1) == 1 && n;
}

/* --- a domain that is traced ----------------------------------------------------------------- */

static int shut_off(virDomainPtr domain, int *state, int *reason, unsigned int flags)
{
	(void)domain;
	(void)flags;
	*state = SHUT_OFF;
	*reason = 0;
	return 0;
}

static void open_journal(void)
{
	struct libvirt_journal *j = &attach.journal;

	*j = (struct libvirt_journal){.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				      .compact_at = 1 << 20,
				      .name = "journal"};
	j->fd = openat(j->folder, j->name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	kept = (struct libvirt_journal){.fd = dup(j->fd), .folder = -1};
	if (kept.fd < 0)
		abort();
}

/* Its watchdog's recovery fails. */
static void begin(void)
{
	qemu = fake_qemu_create(1);
	api = *fake_qemu_libvirt();
	memset(&err, 0, sizeof(err));
	memset(&recorded, 0, sizeof(recorded));
	options = (struct attach_options){.domain = "fake"};
	options.recorder.mode = RECORDER_TRAP;
	attach = (struct attach){
		.options = &options, .domain = fake_qemu_domain(qemu), .begun = true};
	attach.domain.api = &api;
	open_journal();
	start_watchdog(1);
	if (libvirt_guest_create(&attach.domain, &attach.journal, false, &attach.guest, NULL))
		abort();
}

/* Whether there was one. */
static bool remove_journal(void)
{
	char path[64];

	close(kept.fd);
	snprintf(path, sizeof(path), "%s/journal", folder);
	return !unlink(path);
}

static int finish(void)
{
	int ret = attach_end(&attach, &err);

	fake_qemu_set_dead_libvirtd(qemu, false);
	fake_qemu_destroy(qemu);
	return ret;
}

/* All is undone: whatever the watchdog says then. */
static bool is_undone(void)
{
	bool undone = !finish();
	bool told = was_told();

	return !remove_journal() && told && undone;
}

/* The watchdog has the journal, and fails. */
static bool is_left(int code, const char *text)
{
	bool left = finish() == -code && strstr(err.text, text);
	bool told = was_told();

	return remove_journal() && !told && left;
}

static void leave_place(void)
{
	if (libvirt_journal_write(&attach.journal, PLACE, (const uint8_t *)"before",
				  (const uint8_t *)"behind", 6, NULL))
		abort();
	memcpy(fake_qemu_ram(qemu) + PLACE, "behind", 6);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_undone(void)
{
	bool has_device;

	begin();
	if (libvirt_guest_plug(attach.guest, NULL))
		abort();
	leave_place();
	memcpy(fake_qemu_ram(qemu) + PLACE, "before", 6);
	has_device = fake_qemu_has_device(qemu);
	ok(!attach_end(&attach, &err) && has_device && !fake_qemu_has_device(qemu),
	   "a domain in which all is put back loses its memory device");
	fake_qemu_destroy(qemu);
	ok(was_told() && !remove_journal(), "its journal is removed, and the watchdog is told");
	ok(recorded.ends == 1 && recorded.leave == RECORDER_GUEST_RUNS && !recorded.why,
	   "the trace ended with a guest that runs on");
	begin();
	attach.begun = false;
	ok(is_undone() && !recorded.ends, "a trace that has not begun has no end");
	begin();
	attach.begun = false;
	libvirt_guest_destroy(attach.guest);
	attach.guest = NULL;
	ok(is_undone(), "a domain that was not looked at is as it was");
}

static void test_left(void)
{
	bool has_device;

	begin();
	if (libvirt_guest_plug(attach.guest, NULL))
		abort();
	leave_place();
	has_device = attach_end(&attach, &err) == -EIO && fake_qemu_has_device(qemu);
	is_str(err.text, "run 'sonde recover fake': places in the guest that are not restored: 1",
	       "a place that is not put back is an error");
	ok(has_device, "the memory device stays then");
	fake_qemu_destroy(qemu);
	ok(!was_told() && remove_journal(), "and the journal, which is the watchdog's");
	begin();
	leave_place();
	options.uri = "qemu:///session";
	fake_qemu_suspend(qemu);
	ok(is_left(EIO, "run 'sonde recover -c qemu:///session fake': places in the guest that are "
			"not restored: 1; the domain is paused"),
	   "of a domain that its administrator has paused this is told: %s", err.text);
	begin();
	attach.begun = false;
	leave_place();
	ok(is_left(EIO, "not restored: 1") && !recorded.ends,
	   "it is an error also if the trace has not begun");
}

static void test_watchdog(void)
{
	begin();
	leave_place();
	ok(attach_end(&attach, NULL) == -EIO, "nobody may want to know why");
	fake_qemu_destroy(qemu);
	was_told();
	remove_journal();
	begin();
	libvirt_watchdog_end(&attach.watchdog, true);
	was_told();
	start_watchdog(0);
	leave_place();
	ok(!finish() && !was_told() && remove_journal(),
	   "what is left to a watchdog that succeeds is no error");
}

/* Each of these is an error of its own, which none of the others hides. */
static void test_checks(void)
{
	begin();
	libvirt_journal_stop(&attach.journal, true, NULL);
	ok(is_left(EBUSY, "could not resume it"), "so is a domain that was left stopped: %s",
	   err.text);
	begin();
	attach.guest->traps.nr_armed = 2;
	ok(is_left(EIO, "2 breakpoints"), "so are breakpoints: %s", err.text);
	begin();
	attach.guest->lost_stub = true;
	fake_qemu_set_dead_libvirtd(qemu, true);
	ok(is_left(EIO, "libvirt"), "so is a domain of which nobody says whether it runs: %s",
	   err.text);
}

static void test_gone(void)
{
	begin();
	leave_place();
	fake_qemu_kill(qemu);
	ok(is_undone() && recorded.leave == RECORDER_GUEST_OVER,
	   "in a domain that has ended there is nothing to undo");
	is_str(recorded.why, "the domain ended", "the trace says so");
	begin();
	leave_place();
	api.domain_state = shut_off;
	attach.why = "the domain was destroyed";
	attach.disconnected = true;
	attach.events.why = "something else";
	ok(is_undone() && recorded.leave == RECORDER_GUEST_OVER && !recorded.moves,
	   "nor in one of which libvirt says so");
	is_str(recorded.why, "the domain was destroyed", "why it ended is known already");
	begin();
	leave_place();
	api.domain_state = shut_off;
	attach.events.why = "the domain was shut down";
	ok(is_undone(), "libvirt may tell it");
	is_str(recorded.why, "the domain was shut down", "as late as that");
	begin();
	leave_place();
	attach.begun = false;
	fake_qemu_kill(qemu);
	ok(is_undone() && !recorded.ends && !attach.why, "nor in one that was not traced yet");
}

static void test_reset(void)
{
	struct journal_contents contents;

	begin();
	attach.events.reset = true;
	ok(attach_end(&attach, &err) == -ESTALE && recorded.leave == RECORDER_GUEST_OVER,
	   "a domain that was reset is left to the watchdog: %s", err.text);
	fake_qemu_destroy(qemu);
	was_told();
	if (libvirt_journal_read(&kept, &contents, NULL))
		abort();
	ok(contents.reset, "its journal says so");
	journal_contents_deinit(&contents);
	remove_journal();
	begin();
	libvirt_journal_close(&attach.journal);
	attach.events.reset = true;
	ok(!finish() && was_told(), "without a journal there is nothing to leave");
	remove_journal();
}

static void test_lost_connection(void)
{
	begin();
	attach.disconnected = true;
	ok(is_undone() && recorded.leave == RECORDER_GUEST_OVER && recorded.moves,
	   "without libvirt no vCPU is waited for in a guest with breakpoints");
	is_str(recorded.why, "the connection to libvirt was lost", "the trace says so");
	begin();
	attach.disconnected = true;
	attach.why = "the domain was paused";
	options.recorder.mode = RECORDER_EXITLESS;
	ok(is_undone() && recorded.leave == RECORDER_GUEST_RUNS && !recorded.moves,
	   "one without breakpoints runs on");
	is_str(recorded.why, "the domain was paused", "the reason may be another one");
}

/* A domain is saved, with or without breakpoints in its memory. */
static bool saves(bool is_kept, bool in_memory, bool begun)
{
	begin();
	attach.begun = begun;
	attach.events.kept = is_kept;
	attach.guest->traps.in_memory = in_memory;
	attach.guest->traps.nr_armed = 1;
	api.domain_state = shut_off;
	attach.why = "the domain was saved";
	return is_undone() && attach.saved_breaks;
}

static void test_saved(void)
{
	ok(saves(true, true, true), "breakpoints that are saved with a domain are known");
	ok(!saves(false, true, true), "those of one that was not saved are gone");
	ok(!saves(true, false, true), "those that are not in its memory, too");
	ok(!saves(true, true, false), "before the trace there are none");
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	if (!mkdtemp(folder) || pipe(marks))
		abort();
	test_undone();
	test_left();
	test_watchdog();
	test_checks();
	test_gone();
	test_reset();
	test_lost_connection();
	test_saved();
	rmdir(folder);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/recover.h"

#include <errno.h>
#include <string.h>
#include "formats/base/clock.h"
#include "introspect/tasks/quiesce.h"
#include "vmm/libvirt/backend/guest.h"
#include "vmm/libvirt/backend/shmem.h"
#include "vmm/libvirt/connection/events.h"

enum {
	LEAVE_MS = 5000, /* how long the guest may take to leave scratch memory */
	BUSY_MS = 100,   /* after that, a vCPU that stays in the kernel is judged by its stack */
};

struct recovery {
	struct libvirt_domain domain;
	struct libvirt_journal journal;
	struct libvirt_guest *backend;
	struct guest *guest;
	struct journal_contents contents;
	bool just_died; /* the tracer */
	bool held;      /* this recovery holds the guest stopped */
	struct libvirt_recovery *out;
};

/* --- with the guest stopped ------------------------------------------------------------------ */

static int hold(struct recovery *r, struct error *err)
{
	int ret = r->guest->control->stop(r->guest, err);

	r->held = !ret;
	return ret;
}

static int release(struct recovery *r, struct error *err)
{
	if (!r->held)
		return 0;
	r->held = false;
	return r->guest->control->resume(r->guest, err);
}

/* The guest is stopped before, and afterwards too unless that fails (r->held). */
static int empty_scratch(struct recovery *r, uint64_t shmem, struct error *err)
{
	const struct quiesce_policy policy = {
		.tasks = &r->contents.tasks,
		.gpa = shmem,
		.size = LIBVIRT_SHMEM_BYTES,
		.noted = true,
		.paused = r->guest->control->is_stopped(r->guest),
		.scan_running = !libvirt_guest_is_slow(r->backend),
		.report_tasks = true,
		.judge_stacks_ms = BUSY_MS,
	};
	struct quiesce quiesce;
	bool mapped;
	int ret = libvirt_places_mapped(&r->contents, r->guest, &mapped, err);

	if (ret || !mapped)
		return ret;
	if (!r->contents.knows_tasks)
		return error_set(err, EPROTO, "the journal is damaged: it has no 'tasks' line");
	ret = quiesce_begin(&quiesce, r->guest, &policy, err);
	if (ret)
		return ret;
	ret = quiesce_wait(&quiesce, LEAVE_MS, &r->held, err);
	r->out->met_task = quiesce.met_task;
	if (ret == -EPROTO)
		error_prefix(err, "the journal does not fit the guest: ");
	if (ret == -EBUSY)
		error_prefix(
			err,
			"the guest has its own code back%s, but the memory device has to stay: ",
			policy.paused ? " and is paused" : "");
	return ret;
}

static int wipe(struct recovery *r, uint64_t shmem, struct error *err)
{
	static const uint8_t zeros[JOURNAL_MAX_WRITE];
	int ret = 0;

	for (uint64_t at = 0; !ret && at < LIBVIRT_SHMEM_BYTES; at += sizeof(zeros))
		ret = guest_phys_write(r->guest, shmem + at, zeros, sizeof(zeros), err);
	return ret;
}

/* Size 0: the guest does not have the device, so that no code of the guest can be in it. */
static int find_shmem(struct recovery *r, struct libvirt_ram *out, struct error *err)
{
	int ret = libvirt_shmem_find(&r->domain, out, err);

	if (ret)
		*out = (struct libvirt_ram){0};
	if (!ret || ret == -ENOENT || ret == -EAGAIN)
		return 0;
	error_prefix(err, "the guest has its own code back, but its memory device was not found: ");
	return ret;
}

/* A dead tracer keeps it until it ends, also where nothing has to be undone there. The next attempt
 * must not close what is another's by then; to undo what is in the guest is worth more than that.
 */
static int take_stub(struct recovery *r, struct error *err)
{
	struct libvirt_pid self;
	int ret = libvirt_guest_open_stub(r->backend, err);

	libvirt_pid_self(&self);
	if (!ret)
		libvirt_journal_tracer(&r->journal, &self, NULL);
	return ret;
}

static int undo_stopped(struct recovery *r, struct error *err)
{
	struct libvirt_ram shmem = {0};
	int ret = r->domain.owner_dead ? take_stub(r, err) : 0;

	if (!ret && r->contents.lent)
		ret = libvirt_guest_end_loan(r->backend, &r->contents.loan, err);
	if (!ret && r->contents.breaks)
		ret = libvirt_guest_forget_breaks(r->backend, err);
	if (!ret)
		ret = libvirt_places_restore(&r->contents, r->guest, false, &r->out->places, err);
	if (!ret)
		ret = find_shmem(r, &shmem, err);
	if (!ret && shmem.size)
		ret = empty_scratch(r, shmem.gpa, err);
	if (!ret)
		ret = libvirt_places_restore(&r->contents, r->guest, true, &r->out->places, err);
	if (!ret && shmem.size)
		ret = wipe(r, shmem.gpa, err);
	return ret;
}

static bool runs(struct recovery *r)
{
	enum libvirt_run_state state;

	return !libvirt_domain_state(&r->domain, &state, NULL) && state == LIBVIRT_RUNS;
}

/*
 * A recovery may die, too, or fail to resume the domain. The next one has to know that the pause is
 * not the administrator's. An error here is not worth failing for.
 */
static void note_stop(struct recovery *r)
{
	if (runs(r))
		libvirt_journal_stop(&r->journal, true, NULL);
}

static void note_go(struct recovery *r)
{
	if (runs(r))
		libvirt_journal_stop(&r->journal, false, NULL);
}

/* Since the tracer died, an administrator may have resumed the domain and paused it again. */
static bool was_paused_since(struct recovery *r)
{
	enum libvirt_pause pause;

	return !r->just_died && !libvirt_domain_pause(&r->domain, &pause, NULL) &&
	       pause == LIBVIRT_PAUSE_OTHERS;
}

/*
 * Whether the tracer has stopped the domain: the journal says so, or libvirt reports a pause
 * without a reason. The journal may lack the stop: if the administrator resumes a domain that the
 * tracer had found paused, the tracer's next byte to the gdbstub stops it again.
 */
static bool was_stopped(struct recovery *r)
{
	enum libvirt_pause pause;

	return r->contents.stopped ||
	       (!libvirt_domain_pause(&r->domain, &pause, NULL) && pause == LIBVIRT_PAUSE_MONITOR);
}

static int undo(struct recovery *r, struct error *err)
{
	bool stopped = was_stopped(r);
	int ret, resumed;

	note_stop(r);
	ret = hold(r, err);
	if (ret)
		return ret;
	r->out->resumed = stopped && !was_paused_since(r);
	if (r->out->resumed)
		libvirt_guest_adopt_stop(r->backend);
	r->out->had_breaks = r->contents.breaks;
	ret = undo_stopped(r, err);
	resumed = release(r, ret ? NULL : err);
	note_go(r);
	return ret ? ret : resumed;
}

/* --- the rest -------------------------------------------------------------------------------- */

static int open_patiently(struct recovery *r, const char *uri, const char *id, unsigned int ms,
			  struct error *err)
{
	enum { STEP_MS = 100 };
	const uint64_t end = clock_monotonic_ms() + ms;
	int ret = libvirt_domain_open(uri, id, &r->domain, err);

	while ((ret == -ENOTCONN || ret == -EIO) && clock_monotonic_ms() < end) {
		clock_wait_ms(STEP_MS);
		ret = libvirt_domain_open(uri, id, &r->domain, err);
	}
	return ret;
}

/* -EBUSY: the device's memory is not empty, as while a tracer uses it. */
static int check_unused(struct recovery *r, struct error *err)
{
	static const uint8_t zeros[JOURNAL_MAX_WRITE];
	uint8_t now[JOURNAL_MAX_WRITE];
	struct libvirt_ram shmem = {0};
	int ret = libvirt_shmem_find(&r->domain, &shmem, err);

	if (ret == -EAGAIN || ret == -ENOENT)
		return 0;
	if (!ret)
		ret = libvirt_guest_create(&r->domain, NULL, true, &r->backend, err);
	for (uint64_t at = 0; !ret && at < LIBVIRT_SHMEM_BYTES; at += sizeof(now)) {
		ret = guest_phys_read(libvirt_guest(r->backend), shmem.gpa + at, now, sizeof(now),
				      err);
		if (!ret && memcmp(now, zeros, sizeof(now)))
			ret = error_set(err, EBUSY,
					"the domain's memory device is in use by a sonde whose "
					"journal is not here: is it another user's?");
	}
	return ret;
}

/* Where no journal says what its memory is used for, the device is unplugged only if that is empty:
 * its tracer may live, with a journal in another folder. Or this journal has lost its lines, and
 * the guest's text leads there. */
static int remove_device(struct recovery *r, struct error *err)
{
	const bool noted = r->out->had_journal && !r->contents.blank;
	int ret = libvirt_shmem_present(&r->domain, &r->out->had_device, err);

	if (!ret && r->out->had_device && !noted)
		ret = check_unused(r, err);
	return ret || !r->out->had_device ? ret : libvirt_shmem_unplug(&r->domain, err);
}

static int undo_noted(struct recovery *r, struct error *err)
{
	int ret = libvirt_journal_read(&r->journal, &r->contents, err);

	r->out->had_journal = true;
	if (ret || r->contents.blank)
		return ret;
	r->domain.owner_dead = libvirt_pid_hangs(&r->contents.tracer);
	libvirt_shmem_remove_file(r->contents.file);
	r->out->ended = libvirt_instances_differ(&r->contents.instance, &r->domain.qemu.instance);
	if (r->out->ended)
		return 0;
	ret = libvirt_guest_create(&r->domain, NULL, true, &r->backend, err);
	if (ret)
		return ret;
	r->guest = libvirt_guest(r->backend);
	return undo(r, err);
}

static int recover(struct recovery *r, struct error *err)
{
	int ret = libvirt_journal_adopt(r->domain.uuid, &r->journal, err);

	if (ret && ret != -ENOENT)
		return ret;
	ret = ret ? 0 : undo_noted(r, err);
	return ret || r->out->ended ? ret : remove_device(r, err);
}

/* The domain is unknown at this connection. Its journal is removed, unless the domain may run at
 * another connection: journals are named by uuid only. */
static int forget(struct recovery *r, const char *uuid, int why, struct error *err)
{
	struct journal_contents contents = {0};
	bool runs;

	if (libvirt_journal_adopt(uuid, &r->journal, NULL))
		return why;
	/* a damaged journal's instance is unknown */
	libvirt_journal_read(&r->journal, &contents, NULL);
	libvirt_shmem_remove_file(contents.file);
	runs = libvirt_instance_runs(uuid, &contents.instance);
	journal_contents_deinit(&contents);
	if (runs) {
		libvirt_journal_close(&r->journal);
		return error_set(err, EBUSY,
				 "no such domain runs at this connection, but its QEMU does on "
				 "this host, and it has a journal: name its connection with -c");
	}
	libvirt_journal_remove(&r->journal);
	r->out->had_journal = r->out->ended = true;
	return 0;
}

static int recover_domain(struct recovery *r, const char *uri, const char *id,
			  unsigned int patience_ms, struct error *err)
{
	int ret = open_patiently(r, uri, id, patience_ms, err);

	if ((ret == -ENOENT || ret == -ESRCH) && strlen(id) == LIBVIRT_UUID_TEXT - 1)
		return forget(r, id, ret, err);
	if (ret)
		return ret;
	ret = recover(r, err);
	if (ret && libvirt_process_ended(&r->domain.qemu)) {
		r->out->ended = true;
		ret = 0;
	}
	if (ret)
		libvirt_journal_close(&r->journal);
	else
		libvirt_journal_remove(&r->journal);
	journal_contents_deinit(&r->contents);
	libvirt_guest_destroy(r->backend);
	libvirt_domain_close(&r->domain);
	return ret;
}

int libvirt_recover(const char *uri, const char *id, bool just_died, unsigned int patience_ms,
		    struct libvirt_recovery *out, struct error *err)
{
	struct recovery r = {.journal = {.fd = -1}, .just_died = just_died, .out = out};
	struct libvirt_events events = {0};
	int ret;

	*out = (struct libvirt_recovery){0};
	/* without the loop a libvirtd that hangs would not be noticed */
	ret = libvirt_events_start(&events, err);
	if (!ret)
		ret = recover_domain(&r, uri, id, patience_ms, err);
	libvirt_events_stop(&events);
	return ret;
}

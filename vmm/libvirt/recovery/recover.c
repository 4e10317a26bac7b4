/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/recover.h"

#include <errno.h>
#include <string.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/backend/guest.h"
#include "vmm/libvirt/recovery/leave.h"
#include "vmm/libvirt/backend/shmem.h"

enum { INSIDE_MS = 5000 /* somebody is given so long to leave our memory */ };

struct recovery {
	struct libvirt_domain domain;
	struct libvirt_journal journal;
	struct libvirt_guest *backend;
	struct guest *guest;
	struct journal_contents contents;
	bool just_died; /* the tracer */
	bool held;      /* stopped by us, or kept so */
	struct libvirt_recovery *out;
};

/* --- places ---------------------------------------------------------------------------------- */

enum place_state { PLACE_OURS, PLACE_ORIGINAL, PLACE_FOREIGN };

static int look_at(struct guest *guest, const struct journal_place *place, enum place_state *state,
		   struct error *err)
{
	uint8_t now[JOURNAL_MAX_WRITE];
	int rc = guest_phys_read(guest, place->gpa, now, place->size, err);

	*state = PLACE_FOREIGN;
	if (rc)
		return rc;
	if (!memcmp(now, place->original, place->size))
		*state = PLACE_ORIGINAL;
	for (size_t i = 0; *state == PLACE_FOREIGN && i < place->nr_ours; i++)
		if (!memcmp(now, place->ours + i * place->size, place->size))
			*state = PLACE_OURS;
	return 0;
}

int libvirt_journal_pending(const struct libvirt_journal *journal, struct guest *guest, size_t *out,
			    struct error *err)
{
	struct journal_contents contents = {0};
	enum place_state state;
	int rc = libvirt_journal_read(journal, &contents, err);

	*out = 0;
	for (size_t i = 0; !rc && i < contents.nr_places; i++) {
		rc = look_at(guest, &contents.places[i], &state, err);
		*out += !rc && state == PLACE_OURS;
	}
	journal_contents_deinit(&contents);
	return rc;
}

int libvirt_journal_check_running(const struct libvirt_journal *journal, struct error *err)
{
	struct journal_contents contents = {0};
	int rc = libvirt_journal_read(journal, &contents, err);

	if (!rc && contents.stopped)
		rc = error_set(err, EBUSY, "the domain was stopped and could not be let go on");
	journal_contents_deinit(&contents);
	return rc;
}

/* An entry of a page table that was free: what maps our memory. Text is never all zeros. */
static bool is_mapping(const struct journal_place *place)
{
	static const uint8_t zeros[sizeof(uint64_t)];

	return place->size == sizeof(zeros) && !memcmp(place->original, zeros, sizeof(zeros));
}

/* A breakpoint. One byte may stand anywhere in another guest's memory, in its padding for instance.
 */
static bool is_any_byte(const struct journal_place *place)
{
	return place->size == 1;
}

static int put_back(struct recovery *r, bool mappings, struct error *err)
{
	int rc = 0;

	for (size_t i = r->contents.nr_places; !rc && i-- > 0;) {
		const struct journal_place *place = &r->contents.places[i];
		enum place_state state;

		if (is_mapping(place) != mappings || (r->contents.reset && is_any_byte(place)))
			continue;
		rc = look_at(r->guest, place, &state, err);
		if (rc)
			break;
		r->out->foreign += state == PLACE_FOREIGN;
		if (state != PLACE_OURS)
			continue;
		rc = guest_phys_write(r->guest, place->gpa, place->original, place->size, err);
		r->out->restored += !rc;
	}
	return rc;
}

/* --- stopping it ------------------------------------------------------------------------------ */

static int hold(struct recovery *r, struct error *err)
{
	int rc = r->guest->control->stop(r->guest, err);

	r->held = !rc;
	return rc;
}

static int let_go(struct recovery *r, struct error *err)
{
	if (!r->held)
		return 0;
	r->held = false;
	return r->guest->control->resume(r->guest, err);
}

/* Whether any of our entries is in the guest's page tables. */
static int is_mapped(struct recovery *r, bool *out, struct error *err)
{
	enum place_state state = PLACE_ORIGINAL;
	int rc = 0;

	*out = false;
	for (size_t i = 0; !rc && i < r->contents.nr_places; i++) {
		if (!is_mapping(&r->contents.places[i]))
			continue;
		rc = look_at(r->guest, &r->contents.places[i], &state, err);
		*out |= state == PLACE_OURS;
	}
	return rc;
}

/* With the guest stopped before, and afterwards if it could be. */
static int let_all_out(struct recovery *r, uint64_t shmem, struct error *err)
{
	struct libvirt_leave leave = {.guest = r->guest,
				      .tasks = &r->contents.tasks,
				      .gpa = shmem,
				      .paused = r->guest->control->is_stopped(r->guest),
				      .slow = libvirt_guest_is_slow(r->backend)};
	bool mapped;
	int rc = is_mapped(r, &mapped, err);

	if (rc || !mapped)
		return rc;
	if (!r->contents.knows_tasks)
		return error_set(err, EPROTO, "the journal is damaged: it tells of no tasks");
	rc = libvirt_leave_wait(&leave, INSIDE_MS, &r->held, err);
	r->out->met_task = leave.met_task;
	if (rc == -EBUSY)
		error_prefix(err,
			     "the guest %s with its own code, but the memory device has to stay: ",
			     leave.paused ? "is paused" : "runs");
	return rc;
}

/* --- the whole ------------------------------------------------------------------------------- */

static int wipe(struct recovery *r, uint64_t shmem, struct error *err)
{
	static const uint8_t zeros[JOURNAL_MAX_WRITE];
	int rc = 0;

	for (uint64_t at = 0; !rc && at < LIBVIRT_SHMEM_BYTES; at += sizeof(zeros))
		rc = guest_phys_write(r->guest, shmem + at, zeros, sizeof(zeros), err);
	return rc;
}

/* Size 0: nobody can be in it, as the guest does not have it, or not any more. */
static int find_shmem(struct recovery *r, struct libvirt_ram *out, struct error *err)
{
	int rc = libvirt_shmem_find(&r->domain, out, err);

	if (rc)
		*out = (struct libvirt_ram){0};
	return rc == -ENOENT || rc == -EAGAIN ? 0 : rc;
}

static int undo_stopped(struct recovery *r, struct error *err)
{
	struct libvirt_ram shmem = {0};
	int rc = r->contents.lent ? libvirt_guest_end_loan(r->backend, &r->contents.loan, err) : 0;

	if (!rc && r->contents.breaks)
		rc = libvirt_guest_forget_breaks(r->backend, err);
	if (!rc)
		rc = put_back(r, false, err);
	if (!rc)
		rc = find_shmem(r, &shmem, err);
	if (!rc && shmem.size)
		rc = let_all_out(r, shmem.gpa, err);
	if (!rc)
		rc = put_back(r, true, err);
	if (!rc && shmem.size)
		rc = wipe(r, shmem.gpa, err);
	return rc;
}

static bool runs(struct recovery *r)
{
	enum libvirt_run_state state;

	return !libvirt_domain_state(&r->domain, &state, NULL) && state == LIBVIRT_RUNS;
}

/*
 * Whoever recovers may die too, or be unable to let the domain go on, and the next one has to know
 * whose pause it meets. Not worth failing for.
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

/* Time enough for an administrator to let it go on, and to pause it again. */
static bool is_paused_since(struct recovery *r)
{
	enum libvirt_pause pause;

	return !r->just_died && !libvirt_domain_pause(&r->domain, &pause, NULL) &&
	       pause == LIBVIRT_PAUSE_OTHERS;
}

/*
 * By the tracer: it noted so, or nobody told libvirt of it. It may have died between the two: when
 * an administrator lets a domain go on that was found paused, opening the gdbstub stops it again.
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
	int rc, resumed;

	note_stop(r);
	rc = hold(r, err);
	if (rc)
		return rc;
	r->out->resumed = stopped && !is_paused_since(r);
	if (r->out->resumed)
		libvirt_guest_adopt_stop(r->backend);
	r->out->had_breaks = r->contents.breaks;
	rc = undo_stopped(r, err);
	resumed = let_go(r, rc ? NULL : err);
	note_go(r);
	return rc ? rc : resumed;
}

static int open_patiently(struct recovery *r, const char *uri, const char *id, unsigned int ms,
			  struct error *err)
{
	enum { STEP_MS = 100 };
	int rc = libvirt_domain_open(uri, id, &r->domain, err);

	for (unsigned int i = 0; i < ms && (rc == -ENOTCONN || rc == -EIO); i += STEP_MS) {
		clock_wait_ms(STEP_MS);
		rc = libvirt_domain_open(uri, id, &r->domain, err);
	}
	return rc;
}

/* Whether there is anything in it, as there is while somebody traces. */
static int check_unused(struct recovery *r, struct error *err)
{
	static const uint8_t zeros[JOURNAL_MAX_WRITE];
	uint8_t now[JOURNAL_MAX_WRITE];
	struct libvirt_ram shmem = {0};
	int rc = libvirt_shmem_find(&r->domain, &shmem, err);

	if (rc == -EAGAIN || rc == -ENOENT)
		return 0;
	if (!rc)
		rc = libvirt_guest_create(&r->domain, NULL, true, &r->backend, err);
	for (uint64_t at = 0; !rc && at < LIBVIRT_SHMEM_BYTES; at += sizeof(now)) {
		rc = guest_phys_read(libvirt_guest(r->backend), shmem.gpa + at, now, sizeof(now),
				     err);
		if (!rc && memcmp(now, zeros, sizeof(now)))
			rc = error_set(err, EBUSY,
				       "the domain's memory device is in use, by a sonde whose "
				       "journal is not here: is it another user's?");
	}
	return rc;
}

/* Without a journal, which its tracer may have elsewhere, it is not taken from a guest that is in
 * it. */
static int remove_device(struct recovery *r, struct error *err)
{
	int rc = libvirt_shmem_present(&r->domain, &r->out->had_device, err);

	if (!rc && r->out->had_device && !r->out->had_journal)
		rc = check_unused(r, err);
	return rc || !r->out->had_device ? rc : libvirt_shmem_unplug(&r->domain, err);
}

static int undo_noted(struct recovery *r, struct error *err)
{
	int rc = libvirt_journal_read(&r->journal, &r->contents, err);

	r->out->had_journal = true;
	if (rc)
		return rc;
	r->out->ended = libvirt_instances_differ(&r->contents.instance, &r->domain.qemu.instance);
	if (r->out->ended)
		return 0;
	rc = libvirt_guest_create(&r->domain, NULL, true, &r->backend, err);
	if (rc)
		return rc;
	r->guest = libvirt_guest(r->backend);
	return undo(r, err);
}

static int recover(struct recovery *r, struct error *err)
{
	int rc = libvirt_journal_adopt(r->domain.uuid, &r->journal, err);

	if (rc && rc != -ENOENT)
		return rc;
	rc = rc ? 0 : undo_noted(r, err);
	return rc || r->out->ended ? rc : remove_device(r, err);
}

/* Of a domain that has ended, nothing but the journal is left. One that is not at this connection
 * may be at another one: journals are named by uuid only. */
static int forget(const char *uuid, int why, struct libvirt_recovery *out, struct error *err)
{
	struct libvirt_journal journal;

	if (libvirt_journal_adopt(uuid, &journal, NULL))
		return why;
	if (libvirt_process_runs(uuid)) {
		libvirt_journal_close(&journal);
		return error_set(err, EBUSY,
				 "no such domain runs at this connection, but its QEMU does on "
				 "this host, and there is a journal: name its connection with -c");
	}
	libvirt_journal_remove(&journal);
	out->had_journal = out->ended = true;
	return 0;
}

int libvirt_recover(const char *uri, const char *id, bool just_died, unsigned int patience_ms,
		    struct libvirt_recovery *out, struct error *err)
{
	struct recovery r = {.journal = {.fd = -1}, .just_died = just_died, .out = out};
	int rc = open_patiently(&r, uri, id, patience_ms, err);

	*out = (struct libvirt_recovery){0};
	if ((rc == -ENOENT || rc == -ESRCH) && strlen(id) == LIBVIRT_UUID_TEXT - 1)
		return forget(id, rc, out, err);
	if (rc)
		return rc;
	rc = recover(&r, err);
	if (rc && libvirt_process_ended(&r.domain.qemu)) {
		out->ended = true;
		rc = 0;
	}
	if (rc)
		libvirt_journal_close(&r.journal);
	else
		libvirt_journal_remove(&r.journal);
	journal_contents_deinit(&r.contents);
	libvirt_guest_destroy(r.backend);
	libvirt_domain_close(&r.domain);
	return rc;
}

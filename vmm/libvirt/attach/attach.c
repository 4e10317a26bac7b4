/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/attach/attach.h"

#include <errno.h>
#include "vmm/libvirt/gdb/stub.h"
#include "vmm/libvirt/connection/monitor.h"
#include "vmm/libvirt/recovery/places.h"

enum {
	RING_BYTES = 1 << 20, /* of one vCPU; smaller where they do not fit */
	EVENT_MS = 1000,
};

/* --- before anything is changed -------------------------------------------------------------- */

static int check_running(struct attach *a, struct error *err)
{
	enum libvirt_run_state state;
	int rc = libvirt_domain_state(&a->domain, &state, err);

	if (!rc && state != LIBVIRT_RUNS)
		rc = error_set(err, EBUSY, "domain %s is paused: resume it first (virsh resume %s)",
			       a->domain.name, a->domain.name);
	return rc;
}

static int claim(struct attach *a, struct error *err)
{
	int rc = libvirt_journal_create(a->domain.uuid, &a->journal, err);

	if (!rc)
		rc = libvirt_journal_instance(&a->journal, &a->domain.qemu.instance, err);
	return rc ? rc : libvirt_watchdog_arm(&a->watchdog, a->domain.uuid, err);
}

static int create_trace(struct attach *a, struct kernel_image *image, struct error *err)
{
	const struct attach_options *o = a->options;
	struct run_trace_config config = {
		.kernel = o->kernel,
		.image = image,
		.dir = o->dry_run ? NULL : o->output,
		.specs = o->traces.specs,
		.nr_vcpus = libvirt_guest(a->guest)->nr_vcpus,
		.encoding = o->encoding,
		.options = {.exitless = !o->trap,
			    .drop = o->drop,
			    .ring_bytes = RING_BYTES,
			    .max_rate = o->trap ? o->max_rate : 0},
		.verb = "attach",
		.memory = libvirt_guest_memory_text(a->guest),
		.clock = o->trap ? "host monotonic" : "tsc",
	};

	return run_trace_create(&config, &a->trace, err);
}

/* A guest that has to be stopped to be read is better stopped once. */
int attach_hold(struct attach *a, struct error *err)
{
	struct guest *guest = libvirt_guest(a->guest);

	return libvirt_guest_is_slow(a->guest) ? guest->control->stop(guest, err) : 0;
}

int attach_release(struct attach *a, int rc, struct error *err)
{
	struct guest *guest = libvirt_guest(a->guest);
	int resumed = libvirt_guest_is_slow(a->guest)
			      ? guest->control->resume(guest, rc ? NULL : err)
			      : 0;

	return rc ? rc : resumed;
}

static int identify(struct attach *a, struct kernel_image **image, struct error *err)
{
	int rc = attach_hold(a, err);

	if (rc)
		return rc;
	rc = attach_kernel_identify(&a->domain, a->guest, image, &a->kernel, err);
	return attach_release(a, rc, err);
}

static int check_kernel(struct attach *a, const char *path, struct error *err)
{
	int rc = attach_hold(a, err);

	if (rc)
		return rc;
	rc = attach_kernel_check(&a->domain, a->guest, run_trace_image(a->trace), path, &a->kernel,
				 err);
	return attach_release(a, rc, err);
}

/* The image from its file, or from the guest's own memory. */
static int find_kernel(struct attach *a, struct error *err)
{
	const char *path = a->options->kernel;
	struct kernel_image *image = NULL;
	int rc = path ? 0 : identify(a, &image, err);

	if (!rc)
		rc = create_trace(a, image, err);
	if (!rc && path)
		rc = check_kernel(a, path, err);
	if (!rc)
		run_trace_kernel_at(a->trace, a->kernel.kernel.virt_slide,
				    a->kernel.kernel.phys_text);
	return rc;
}

int attach_open(struct attach *a, const struct attach_options *options, struct error *err)
{
	int rc = 0;

	*a = (struct attach){.options = options, .watchdog = {.fd = -1}, .journal = {.fd = -1}};
	if (!options->dry_run)
		rc = libvirt_watchdog_start(options->uri, &a->watchdog, err);
	if (!rc && !options->dry_run)
		rc = libvirt_events_start(&a->events, err);
	if (!rc)
		rc = libvirt_domain_open(options->uri, options->domain, &a->domain, err);
	if (!rc && !options->dry_run)
		rc = libvirt_events_watch(&a->events, &a->domain, err);
	/* a moment's pause of another sonde's is not to be taken for the administrator's */
	if (!rc)
		rc = libvirt_journal_check(a->domain.uuid, err);
	if (!rc)
		rc = gdbstub_check_free(&a->domain, err);
	if (!rc)
		rc = check_running(a, err);
	if (!rc)
		rc = libvirt_domain_check_files(&a->domain, err);
	if (!rc && !options->dry_run)
		rc = claim(a, err);
	if (!rc)
		rc = libvirt_guest_create(&a->domain, &a->journal, false, &a->guest, err);
	if (!rc && options->dry_run && libvirt_guest_is_slow(a->guest))
		rc = error_set(err, EACCES,
			       "for a dry run the domain would have to be stopped: its memory can "
			       "only be read %s",
			       libvirt_guest_memory_text(a->guest));
	return rc ? rc : find_kernel(a, err);
}

/* --- tracing --------------------------------------------------------------------------------- */

/* Before there is anything to undo: whoever has to will not know the kernel. */
static int note_tasks(struct attach *a, struct error *err)
{
	struct task_stacks tasks;
	int rc = task_stacks_init(&a->kernel.kernel, &tasks, err);

	return rc ? rc : libvirt_journal_tasks(&a->journal, &tasks, err);
}

static int plug(struct attach *a, struct error *err)
{
	struct error why;
	int rc = note_tasks(a, err);

	if (rc)
		return rc;
	if (!libvirt_guest_plug(a->guest, &why))
		return 0;
	if (why.code == EEXIST)
		return error_set(err, EEXIST, "%s", why.text);
	return error_set(err, why.code, "%s; or use --mode trap, which is slow but needs no device",
			 why.text);
}

/* What the patcher finds in a guest that it cannot do without exits. */
static int begin_trace(struct attach *a, struct error *err)
{
	struct error why;
	int rc = run_trace_begin(a->trace, libvirt_guest(a->guest), &why);

	if (!rc)
		return 0;
	if (!a->options->trap && rc == -ENOTSUP)
		return error_set(err, ENOTSUP, "%s; --mode trap can do with that", why.text);
	if (err)
		*err = why;
	return rc;
}

int attach_begin(struct attach *a, struct error *err)
{
	int rc = a->options->trap ? libvirt_guest_use_traps(a->guest, err) : plug(a, err);

	if (rc)
		return rc;
	a->begun = true;
	rc = attach_hold(a, err);
	if (!rc)
		rc = attach_release(a, begin_trace(a, err), err);
	return rc;
}

/* The event may be a little later than what libvirt answers. */
static const char *why_gone(struct attach *a)
{
	const char *told = libvirt_events_wait(&a->events, EVENT_MS);

	return told ? told : "the domain ended";
}

int attach_look(struct attach *a, struct error *err)
{
	enum libvirt_run_state state = LIBVIRT_RUNS;
	int rc = 0;

	a->why = libvirt_events_why(&a->events);
	if (!a->why)
		rc = libvirt_domain_state(&a->domain, &state, err);
	if (!rc && !a->why && state == LIBVIRT_RUNS && libvirt_guest_moves(a->guest))
		a->why = "the domain is being migrated, or saved while it runs";
	if (!a->why && (libvirt_process_ended(&a->domain.qemu) || (!rc && state == LIBVIRT_GONE))) {
		a->why = why_gone(a);
		rc = 0;
	}
	return rc;
}

/* Looked for in the domain itself, whatever else was said. */
static int check_undone(struct attach *a, struct error *err)
{
	struct guest *guest = libvirt_guest(a->guest);
	size_t pending = 0;
	int rc = libvirt_journal_check_running(&a->journal, err);

	if (!rc)
		rc = attach_hold(a, err);
	if (!rc)
		rc = attach_release(a, libvirt_journal_pending(&a->journal, guest, &pending, err),
				    err);
	if (!rc)
		rc = libvirt_guest_check_breaks(a->guest, err);
	if (!rc && pending)
		rc = error_set(err, EIO, "%zu places in the guest are not as they were%s", pending,
			       guest->control->is_stopped(guest)
				       ? ", and stay so until it is resumed: the domain is paused"
				       : "");
	return rc;
}

/* The domain has ended, and may have been started again: nothing is left to be undone. */
static bool is_gone(struct attach *a)
{
	enum libvirt_run_state state;

	if (libvirt_process_ended(&a->domain.qemu))
		return true;
	return a->domain.domain && !libvirt_domain_state(&a->domain, &state, NULL) &&
	       state == LIBVIRT_GONE;
}

static void end_trace(struct attach *a, bool lost)
{
	int held = attach_hold(a, NULL);

	if (lost)
		run_trace_abandon(a->trace);
	else
		run_trace_end(a->trace);
	if (!held)
		attach_release(a, 0, NULL);
	libvirt_guest_trap_counts(a->guest, &a->traps, NULL);
}

/* After a reset, what is left of our bytes lies in memory that the next guest will overwrite, and
 * nothing of the old one can be asked: the watchdog's work. */
static int undo(struct attach *a, struct error *err)
{
	const bool reset = libvirt_events_reset(&a->events), gone = a->begun && is_gone(a);
	int rc = 0;

	if (gone && !a->why) {
		a->why = why_gone(a);
		run_trace_note(a->trace, a->why);
	}
	a->saved_breaks =
		a->begun && libvirt_events_kept(&a->events) && libvirt_guest_holds_breaks(a->guest);
	if (a->begun)
		end_trace(a, gone || reset || libvirt_guest_moves(a->guest));
	if (a->journal.fd < 0 || gone || is_gone(a))
		return 0;
	if (reset)
		libvirt_journal_reset(&a->journal, NULL);
	if (reset)
		return error_set(err, ESTALE, "the domain was reset while it was traced");
	if (a->guest)
		rc = check_undone(a, err);
	if (!rc && a->guest)
		rc = libvirt_guest_unplug(a->guest, err);
	return rc;
}

int attach_end(struct attach *a, struct error *err)
{
	struct error why = {0};
	int rc = undo(a, &why);

	if (!rc)
		libvirt_journal_remove(&a->journal);
	else
		libvirt_journal_close(&a->journal); /* the watchdog's now */
	libvirt_guest_destroy(a->guest);
	a->guest = NULL;
	libvirt_events_stop(&a->events);
	libvirt_domain_close(&a->domain);
	if (libvirt_watchdog_end(&a->watchdog, !rc) || !rc)
		return 0;
	if (err)
		*err = why;
	error_prefix(err, "run 'sonde recover': ");
	return -why.code;
}

void attach_close(struct attach *a)
{
	run_trace_destroy(a->trace);
	a->trace = NULL;
}

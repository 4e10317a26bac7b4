/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/attach/attach.h"

#include <errno.h>
#include <stdio.h>
#include "introspect/guest/memory.h"
#include "vmm/libvirt/gdb/stub.h"
#include "vmm/libvirt/backend/shmem.h"
#include "vmm/libvirt/connection/monitor.h"
#include "vmm/libvirt/recovery/places.h"

enum { EVENT_MS = 1000 };

struct attach_hint attach_virsh(const struct attach *a, const char *command)
{
	const char *uri = a->options->uri;
	struct attach_hint hint;

	snprintf(hint.text, sizeof(hint.text), "virsh%s%s %s %s", uri ? " -c " : "", uri ? uri : "",
		 command, a->domain.name);
	return hint;
}

int attach_refuse(const struct attach *a, const struct error *why, struct error *err)
{
	if (a->options->recorder.mode == RECORDER_EXITLESS && why->code == ENOTSUP)
		return error_set(err, ENOTSUP, "%s; try --mode trap", why->text);
	if (err)
		*err = *why;
	return -why->code;
}

/* --- before anything is changed -------------------------------------------------------------- */

static int check_running(struct attach *a, struct error *err)
{
	enum libvirt_run_state state;
	int ret = libvirt_domain_state(&a->domain, &state, err);

	if (ret || state == LIBVIRT_RUNS)
		return ret;
	return error_set(err, EBUSY, "domain %s is paused: resume it first (%s)", a->domain.name,
			 attach_virsh(a, "resume").text);
}

static int claim(struct attach *a, struct error *err)
{
	struct libvirt_pid self;
	int ret = libvirt_journal_create(a->domain.uuid, &a->journal, err);

	libvirt_pid_self(&self);
	if (!ret)
		ret = libvirt_journal_instance(&a->journal, &a->domain.qemu.instance, err);
	if (!ret)
		ret = libvirt_journal_tracer(&a->journal, &self, err);
	return ret ? ret : libvirt_watchdog_arm(&a->watchdog, a->domain.uuid, err);
}

static int create_recorder(struct attach *a, struct kernel_image *image, struct error *err)
{
	const struct attach_options *o = a->options;
	const struct recorder_config config = {
		.verb = "attach",
		.options = &o->recorder,
		.loop = a->loop,
		.image = image,
		.kernel = o->kernel,
		.nr_vcpus = libvirt_guest(a->guest)->nr_vcpus,
		.clock = o->recorder.mode == RECORDER_TRAP ? "host monotonic" : "tsc",
		.memory = libvirt_guest_memory_text(a->guest),
		.domain = a->domain.name,
		.progress = true,
		.no_trace = o->dry_run,
		.never_stopped = o->recorder.mode == RECORDER_TRAP,
	};

	return recorder_create(&config, &a->recorder, err);
}

/* The file may be slow: the domain does not wait for it. */
static int identify(struct attach *a, struct kernel_image **image, struct error *err)
{
	struct kernel_given given;
	int ret = kernel_given_open(NULL, a->options->recorder.btf, &given, err);

	if (!ret)
		ret = attach_kernel_identify(&a->domain, a->guest, &given, image, &a->kernel, err);
	kernel_given_close(&given);
	return ret;
}

/* The image from its file, or from the guest's own memory. */
static int find_kernel(struct attach *a, struct error *err)
{
	const char *path = a->options->kernel;
	struct kernel_image *image = NULL;
	int ret = path ? 0 : identify(a, &image, err);

	if (ret)
		return ret;
	ret = create_recorder(a, image, err);
	if (!ret && path)
		ret = attach_kernel_check(&a->domain, a->guest, recorder_image(a->recorder), path,
					  &a->kernel, err);
	if (!ret)
		recorder_kernel_at(a->recorder, a->kernel.kernel.virt_slide,
				   a->kernel.kernel.phys_text);
	return ret;
}

/* The watchdog is a process of its own: it starts before there are threads. A dry run needs the
 * events' loop, too: without it a libvirtd that hangs would not be noticed. */
static int connect_domain(struct attach *a, struct error *err)
{
	const struct attach_options *o = a->options;
	int ret = o->dry_run ? 0 : libvirt_watchdog_start(o->uri, &a->watchdog, err);

	if (!ret)
		ret = libvirt_events_start(&a->events, err);
	if (!ret)
		ret = libvirt_domain_open(o->uri, o->domain, &a->domain, err);
	return ret || o->dry_run ? ret : libvirt_events_watch(&a->events, &a->domain, err);
}

static int check_domain(struct attach *a, struct error *err)
{
	/* first, as another sonde may pause the domain for a moment */
	int ret = libvirt_journal_check(a->domain.uuid, err);

	if (!ret)
		ret = gdbstub_check_free(&a->domain, err);
	/* another user's, which patches the guest: it could not stop the domain to leave it while
	 * this one has the gdbstub */
	if (!ret)
		ret = libvirt_shmem_check_none(&a->domain, err);
	if (!ret)
		ret = check_running(a, err);
	return ret ? ret : libvirt_domain_check_files(&a->domain, err);
}

static void on_beat(void *watchdog, bool exposed)
{
	libvirt_watchdog_beat(watchdog, exposed);
}

/* A look for the kernel may hold the domain stopped: Ctrl-Z must not stop this process. What
 * comes now is taken up by recorder_watch(). */
static int watch_tracer(struct attach *a, struct error *err)
{
	if (a->options->dry_run)
		return 0;
	if (a->options->recorder.mode == RECORDER_TRAP || libvirt_guest_is_slow(a->guest))
		recorder_never_stop();
	return libvirt_guest_beat(a->guest, on_beat, &a->watchdog, err);
}

int attach_open(struct attach *a, const struct attach_options *options, struct event_loop *loop,
		struct error *err)
{
	int ret;

	*a = (struct attach){.options = options,
			     .loop = loop,
			     .reason = ATTACH_ASKED,
			     .watchdog = {.fd = -1},
			     .journal = {.fd = -1}};
	ret = connect_domain(a, err);
	if (!ret)
		ret = check_domain(a, err);
	if (!ret && !options->dry_run)
		ret = claim(a, err);
	if (!ret)
		ret = libvirt_guest_create(&a->domain, &a->journal, false, &a->guest, err);
	if (ret)
		return ret;
	if (options->dry_run && libvirt_guest_is_slow(a->guest))
		return error_set(err, EACCES,
				 "a dry run would have to stop the domain: its memory can only be "
				 "read %s",
				 libvirt_guest_memory_text(a->guest));
	ret = watch_tracer(a, err);
	return ret ? ret : find_kernel(a, err);
}

/* --- the end --------------------------------------------------------------------------------- */

/* The event may come a little later than libvirt's answer about the state. */
const char *attach_why_gone(struct attach *a)
{
	const char *why = libvirt_events_wait(&a->events, EVENT_MS);

	return why ? why : "the domain ended";
}

/* Check in the domain itself, whatever the operations have returned. */
static int check_undone(struct attach *a, struct error *err)
{
	struct guest *guest = libvirt_guest(a->guest);
	size_t pending = 0;
	int ret = libvirt_journal_check_running(&a->journal, err);

	if (!ret)
		ret = guest_hold_to_read(libvirt_guest(a->guest), err);
	if (!ret)
		ret = guest_release(libvirt_guest(a->guest),
				    libvirt_journal_pending(&a->journal, guest, &pending, err),
				    err);
	if (!ret)
		ret = libvirt_guest_check_breaks(a->guest, err);
	if (!ret)
		ret = libvirt_guest_check_left(a->guest, err);
	if (!ret && pending)
		ret = error_set(
			err, EIO, "places in the guest that are not restored: %zu%s", pending,
			guest->control->is_stopped(guest) ? "; the domain is paused: resume it"
							  : "");
	return ret;
}

/* The domain has ended, and may have been started again: there is nothing to undo. */
static bool is_gone(struct attach *a)
{
	enum libvirt_run_state state;

	if (libvirt_process_ended(&a->domain.qemu))
		return true;
	return a->domain.domain && !libvirt_domain_state(&a->domain, &state, NULL) &&
	       state == LIBVIRT_GONE;
}

static void end_trace(struct attach *a, bool over)
{
	const char *why = a->why;

	if (!why && a->disconnected)
		why = "the connection to libvirt was lost";
	recorder_end(a->recorder, over ? RECORDER_GUEST_OVER : RECORDER_GUEST_RUNS, why);
	libvirt_guest_expose(a->guest, false);
	libvirt_guest_trap_counts(a->guest, &a->traps, NULL);
}

/* After a reset, patched bytes may be left in memory that the next guest overwrites. The old
 * guest's state is gone, so the watchdog does that. */
static int undo(struct attach *a, struct error *err)
{
	const bool reset = libvirt_events_reset(&a->events), gone = a->begun && is_gone(a);
	int ret = 0;

	if (gone && !a->why)
		a->why = attach_why_gone(a);
	/* the gdbstub is still there without libvirt */
	if (a->begun && a->disconnected && !gone && a->options->recorder.mode == RECORDER_TRAP)
		libvirt_guest_move(a->guest);
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
		ret = check_undone(a, err);
	if (!ret && a->guest)
		ret = libvirt_guest_unplug(a->guest, err);
	return ret;
}

int attach_end(struct attach *a, struct error *err)
{
	struct error why = {0};
	int ret = undo(a, &why);

	/* its threads may write to the journal */
	libvirt_guest_destroy(a->guest);
	a->guest = NULL;
	if (!ret)
		libvirt_journal_remove(&a->journal);
	else
		libvirt_journal_close(&a->journal); /* the watchdog's now */
	libvirt_events_stop(&a->events);
	libvirt_domain_close(&a->domain);
	if (libvirt_watchdog_end(&a->watchdog, !ret) || !ret)
		return 0;
	if (err)
		*err = why;
	error_prefix(err, "run 'sonde recover%s%s %s': ", a->options->uri ? " -c " : "",
		     a->options->uri ? a->options->uri : "", a->options->domain);
	return -why.code;
}

void attach_close(struct attach *a)
{
	recorder_destroy(a->recorder);
	a->recorder = NULL;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/attach/attach.h"

#include <errno.h>
#include <stdio.h>
#include "vmm/libvirt/gdb/stub.h"
#include "vmm/libvirt/backend/shmem.h"
#include "vmm/libvirt/connection/monitor.h"

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

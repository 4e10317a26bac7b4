/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/events.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/thread.h"

enum { QUIT_POLL_MS = 1000 };

/* Keeps the first reason: later events are its consequences. */
static void set_why(struct libvirt_events *e, const char *why)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&e->why, &none, why);
}

/* --- callbacks, on the loop's thread --------------------------------------------------------- */

static const char *why_stopped(int detail)
{
	static const char *const why[] = {
		[LIBVIRT_STOPPED_SHUTDOWN] = "the domain was shut down",
		[LIBVIRT_STOPPED_DESTROYED] = "the domain was destroyed",
		[LIBVIRT_STOPPED_CRASHED] = "the domain crashed",
		[LIBVIRT_STOPPED_MIGRATED] = "the domain was migrated to another host",
		[LIBVIRT_STOPPED_SAVED] = "the domain was saved",
		[LIBVIRT_STOPPED_FAILED] = "the domain's QEMU failed",
		[LIBVIRT_STOPPED_FROM_SNAPSHOT] = "the domain was reverted to a snapshot",
	};

	if (detail >= 0 && (size_t)detail < sizeof(why) / sizeof(why[0]))
		return why[detail];
	return "the domain ended";
}

/* libvirt can load a snapshot into a running domain, which then keeps running. */
static int on_lifecycle(virConnectPtr connection, virDomainPtr domain, int event, int detail,
			void *arg)
{
	struct libvirt_events *e = arg;

	(void)connection;
	(void)domain;
	if (event == LIBVIRT_EVENT_STOPPED &&
	    (detail == LIBVIRT_STOPPED_SAVED || detail == LIBVIRT_STOPPED_MIGRATED))
		atomic_store(&e->kept, true);
	if (event == LIBVIRT_EVENT_STOPPED)
		set_why(e, why_stopped(detail));
	if ((event == LIBVIRT_EVENT_RESUMED && detail == LIBVIRT_RESUMED_FROM_SNAPSHOT) ||
	    (event == LIBVIRT_EVENT_SUSPENDED && detail == LIBVIRT_SUSPENDED_FROM_SNAPSHOT)) {
		atomic_store(&e->reset, true);
		set_why(e, why_stopped(LIBVIRT_STOPPED_FROM_SNAPSHOT));
	}
	return 0;
}

static void on_reboot(virConnectPtr connection, virDomainPtr domain, void *arg)
{
	struct libvirt_events *e = arg;

	(void)connection;
	(void)domain;
	atomic_store(&e->reset, true);
	set_why(e, "the domain was reset");
}

/* At the start of each pass of a migration over the memory. */
static void on_iteration(virConnectPtr connection, virDomainPtr domain, int iteration, void *arg)
{
	struct libvirt_events *e = arg;

	(void)connection;
	(void)domain;
	(void)iteration;
	eventfd_write(e->moved, 1);
}

/* --- the loop -------------------------------------------------------------------------------- */

static void on_timer(int timer, void *arg)
{
	(void)timer;
	(void)arg;
}

static void *loop(void *arg)
{
	struct libvirt_events *e = arg;

	while (!atomic_load(&e->quit) && !e->api->event_run_default())
		;
	return NULL;
}

/* Once in a process. */
static int register_loop(const struct libvirt_api *api, struct error *err)
{
	static bool registered;

	if (!registered && api->event_register_default())
		return error_set(err, EIO, "libvirt refuses to register its event loop");
	registered = true;
	return 0;
}

int libvirt_events_start(struct libvirt_events *e, struct error *err)
{
	int code, ret = libvirt_lib_load(&e->api, err);

	if (ret)
		return ret;
	e->lifecycle = e->reboot = e->iteration = -1;
	ret = register_loop(e->api, err);
	if (ret)
		return ret;
	e->moved = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->moved < 0)
		return error_set(err, errno, "no eventfd: %s", strerror(errno));
	e->timer = e->api->event_add_timeout(QUIT_POLL_MS, on_timer, NULL, NULL);
	if (e->timer < 0) {
		ret = error_set(err, EIO, "cannot start libvirt's event loop");
		goto close_moved;
	}
	code = thread_start(&e->thread, "sonde-events", loop, e);
	if (code) {
		ret = error_set(err, code, "cannot start libvirt's event loop: %s", strerror(code));
		goto remove_timer;
	}
	e->running = true;
	return 0;

remove_timer:
	e->api->event_remove_timeout(e->timer);
close_moved:
	close(e->moved);
	return ret;
}

int libvirt_events_watch(struct libvirt_events *e, struct libvirt_domain *domain, struct error *err)
{
	e->domain = domain;
	e->lifecycle = e->api->event_register(domain->connection, domain->domain,
					      LIBVIRT_EVENT_ID_LIFECYCLE,
					      (libvirt_event_fn *)on_lifecycle, e, NULL);
	e->reboot =
		e->api->event_register(domain->connection, domain->domain, LIBVIRT_EVENT_ID_REBOOT,
				       (libvirt_event_fn *)on_reboot, e, NULL);
	e->iteration = e->api->event_register(domain->connection, domain->domain,
					      LIBVIRT_EVENT_ID_MIGRATION_ITERATION,
					      (libvirt_event_fn *)on_iteration, e, NULL);
	if (e->lifecycle < 0 || e->reboot < 0 || e->iteration < 0)
		return libvirt_error(domain, "cannot watch the domain's events", err);
	return 0;
}

static void deregister(struct libvirt_events *e, int callback)
{
	if (e->domain && callback >= 0)
		e->api->event_deregister(e->domain->connection, callback);
}

/* Callbacks are deregistered while the loop still runs, because it also closes the connection. */
void libvirt_events_stop(struct libvirt_events *e)
{
	deregister(e, e->lifecycle);
	deregister(e, e->reboot);
	deregister(e, e->iteration);
	e->domain = NULL;
	if (!e->running)
		return;
	atomic_store(&e->quit, true);
	e->api->event_update_timeout(e->timer, 0);
	pthread_join(e->thread, NULL);
	e->api->event_remove_timeout(e->timer);
	e->running = false;
	close(e->moved);
}

const char *libvirt_events_why(const struct libvirt_events *e)
{
	return atomic_load(&e->why);
}

const char *libvirt_events_wait(const struct libvirt_events *e, unsigned int ms)
{
	enum { STEP_MS = 10 };

	for (unsigned int i = 0; i < ms && !atomic_load(&e->why); i += STEP_MS)
		clock_wait_ms(STEP_MS);
	return atomic_load(&e->why);
}

bool libvirt_events_reset(const struct libvirt_events *e)
{
	return atomic_load(&e->reset);
}

bool libvirt_events_kept(const struct libvirt_events *e)
{
	return atomic_load(&e->kept);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which events of libvirt's end a trace, and what becomes of the domain's memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/events.h"

typedef int lifecycle_fn(virConnectPtr connection, virDomainPtr domain, int event, int detail,
			 void *arg);
typedef void reboot_fn(virConnectPtr connection, virDomainPtr domain, void *arg);
typedef void iteration_fn(virConnectPtr connection, virDomainPtr domain, int iteration, void *arg);

/* Callbacks by the event's id, which is also that of the callback. */
enum { MOST_EVENTS = 32 };
static libvirt_event_fn *callbacks[MOST_EVENTS];
static int refused_id; /* of the event that libvirt does not let be watched; -1: none */

static int event_register(virConnectPtr connection, virDomainPtr domain, int id,
			  libvirt_event_fn *fn, void *arg, void (*free_arg)(void *arg))
{
	(void)connection;
	(void)domain;
	(void)arg;
	(void)free_arg;
	if (id == refused_id)
		return -1;
	callbacks[id] = fn;
	return id;
}

static int event_deregister(virConnectPtr connection, int callback)
{
	(void)connection;
	callbacks[callback] = NULL;
	return 0;
}

static int last_code(void)
{
	return 1;
}

static const char *last_message(void)
{
	return "not now";
}

static const struct libvirt_api api = {.event_register = event_register,
				       .event_deregister = event_deregister,
				       .last_code = last_code,
				       .last_message = last_message};
static struct libvirt_domain domain = {.api = &api};
static struct libvirt_events events;

static void watch(void)
{
	refused_id = -1;
	events = (struct libvirt_events){.api = &api, .moved = -1};
	if (libvirt_events_watch(&events, &domain, NULL))
		abort();
}

static void tell_lifecycle(int event, int detail)
{
	((lifecycle_fn *)callbacks[LIBVIRT_EVENT_ID_LIFECYCLE])(NULL, NULL, event, detail, &events);
}

static void tell_reboot(void)
{
	((reboot_fn *)callbacks[LIBVIRT_EVENT_ID_REBOOT])(NULL, NULL, &events);
}

/* What an event of a domain that is watched anew means. */
static const struct {
	int event, detail;
	const char *why; /* NULL: tracing goes on */
	bool reset, kept;
} meanings[] = {
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_SHUTDOWN, "the domain was shut down", false, false},
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_DESTROYED, "the domain was destroyed", false,
	 false},
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_CRASHED, "the domain crashed", false, false},
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_MIGRATED, "the domain was migrated to another host",
	 false, true},
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_SAVED, "the domain was saved", false, true},
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_FAILED, "the domain's QEMU failed", false, false},
	{LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_FROM_SNAPSHOT,
	 "the domain was reverted to a snapshot", false, false},
	{LIBVIRT_EVENT_STOPPED, 99, "the domain ended", false, false},
	{LIBVIRT_EVENT_STOPPED, -1, "the domain ended", false, false},
	{LIBVIRT_EVENT_RESUMED, LIBVIRT_RESUMED_FROM_SNAPSHOT,
	 "the domain was reverted to a snapshot", true, false},
	{LIBVIRT_EVENT_SUSPENDED, LIBVIRT_SUSPENDED_FROM_SNAPSHOT,
	 "the domain was reverted to a snapshot", true, false},
	{LIBVIRT_EVENT_RESUMED, LIBVIRT_RESUMED_FROM_SNAPSHOT + 1, NULL, false, false},
	{LIBVIRT_EVENT_RESUMED, 0, NULL, false, false},
	{LIBVIRT_EVENT_SUSPENDED, 0, NULL, false, false},
};

static bool has_why(const char *why)
{
	const char *said = libvirt_events_why(&events);

	return why ? said && !strcmp(said, why) : !said;
}

static void test_meanings(void)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		watch();
		tell_lifecycle(meanings[i].event, meanings[i].detail);
		ok(has_why(meanings[i].why) && libvirt_events_reset(&events) == meanings[i].reset &&
			   libvirt_events_kept(&events) == meanings[i].kept,
		   "event %d, %d: %s", meanings[i].event, meanings[i].detail,
		   meanings[i].why ? meanings[i].why : "tracing goes on");
		libvirt_events_stop(&events);
	}
}

static void test_order(void)
{
	watch();
	ok(!libvirt_events_wait(&events, 10), "an event may be waited for, and not come");
	tell_reboot();
	ok(has_why("the domain was reset") && libvirt_events_reset(&events),
	   "a domain that was reset goes on with another guest");
	tell_lifecycle(LIBVIRT_EVENT_STOPPED, LIBVIRT_STOPPED_SAVED);
	ok(has_why("the domain was reset"), "the first reason is kept");
	ok(libvirt_events_kept(&events), "what becomes of the memory counts nevertheless");
	is_str(libvirt_events_wait(&events, 10000), "the domain was reset",
	       "nobody waits for what has come");
	libvirt_events_stop(&events);
}

static void test_moved(void)
{
	eventfd_t times;

	watch();
	events.moved = eventfd(0, EFD_NONBLOCK);
	((iteration_fn *)callbacks[LIBVIRT_EVENT_ID_MIGRATION_ITERATION])(NULL, NULL, 1, &events);
	ok(!eventfd_read(events.moved, &times) && has_why(NULL),
	   "a pass over the memory is no reason to end, but is told");
	close(events.moved);
	libvirt_events_stop(&events);
	ok(!callbacks[LIBVIRT_EVENT_ID_LIFECYCLE] && !callbacks[LIBVIRT_EVENT_ID_REBOOT] &&
		   !callbacks[LIBVIRT_EVENT_ID_MIGRATION_ITERATION],
	   "no callback is left");
}

/* Without one of the events the end of the guest would not be noticed. */
static void test_refused(void)
{
	static const int ids[] = {LIBVIRT_EVENT_ID_LIFECYCLE, LIBVIRT_EVENT_ID_REBOOT,
				  LIBVIRT_EVENT_ID_MIGRATION_ITERATION};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct error err = {0};

		refused_id = ids[i];
		events = (struct libvirt_events){.api = &api};
		ok(libvirt_events_watch(&events, &domain, &err) < 0 &&
			   strstr(err.text, "cannot watch the domain's events"),
		   "an event that cannot be watched is an error: %s", err.text);
		libvirt_events_stop(&events);
	}
}

int main(void)
{
	test_meanings();
	test_order();
	test_moved();
	test_refused();
	return tap_done();
}

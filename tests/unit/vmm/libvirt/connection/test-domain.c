/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Errors, states and pauses of a domain, and URIs, with a fake libvirt. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/monitor.h"

static const char *answer; /* NULL: libvirt fails */

static int command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	(void)domain;
	(void)text;
	(void)flags;
	*result = answer ? strdup(answer) : NULL;
	return answer ? 0 : -1;
}

static int last_code(void)
{
	return LIBVIRT_ERR_OPERATION_DENIED;
}

static const char *last_message(void)
{
	return "no";
}

/* Callers distinguish errors by code, with or without asking for the text. */
static void is_code(struct libvirt_domain *domain, const char *reply, int code, const char *what)
{
	struct error err = {0};

	answer = reply;
	ok(libvirt_qmp(domain, "x", NULL, -1, NULL, &err) == code, "%s: returns %d", what, code);
	ok(libvirt_qmp(domain, "x", NULL, -1, NULL, NULL) == code,
	   "%s: returns %d without an error object, too", what, code);
	ok(!code || -err.code == code, "%s: the error has that code: %s", what, err.text);
}

static int state_now; /* -1: libvirt fails */
static int reason_now;

static int domain_state(virDomainPtr domain, int *state, int *reason, unsigned int flags)
{
	(void)domain;
	(void)flags;
	*reason = reason_now;
	*state = state_now;
	return state_now < 0 ? -1 : 0;
}

static void is_state(struct libvirt_domain *domain, int state, enum libvirt_run_state expected,
		     const char *what)
{
	enum libvirt_run_state got;

	state_now = state;
	ok(!libvirt_domain_state(domain, &got, NULL) && got == expected, "a domain that %s", what);
}

/* virDomainState, in libvirt/libvirt-domain.h. */
static void test_states(struct libvirt_domain *domain)
{
	enum libvirt_run_state got;

	is_state(domain, 1, LIBVIRT_RUNS, "is running runs");
	is_state(domain, 2, LIBVIRT_RUNS, "is blocked runs");
	is_state(domain, 3, LIBVIRT_PAUSED, "is paused is paused");
	is_state(domain, 4, LIBVIRT_PAUSED, "is being shut down is paused");
	is_state(domain, 5, LIBVIRT_GONE, "is shut off is gone");
	is_state(domain, 6, LIBVIRT_PANICKED, "has crashed has panicked: QEMU still exists");
	reason_now = 10;
	is_state(domain, 3, LIBVIRT_PANICKED, "is paused as its guest has panicked");
	reason_now = 0;
	is_state(domain, 7, LIBVIRT_PAUSED, "suspended itself is paused: it can wake up");
	state_now = -1;
	ok(libvirt_domain_state(domain, &got, NULL) == -EACCES,
	   "an error of libvirt's is returned instead of a state");
}

static void is_pause(struct libvirt_domain *domain, int state, int reason,
		     enum libvirt_pause expected, const char *what)
{
	enum libvirt_pause got;

	state_now = state;
	reason_now = reason;
	ok(!libvirt_domain_pause(domain, &got, NULL) && got == expected, "pause: %s", what);
}

/* virDomainPausedReason */
static void test_pauses(struct libvirt_domain *domain)
{
	enum libvirt_pause got;

	is_pause(domain, 1, 1, LIBVIRT_PAUSE_NONE, "a running domain has none");
	is_pause(domain, 3, 0, LIBVIRT_PAUSE_MONITOR, "the reason 'unknown' is a monitor's user");
	is_pause(domain, 3, 1, LIBVIRT_PAUSE_OTHERS, "the reason 'user' is the administrator");
	is_pause(domain, 3, 9, LIBVIRT_PAUSE_OTHERS, "the reason 'snapshot' is not sonde");
	is_pause(domain, 7, 0, LIBVIRT_PAUSE_OTHERS, "a guest that suspended itself is not sonde");
	is_pause(domain, 5, 0, LIBVIRT_PAUSE_OTHERS, "a domain that has ended is not sonde");
	state_now = -1;
	ok(libvirt_domain_pause(domain, &got, NULL) == -EACCES && got == LIBVIRT_PAUSE_OTHERS,
	   "pause: an error of libvirt's is returned, and counts as not sonde");
}

static void test_uris(void)
{
	static const char *const local[] = {"qemu:///system", "qemu:///session?socket=/x+y://z",
					    "qemu+unix:///system?socket=/run/libvirt/libvirt-sock",
					    "qemu:///embed?root=/x"};
	static const char *const remote[] = {"qemu+ssh://host/system",
					     "qemu+ssh:///system",
					     "qemu+tcp://localhost/system",
					     "qemu://host/system",
					     "qemu+libssh2://h/system",
					     "qemu+unix://host/system",
					     "qemu+",
					     "qemu",
					     ""};

	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		ok(libvirt_uri_is_local(local[i]), "'%s' is on this host", local[i]);
	for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
		ok(!libvirt_uri_is_local(remote[i]), "'%s' may be on another host", remote[i]);
}

int main(void)
{
	static const struct libvirt_api api = {.monitor_command = command,
					       .domain_state = domain_state,
					       .last_code = last_code,
					       .last_message = last_message};
	struct libvirt_domain domain = {.api = &api};

	test_states(&domain);
	test_pauses(&domain);
	is_code(&domain, "{\"return\": {}, \"id\": \"1\"}", 0, "a QMP result");
	is_code(&domain, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"exists\"}}",
		-EREMOTEIO, "QEMU's error");
	is_code(&domain, "nonsense", -EPROTO, "a reply that is not JSON");
	is_code(&domain, NULL, -EACCES, "libvirt's error");
	test_uris();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/base/text.h"

static int code_of(int libvirt_code)
{
	switch (libvirt_code) {
	case LIBVIRT_ERR_NO_DOMAIN:
		return ENOENT;
	case LIBVIRT_ERR_OPERATION_DENIED:
	case LIBVIRT_ERR_AUTH_FAILED:
	case LIBVIRT_ERR_AUTH_CANCELLED:
	case LIBVIRT_ERR_AUTH_UNAVAILABLE:
	case LIBVIRT_ERR_ACCESS_DENIED:
		return EACCES;
	case LIBVIRT_ERR_NO_SUPPORT:
		return ENOTSUP;
	default:
		return EIO;
	}
}

int libvirt_error(struct libvirt_domain *domain, const char *what, struct error *err)
{
	int code = domain->api->last_code();
	const char *message = domain->api->last_message();
	char text[200];

	clean_text(text, sizeof(text), message ? message : "no reason given");
	if (code == LIBVIRT_ERR_OPERATION_DENIED)
		return error_set(err, EACCES,
				 "%s: %s; use libvirt's socket for reading and writing, as root or "
				 "as a member of the group libvirt",
				 what, text);
	return error_set(err, code_of(code), "%s: %s", what, text);
}

/* --- find the domain ------------------------------------------------------------------------- */

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

/* Names first: a name may consist of digits. */
static int look_up(struct libvirt_domain *d, const char *uri, const char *id, struct error *err)
{
	uint64_t number;

	d->domain = d->api->lookup_name(d->connection, id);
	if (!d->domain && d->api->last_code() != LIBVIRT_ERR_NO_DOMAIN)
		return libvirt_error(d, id, err);
	if (!d->domain && strlen(id) == LIBVIRT_UUID_TEXT - 1)
		d->domain = d->api->lookup_uuid(d->connection, id);
	if (!d->domain && is_number(id) && !cli_parse_u64(id, 0, INT32_MAX, &number))
		d->domain = d->api->lookup_id(d->connection, (int)number);
	if (d->domain)
		return 0;
	return error_set(err, ENOENT,
			 "there is no domain '%s' at this connection: see 'virsh%s%s list'", id,
			 uri ? " -c " : "", uri ? uri : "");
}

static int check_started(struct libvirt_domain *d, struct error *err)
{
	enum libvirt_run_state state;
	int ret = libvirt_domain_state(d, &state, err);

	if (!ret && state == LIBVIRT_GONE)
		return error_set(err, ESRCH, "domain %s is not running: start it first", d->name);
	return ret;
}

/* As libvirt's own rule for a session: glib's g_get_user_runtime_dir(). */
static void session_folder(char *out, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *cache = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME");

	if (runtime && *runtime)
		snprintf(out, size, "%s", runtime);
	else if (cache && *cache)
		snprintf(out, size, "%s", cache);
	else
		snprintf(out, size, "%s/.cache", home ? home : "");
}

static void find_qemu(struct libvirt_domain *d)
{
	char folder[256], path[1024] = "", *uri = d->api->connect_uri(d->connection);

	session_folder(folder, sizeof(folder));
	if (uri)
		libvirt_pid_file(uri, d->name, folder, path, sizeof(path));
	free(uri);
	libvirt_process_open(d->uuid, path, &d->qemu);
}

int libvirt_domain_open(const char *uri, const char *id, struct libvirt_domain *out,
			struct error *err)
{
	const char *name;
	int ret;

	*out = (struct libvirt_domain){.calling = PTHREAD_MUTEX_INITIALIZER};
	ret = libvirt_lib_load(&out->api, err);
	if (!ret)
		ret = libvirt_connect(uri, out, err);
	if (!ret)
		ret = look_up(out, uri, id, err);
	if (!ret && out->api->domain_uuid(out->domain, out->uuid))
		ret = libvirt_error(out, id, err);
	if (!ret) {
		name = out->api->domain_name(out->domain);
		snprintf(out->name, sizeof(out->name), "%s", name ? name : id);
		ret = check_started(out, err);
	}
	if (!ret)
		find_qemu(out);
	if (ret)
		libvirt_domain_close(out);
	return ret;
}

void libvirt_domain_close(struct libvirt_domain *d)
{
	if (d->domain)
		d->api->domain_free(d->domain);
	if (d->connection)
		d->api->connect_close(d->connection);
	d->domain = NULL;
	d->connection = NULL;
	libvirt_process_close(&d->qemu);
}

static enum libvirt_run_state run_state_of(int state, int reason)
{
	switch (state) {
	case LIBVIRT_DOMAIN_RUNNING:
	case LIBVIRT_DOMAIN_BLOCKED:
		return LIBVIRT_RUNS;
	case LIBVIRT_DOMAIN_PAUSED:
		return reason == LIBVIRT_PAUSED_CRASHED ? LIBVIRT_PANICKED : LIBVIRT_PAUSED;
	case LIBVIRT_DOMAIN_SHUTDOWN:    /* libvirt may start it again, for a reboot */
	case LIBVIRT_DOMAIN_PMSUSPENDED: /* it wakes up with the same memory */
		return LIBVIRT_PAUSED;
	case LIBVIRT_DOMAIN_CRASHED: /* the guest has; QEMU is kept, or dumped before a reset */
		return LIBVIRT_PANICKED;
	default:
		return LIBVIRT_GONE;
	}
}

/* With `calling`. */
static int ask_locked(struct libvirt_domain *d, int *state, int *reason, struct error *err)
{
	*state = LIBVIRT_DOMAIN_SHUTOFF;
	if (!d->api->domain_state(d->domain, state, reason, 0))
		return 0;
	*state = LIBVIRT_DOMAIN_SHUTOFF;
	/* a transient domain is gone when it ends */
	return d->api->last_code() == LIBVIRT_ERR_NO_DOMAIN ? 0 : libvirt_error(d, d->name, err);
}

static int ask_state(struct libvirt_domain *d, int *state, int *reason, struct error *err)
{
	int ret;

	pthread_mutex_lock(&d->calling);
	ret = ask_locked(d, state, reason, err);
	pthread_mutex_unlock(&d->calling);
	return ret;
}

int libvirt_domain_state(struct libvirt_domain *d, enum libvirt_run_state *out, struct error *err)
{
	int state, reason = LIBVIRT_PAUSED_UNKNOWN;
	int ret = ask_state(d, &state, &reason, err);

	*out = run_state_of(state, reason);
	return ret;
}

int libvirt_domain_try_state(struct libvirt_domain *d, enum libvirt_run_state *out,
			     struct error *err)
{
	int state, reason = LIBVIRT_PAUSED_UNKNOWN, ret;

	if (pthread_mutex_trylock(&d->calling))
		return error_set(err, EBUSY, "another thread waits for libvirt");
	ret = ask_locked(d, &state, &reason, err);
	pthread_mutex_unlock(&d->calling);
	*out = run_state_of(state, reason);
	return ret;
}

int libvirt_domain_pause(struct libvirt_domain *d, enum libvirt_pause *out, struct error *err)
{
	int state, reason = LIBVIRT_PAUSED_UNKNOWN;
	int ret = ask_state(d, &state, &reason, err);

	*out = LIBVIRT_PAUSE_OTHERS;
	if (run_state_of(state, reason) == LIBVIRT_RUNS)
		*out = LIBVIRT_PAUSE_NONE;
	else if (state == LIBVIRT_DOMAIN_PAUSED && reason == LIBVIRT_PAUSED_UNKNOWN)
		*out = LIBVIRT_PAUSE_MONITOR;
	return ret;
}

char *libvirt_domain_xml(struct libvirt_domain *d)
{
	char *xml;

	pthread_mutex_lock(&d->calling);
	xml = d->api->domain_xml(d->domain, 0);
	pthread_mutex_unlock(&d->calling);
	return xml;
}

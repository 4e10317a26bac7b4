/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connects to libvirt. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "formats/base/thread.h"
#include "vmm/libvirt/connection/domain.h"

enum {
	CONNECT_S = 10,
	/* a libvirtd that answers nothing for about (count + 1) * interval is given up */
	KEEP_ALIVE_S = 5,
	KEEP_ALIVE_COUNT = 3,
};

/* Appends advice to libvirt's message, which ends with strerror()'s text. */
static void advise_connection(const char *uri, struct error *err)
{
	const char *c = uri ? " -c " : "", *u = uri ? uri : "";
	size_t used = strlen(err->text);
	char *at = err->text + used;
	size_t left = sizeof(err->text) - used;

	if (err->code == EACCES || strstr(err->text, strerror(EACCES)))
		snprintf(at, left, "; run as root, or as a member of the group libvirt");
	else if (strstr(err->text, strerror(ENOENT)) || strstr(err->text, strerror(ECONNREFUSED)))
		snprintf(at, left, "; does libvirtd run on this host?");
	else
		snprintf(at, left, "; does 'virsh%s%.100s list' work?", c, u);
}

bool libvirt_uri_is_local(const char *uri)
{
	size_t scheme = strcspn(uri, ":"), name = strcspn(uri, "+:");
	bool has_transport = name < scheme;

	if (has_transport && strncmp(uri + name, "+unix:", 6) != 0)
		return false;
	return !strncmp(uri + scheme, ":///", 4);
}

static int check_local(struct libvirt_domain *d, struct error *err)
{
	char *uri = d->api->connect_uri(d->connection), text[160];
	int ret = 0;

	if (!uri)
		return libvirt_error(d, "cannot read the connection's URI", err);
	clean_text(text, sizeof(text), uri);
	if (!libvirt_uri_is_local(uri))
		ret = error_set(err, ENOTSUP,
				"%s leads over a network: run sonde on the domain's host, with "
				"qemu:///system or qemu:///session",
				text);
	free(uri);
	return ret;
}

/*
 * A connection in the making. A libvirtd that hangs accepts connections and does not answer, and
 * virConnectOpen() has no timeout: so it is called in a thread, which is left behind then.
 */
struct opening {
	pthread_mutex_t lock;
	pthread_cond_t done_or_given_up;
	const struct libvirt_api *api;
	char *uri; /* NULL: libvirt's default */
	bool done, given_up;
	virConnectPtr connection; /* NULL: *why */
	struct error why;
};

static void free_opening(struct opening *o)
{
	pthread_cond_destroy(&o->done_or_given_up);
	pthread_mutex_destroy(&o->lock);
	free(o->uri);
	free(o);
}

static void connect_now(struct opening *o)
{
	struct libvirt_domain d = {.api = o->api};
	char what[160];

	o->connection = o->api->connect_open(o->uri);
	if (o->connection)
		return;
	snprintf(what, sizeof(what), "cannot connect to %s",
		 o->uri ? o->uri : "the default libvirt");
	libvirt_error(&d, what, &o->why);
	advise_connection(o->uri, &o->why);
}

static void *connect_in_thread(void *arg)
{
	struct opening *o = arg;
	bool given_up;

	connect_now(o);
	pthread_mutex_lock(&o->lock);
	o->done = true;
	given_up = o->given_up;
	pthread_cond_signal(&o->done_or_given_up);
	pthread_mutex_unlock(&o->lock);
	if (given_up && o->connection)
		o->api->connect_close(o->connection);
	if (given_up)
		free_opening(o);
	return NULL;
}

static struct opening *create_opening(const struct libvirt_api *api, const char *uri)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->api = api;
	pthread_mutex_init(&o->lock, NULL);
	thread_cond_init(&o->done_or_given_up);
	o->uri = uri ? strdup(uri) : NULL;
	if (!uri || o->uri)
		return o;
	free_opening(o);
	return NULL;
}

/* False: it is not done yet, and the thread frees it. */
static bool wait_for(struct opening *o)
{
	const uint64_t end = clock_monotonic_ns() + CONNECT_S * UINT64_C(1000000000);
	bool done;

	pthread_mutex_lock(&o->lock);
	while (!o->done && thread_wait_until(&o->done_or_given_up, &o->lock, end))
		;
	done = o->done;
	o->given_up = !done;
	pthread_mutex_unlock(&o->lock);
	return done;
}

static int open_bounded(const char *uri, struct libvirt_domain *d, struct error *err)
{
	struct opening *o = create_opening(d->api, uri);
	pthread_t thread;
	int ret = 0;

	if (!o)
		return error_set(err, ENOMEM, "out of memory");
	if (thread_start(&thread, "sonde-connect", connect_in_thread, o)) {
		free_opening(o);
		return error_set(err, EAGAIN, "cannot start a thread");
	}
	if (!wait_for(o)) {
		pthread_detach(thread);
		return error_set(
			err, ENOTCONN,
			"libvirtd does not answer: nothing within %d s; does 'virsh%s%.100s "
			"list' work?",
			CONNECT_S, uri ? " -c " : "", uri ? uri : "");
	}
	/* a later fork() finds no thread that is about to end, with locks that it holds */
	pthread_join(thread, NULL);
	d->connection = o->connection;
	if (!d->connection) {
		ret = o->why.code == EACCES ? -EACCES : -ENOTCONN;
		if (err)
			*err = o->why;
	}
	free_opening(o);
	return ret;
}

int libvirt_connect(const char *uri, struct libvirt_domain *d, struct error *err)
{
	int ret = open_bounded(uri, d, err);
	const char *type;

	if (ret)
		return ret;
	/* fails where no event loop runs, which has to answer */
	d->api->connect_keep_alive(d->connection, KEEP_ALIVE_S, KEEP_ALIVE_COUNT);
	type = d->api->connect_type(d->connection);
	if (type && !strcasecmp(type, "QEMU"))
		return check_local(d, err);
	return error_set(err, ENOTSUP,
			 "this is libvirt's %s driver: only QEMU's domains can be "
			 "traced, at qemu:///system or qemu:///session",
			 type ? type : "unknown");
}

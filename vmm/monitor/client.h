/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_CLIENT_H
#define SONDE_VMM_MONITOR_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include "formats/base/error.h"

/*
 * One connection of the monitor: bytes in, messages out, both bounded. While a client does not read
 * its replies, no more requests are taken from it; if events then pile up, it is dropped.
 */
struct monitor_client;
struct event_loop;

enum {
	MONITOR_CLIENT_REQUEST_MAX = 1 << 20, /* bytes of one request */
	MONITOR_CLIENT_OUTPUT_HIGH = 1 << 16, /* unread bytes at which requests must wait */
	MONITOR_CLIENT_OUTPUT_MAX = 1 << 20,  /* unread bytes at which an event drops the client */
};

struct monitor_client_ops {
	/* Returns the reply, a new reference or NULL. `message` is NULL if *err says what was
	 * wrong. */
	json_t *(*message)(void *arg, struct monitor_client *client, json_t *message,
			   const struct error *err);
	/* The connection ended; the callee destroys the client. */
	void (*gone)(void *arg, struct monitor_client *client);
	void *arg;
};

/* Takes over fd (non-blocking), also on failure. *ops is copied. Main thread only, as all below. */
int monitor_client_create(struct event_loop *loop, int fd, const struct monitor_client_ops *ops,
			  struct monitor_client **out, struct error *err);

/* Writes what can be written without waiting, and closes. NULL-safe. */
void monitor_client_destroy(struct monitor_client *client);

/* Queue a message, which is taken over (NULL: memory was out, so the client is dropped). */
void monitor_client_send(struct monitor_client *client, json_t *message);

/* As monitor_client_send(), but only once the client is negotiated; the message stays the caller's.
 */
void monitor_client_event(struct monitor_client *client, json_t *event);

/* Whether it has sent qmp_capabilities, before which it may ask nothing else. */
bool monitor_client_negotiated(const struct monitor_client *client);
void monitor_client_set_negotiated(struct monitor_client *client);

#endif

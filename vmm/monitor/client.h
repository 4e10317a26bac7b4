/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_CLIENT_H
#define SONDE_VMM_MONITOR_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include "formats/base/error.h"

/*
 * One connection of the monitor: bytes in, messages out, both bounded. A client that does not read
 * its replies gets no further requests read; if too many events wait for it, it is disconnected.
 */
struct monitor_client;
struct event_loop;

enum {
	MONITOR_CLIENT_REQUEST_MAX = 1 << 20, /* bytes of one request */
	MONITOR_CLIENT_OUTPUT_HIGH = 1 << 16, /* unread bytes at which requests must wait */
	MONITOR_CLIENT_OUTPUT_MAX = 1 << 20,  /* unread bytes at which an event disconnects it */
};

struct monitor_client_ops {
	/* Return the reply, a new reference; NULL without memory, or after monitor_client_defer().
	 * `message` is NULL if it was malformed: *err says why. */
	json_t *(*message)(void *arg, struct monitor_client *client, json_t *message,
			   const struct error *err);
	/* The connection has ended: destroy the client. */
	void (*gone)(void *arg, struct monitor_client *client);
	void *arg;
};

/* Take over fd (non-blocking), also on failure. *ops is copied. All functions: main thread only. */
int monitor_client_create(struct event_loop *loop, int fd, const struct monitor_client_ops *ops,
			  struct monitor_client **out, struct error *err);

/* Write what can be written without waiting, and close. NULL-safe. */
void monitor_client_destroy(struct monitor_client *client);

/* Queue a message, which is taken over. NULL (out of memory) disconnects the client. */
void monitor_client_send(struct monitor_client *client, json_t *message);

/* From the message callback: the reply comes later, by monitor_client_answer(). Until then no
 * further request is read. */
void monitor_client_defer(struct monitor_client *client);
/* As monitor_client_send(), and go on with the client's requests. */
void monitor_client_answer(struct monitor_client *client, json_t *reply);

/* Queue an event, which stays the caller's, if the client has negotiated. */
void monitor_client_event(struct monitor_client *client, json_t *event);

/* Whether the client has sent qmp_capabilities, its first command. */
bool monitor_client_negotiated(const struct monitor_client *client);
void monitor_client_set_negotiated(struct monitor_client *client);

#endif

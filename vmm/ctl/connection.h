/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CTL_CONNECTION_H
#define SONDE_VMM_CTL_CONNECTION_H

#include <jansson.h>
#include "formats/base/error.h"

/*
 * The client's end of QMP, for `sonde ctl`. The peer is not trusted: replies are bounded, each step
 * has a deadline, and control characters in texts for people are replaced.
 */
struct qmp_connection;

/* In bytes: a histogram has as many rows as HIST_MAX_ROWS, of up to three symbols. */
enum { QMP_REPLY_MAX = 128 << 20 };

/*
 * Connect to the socket `path`, read the greeting and negotiate. `timeout_ms` bounds this and each
 * later qmp_execute(). Errors are one line for the user:
 *  -ENOENT, -ECONNREFUSED, -EACCES  no socket, no listener, no permission
 *  -ETIMEDOUT                       the peer does not answer
 *  -EPROTO, -EBADMSG                the peer does not speak QMP
 */
int qmp_connect(const char *path, unsigned int timeout_ms, struct qmp_connection **out,
		struct error *err);
/* NULL-safe. */
void qmp_disconnect(struct qmp_connection *conn);

/*
 * Run one command; `args` (an object) is taken over and may be NULL. *result is a new reference.
 * -EREMOTEIO if the peer refused it: *err has its words, and the place in a text until the next
 * qmp_execute() or qmp_disconnect(); the connection can be used further.
 * Events that come in between are ignored.
 */
int qmp_execute(struct qmp_connection *conn, const char *verb, json_t *args, json_t **result,
		struct error *err);

/* Connect, run one command without arguments, and disconnect. Errors as of these. */
int qmp_query(const char *path, unsigned int timeout_ms, const char *verb, json_t **result,
	      struct error *err);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/ctl/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/text.h"
#include "formats/base/clock.h"
#include "vmm/monitor/socket.h"
#include "vmm/monitor/framer.h"

enum { INPUT_SIZE = 4096 };

struct qmp_connection {
	int fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	unsigned int timeout_ms;
	int64_t deadline_ms; /* of the step in progress, CLOCK_MONOTONIC */
	json_int_t last_id;
	struct qmp_framer framer;
	json_t *refusal; /* the last one, whose text an error may point to; or NULL */
	char input[INPUT_SIZE];
	size_t input_pos, input_len;
};

static int64_t now_ms(void)
{
	return (int64_t)clock_monotonic_ms();
}

static int timed_out(const struct qmp_connection *conn, struct error *err)
{
	return error_set(err, ETIMEDOUT, "no answer from '%s' within %g s: see --timeout",
			 conn->path, conn->timeout_ms / 1000.0);
}

static int wait_for(const struct qmp_connection *conn, short events, struct error *err)
{
	for (;;) {
		struct pollfd pollfd = {.fd = conn->fd, .events = events};
		int64_t left = conn->deadline_ms - now_ms();
		int n = left > 0 ? poll(&pollfd, 1, (int)left) : 0;

		if (n > 0)
			return 0;
		if (!n)
			return timed_out(conn, err);
		if (errno != EINTR)
			return error_set(err, errno, "cannot wait for '%s': %s", conn->path,
					 strerror(errno));
	}
}

static int lost(const struct qmp_connection *conn, int code, struct error *err)
{
	if (!code || code == ECONNRESET || code == EPIPE)
		return error_set(err, ECONNRESET, "'%s' closed the connection", conn->path);
	return error_set(err, code, "lost the connection to '%s': %s", conn->path, strerror(code));
}

static int receive(struct qmp_connection *conn, struct error *err)
{
	ssize_t n;
	int ret = wait_for(conn, POLLIN, err);

	if (ret)
		return ret;
	n = recv(conn->fd, conn->input, sizeof(conn->input), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return lost(conn, n ? errno : 0, err);
	conn->input_pos = 0;
	conn->input_len = (size_t)n;
	return 0;
}

static int read_message(struct qmp_connection *conn, json_t **out, struct error *err)
{
	for (;;) {
		size_t used;
		int ret;

		if (conn->input_pos == conn->input_len) {
			ret = receive(conn, err);
			if (ret)
				return ret;
		}
		ret = qmp_framer_feed(&conn->framer, conn->input + conn->input_pos,
				      conn->input_len - conn->input_pos, &used, out, err);
		conn->input_pos += used;
		if (ret < 0)
			error_prefix(err, "'%s' does not speak QMP: ", conn->path);
		if (ret)
			return ret < 0 ? ret : 0;
		/* A peer that always has more must not keep us beyond the deadline. */
		if (now_ms() >= conn->deadline_ms)
			return timed_out(conn, err);
	}
}

static int send_all(struct qmp_connection *conn, const char *text, struct error *err)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n;
		int ret = wait_for(conn, POLLOUT, err);

		if (ret)
			return ret;
		n = send(conn->fd, text, left, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return lost(conn, errno, err);
		if (n > 0) {
			text += n;
			left -= (size_t)n;
		}
	}
	return 0;
}

/* The peer's own words, fit for a terminal. */
static int refused(struct qmp_connection *conn, json_t *error, struct error *err)
{
	const json_int_t column = json_integer_value(json_object_get(error, "column"));
	const char *desc = json_string_value(json_object_get(error, "desc"));
	struct error scratch;
	struct error *to = err ? err : &scratch;

	error_set(to, EREMOTEIO, "%s", desc ? desc : "refused without a reason");
	clean_line(to->text);
	json_decref(conn->refusal);
	conn->refusal = json_incref(error);
	to->parsed = json_string_value(json_object_get(error, "text"));
	to->column = column > 0 && column <= QMP_REPLY_MAX ? (unsigned int)column : 0;
	return -EREMOTEIO;
}

static int send_request(struct qmp_connection *conn, const char *verb, json_t *args,
			struct error *err)
{
	json_t *request = json_pack("{s:s,s:o*,s:I}", "execute", verb, "arguments", args, "id",
				    ++conn->last_id);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL, *line;
	int ret;

	json_decref(request);
	if (!text)
		return error_set(err, EINVAL, "the command is not valid UTF-8");
	/* in one piece: the peer may close when it has read the last brace of "quit" */
	if (asprintf(&line, "%s\r\n", text) < 0) {
		ret = error_set(err, ENOMEM, "out of memory");
	} else {
		ret = send_all(conn, line, err);
		free(line);
	}
	free(text);
	return ret;
}

/* Whether the message answers the last request; an error without an id can only mean that one. */
static bool answers(const struct qmp_connection *conn, const json_t *message)
{
	const json_t *id = json_object_get(message, "id");

	if (json_object_get(message, "error") && !id)
		return true;
	return json_is_integer(id) && json_integer_value(id) == conn->last_id;
}

int qmp_execute(struct qmp_connection *conn, const char *verb, json_t *args, json_t **result,
		struct error *err)
{
	json_t *message = NULL, *value;
	int ret;

	conn->deadline_ms = now_ms() + conn->timeout_ms;
	ret = send_request(conn, verb, args, err);
	if (!ret)
		ret = read_message(conn, &message, err);
	while (!ret && !answers(conn, message)) {
		json_decref(message);
		message = NULL;
		ret = read_message(conn, &message, err);
	}
	if (ret)
		return ret;
	value = json_object_get(message, "return");
	if (value)
		*result = json_incref(value);
	else
		ret = refused(conn, json_object_get(message, "error"), err);
	json_decref(message);
	return ret;
}

static int greet(struct qmp_connection *conn, struct error *err)
{
	json_t *greeting, *result, *error;
	int ret;

	conn->deadline_ms = now_ms() + conn->timeout_ms;
	ret = read_message(conn, &greeting, err);
	if (ret)
		return ret;
	error = json_object_get(greeting, "error");
	if (error)
		ret = refused(conn, error, err);
	else if (!json_is_object(json_object_get(greeting, "QMP")))
		ret = error_set(err, EPROTO, "'%s' does not speak QMP: its greeting is another",
				conn->path);
	json_decref(greeting);
	if (ret)
		return ret;
	ret = qmp_execute(conn, "qmp_capabilities", NULL, &result, err);
	if (!ret)
		json_decref(result);
	return ret;
}

static int explain_connect(const char *path, int code, struct error *err)
{
	switch (code) {
	case ENOENT:
		return error_set(
			err, code,
			"there is no socket '%s': start sonde run or attach with --monitor %s",
			path, path);
	case ECONNREFUSED:
		return error_set(err, code,
				 "no process listens on '%s', which a sonde that died has left: "
				 "start it again with --monitor %s",
				 path, path);
	case EACCES:
	case EPERM:
		return error_set(err, code, "no permission for '%s': be the user who started sonde",
				 path);
	default:
		return error_set(err, code, "cannot connect to '%s': %s", path, strerror(code));
	}
}

/* Another user's process could make the client believe anything, and be told what it may not. */
static int check_owner(const struct qmp_connection *conn, struct error *err)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return error_set(err, errno, "cannot tell whose '%s' is: %s", conn->path,
				 strerror(errno));
	if (!peer.uid || peer.uid == geteuid())
		return 0;
	return error_set(
		err, EPERM,
		"a process of user %u listens on '%s': only one of yours or root's is trusted",
		peer.uid, conn->path);
}

static int connect_socket(struct qmp_connection *conn, struct error *err)
{
	const struct timeval limit = {.tv_sec = conn->timeout_ms / 1000,
				      .tv_usec = (suseconds_t)(conn->timeout_ms % 1000) * 1000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat st;

	memcpy(address.sun_path, conn->path, sizeof(address.sun_path));
	if (!stat(conn->path, &st) && !S_ISSOCK(st.st_mode))
		return error_set(err, ENOTSOCK, "'%s' is not a socket", conn->path);
	conn->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return error_set(err, errno, "cannot create a socket: %s", strerror(errno));
	setsockopt(conn->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(conn->fd, (struct sockaddr *)&address, sizeof(address)))
		return check_owner(conn, err);
	return errno == EAGAIN ? timed_out(conn, err) : explain_connect(conn->path, errno, err);
}

/* An error that outlives the connection has no text of it. */
static void disconnect_for(struct qmp_connection *conn, struct error *err)
{
	qmp_disconnect(conn);
	if (err)
		err->parsed = NULL;
}

int qmp_connect(const char *path, unsigned int timeout_ms, struct qmp_connection **out,
		struct error *err)
{
	struct qmp_connection *conn = calloc(1, sizeof(*conn));
	struct sockaddr_un address;
	int ret;

	if (!conn)
		return error_set(err, ENOMEM, "out of memory");
	conn->fd = -1;
	conn->timeout_ms = timeout_ms;
	qmp_framer_init(&conn->framer, QMP_REPLY_MAX);
	ret = monitor_socket_address(path, &address, err);
	if (!ret) {
		memcpy(conn->path, address.sun_path, sizeof(conn->path));
		ret = connect_socket(conn, err);
	}
	if (!ret)
		ret = greet(conn, err);
	if (!ret)
		*out = conn;
	else
		disconnect_for(conn, err);
	return ret;
}

void qmp_disconnect(struct qmp_connection *conn)
{
	if (!conn)
		return;
	if (conn->fd >= 0)
		close(conn->fd);
	qmp_framer_deinit(&conn->framer);
	json_decref(conn->refusal);
	free(conn);
}

int qmp_query(const char *path, unsigned int timeout_ms, const char *verb, json_t **result,
	      struct error *err)
{
	struct qmp_connection *conn;
	int ret = qmp_connect(path, timeout_ms, &conn, err);

	if (ret)
		return ret;
	ret = qmp_execute(conn, verb, NULL, result, err);
	disconnect_for(conn, ret ? err : NULL);
	return ret;
}

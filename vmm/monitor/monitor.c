/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/monitor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "vmm/loop/event-loop.h"
#include "vmm/monitor/client.h"
#include "vmm/monitor/socket.h"
#include "vmm/monitor/verbs.h"
#include "vmm/monitor/message.h"

enum { ACCEPT_RETRY_MS = 100 };

struct monitor {
	struct event_loop *loop;
	struct monitor_socket sock;
	struct event_source *listener;
	struct event_source *retry; /* timer: listen again after accept() failed */
	struct monitor_verbs *verbs;
	struct monitor_client *clients[MONITOR_MAX_CLIENTS];
};

static json_t *execute(struct monitor *monitor, struct monitor_client *client,
		       const struct qmp_request *request)
{
	bool negotiates = !strcmp(request->execute, "qmp_capabilities");
	struct error err = {0};
	json_t *result;

	if (negotiates == monitor_client_negotiated(client))
		return qmp_error(QMP_CLASS_NOT_FOUND,
				 negotiates ? "capabilities are negotiated already"
					    : "send qmp_capabilities before other commands",
				 request->id);
	if (!monitor_verbs_has(monitor->verbs, request->execute)) {
		error_set(&err, ENOENT, "there is no command '%.64s'; query-commands lists them",
			  request->execute);
		return qmp_error_from(QMP_CLASS_NOT_FOUND, &err, request->id);
	}
	if (monitor_verbs_run(monitor->verbs, request->execute, request->arguments, &result, &err))
		return qmp_error_from(QMP_CLASS_GENERIC, &err, request->id);
	if (negotiates)
		monitor_client_set_negotiated(client);
	return qmp_return(result, request->id);
}

static json_t *on_message(void *arg, struct monitor_client *client, json_t *message,
			  const struct error *framing)
{
	struct qmp_request request;
	struct error err = {0};

	if (!message)
		return qmp_error_from(QMP_CLASS_GENERIC, framing, NULL);
	if (qmp_request_parse(message, &request, &err))
		return qmp_error_from(QMP_CLASS_GENERIC, &err, request.id);
	return execute(arg, client, &request);
}

static void on_gone(void *arg, struct monitor_client *client)
{
	struct monitor *monitor = arg;

	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++) {
		if (monitor->clients[i] == client)
			monitor->clients[i] = NULL;
	}
	monitor_client_destroy(client);
}

/* One line instead of the greeting, as far as the socket takes it without waiting. */
static void refuse(int fd, const char *why)
{
	json_t *reply = qmp_error(QMP_CLASS_GENERIC, why, NULL);
	char *text = json_dumps(reply, JSON_COMPACT);

	if (text) {
		struct iovec parts[] = {{text, strlen(text)}, {(char[]){"\r\n"}, 2}};
		struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};

		if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			shutdown(fd, SHUT_RDWR);
	}
	free(text);
	json_decref(reply);
	close(fd);
}

static struct monitor_client **free_slot(struct monitor *monitor)
{
	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++) {
		if (!monitor->clients[i])
			return &monitor->clients[i];
	}
	return NULL;
}

static void add_client(struct monitor *monitor, int fd)
{
	const struct monitor_client_ops ops = {
		.message = on_message, .gone = on_gone, .arg = monitor};
	struct monitor_client **slot = free_slot(monitor);

	if (!slot)
		refuse(fd, "the monitor has as many clients as it takes: disconnect one first");
	else if (!monitor_client_create(monitor->loop, fd, &ops, slot, NULL))
		monitor_client_send(*slot, qmp_greeting());
}

static void on_connect(void *arg, int listener, uint32_t events)
{
	struct monitor *monitor = arg;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0) {
		add_client(monitor, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
		/* The connection stays pending, and level-triggered polling would spin on it. */
		event_loop_set_events(monitor->listener, 0, NULL);
		event_timer_arm(monitor->retry, ACCEPT_RETRY_MS);
	}
}

static void on_retry(void *arg)
{
	struct monitor *monitor = arg;

	event_loop_set_events(monitor->listener, EPOLLIN, NULL);
}

static int watch_listener(struct monitor *monitor, struct error *err)
{
	int ret = event_loop_add_timer(monitor->loop, 0, on_retry, monitor, &monitor->retry, err);

	if (ret)
		return ret;
	return event_loop_add_fd(monitor->loop, monitor->sock.fd, EPOLLIN, on_connect, monitor,
				 &monitor->listener, err);
}

int monitor_create(struct event_loop *loop, const char *path, struct monitor **out,
		   struct error *err)
{
	struct monitor *monitor = calloc(1, sizeof(*monitor));
	int ret;

	if (!monitor)
		return error_set(err, ENOMEM, "out of memory for the monitor");
	monitor->loop = loop;
	ret = monitor_socket_open(path, &monitor->sock, err);
	if (ret) {
		free(monitor);
		return ret;
	}
	monitor->verbs = monitor_verbs_create();
	if (!monitor->verbs)
		ret = error_set(err, ENOMEM, "out of memory for the monitor");
	if (!ret)
		ret = monitor_verbs_self_register(monitor, monitor->verbs, err);
	if (!ret)
		ret = watch_listener(monitor, err);
	if (ret)
		monitor_destroy(monitor);
	else
		*out = monitor;
	return ret;
}

void monitor_destroy(struct monitor *monitor)
{
	if (!monitor)
		return;
	event_source_remove(monitor->listener);
	event_source_remove(monitor->retry);
	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++)
		monitor_client_destroy(monitor->clients[i]);
	monitor_verbs_destroy(monitor->verbs);
	monitor_socket_close(&monitor->sock);
	free(monitor);
}

int monitor_register(struct monitor *monitor, const struct monitor_verb *verb, void *ctx,
		     struct error *err)
{
	return monitor_verbs_add(monitor->verbs, verb, ctx, err);
}

int monitor_register_all(struct monitor *monitor, const struct monitor_verb *verbs, size_t n,
			 void *ctx, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = monitor_register(monitor, &verbs[i], ctx, err);
	return ret;
}

void monitor_event(struct monitor *monitor, const char *name, json_t *data)
{
	json_t *event = qmp_event(name, data);

	for (size_t i = 0; event && i < MONITOR_MAX_CLIENTS; i++) {
		if (monitor->clients[i])
			monitor_client_event(monitor->clients[i], event);
	}
	json_decref(event);
}

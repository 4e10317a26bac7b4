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
#include "vmm/monitor/job.h"
#include "vmm/monitor/socket.h"
#include "vmm/monitor/message.h"

enum { ACCEPT_RETRY_MS = 100 };

/* A connection, and the verb that it waits for. */
struct slot {
	struct monitor *monitor;
	struct monitor_client *client; /* NULL: free */
	struct monitor_job *job;       /* or NULL */
	json_t *id;                    /* of its request; or NULL */
};

struct monitor {
	struct event_loop *loop;
	const struct monitor_target *target;
	struct monitor_socket sock;
	struct event_source *listener;
	struct event_source *retry; /* timer: listen again after accept() failed */
	struct monitor_verbs *verbs;
	struct slot slots[MONITOR_MAX_CLIENTS];
};

/* --- the verbs of any monitor ---------------------------------------------------------------- */

/* execute() records that the client has negotiated; here only the argument is checked. */
static int qmp_capabilities(struct monitor_call *call, struct error *err)
{
	const json_t *first = json_array_get(json_object_get(call->args, "enable"), 0);

	if (!first)
		return 0;
	return error_set(err, EINVAL, "there is no capability '%.64s'", json_string_value(first));
}

static int query_commands(struct monitor_call *call, struct error *err)
{
	call->result = monitor_verbs_describe(call->verbs, call->target);
	return call->result ? 0 : error_set(err, ENOMEM, "out of memory for the answer");
}

static int query_version(struct monitor_call *call, struct error *err)
{
	(void)err;
	call->result = qmp_version();
	return 0;
}

static const struct monitor_arg capabilities_args[] = {
	{.name = "enable", .type = MONITOR_ARG_STRINGS},
	{0},
};

static const struct monitor_verb own_verbs[] = {
	{.name = "qmp_capabilities",
	 .help = "negotiate capabilities; the first command of a connection",
	 .args = capabilities_args,
	 .run = qmp_capabilities},
	{.name = "query-commands", .help = "list the commands", .run = query_commands},
	{.name = "query-version", .help = "show Sonde's version", .run = query_version},
	{0},
};

int monitor_register(struct monitor *monitor, const struct monitor_verb *verbs, struct error *err)
{
	return monitor_verbs_add(monitor->verbs, verbs, err);
}

static int register_all(struct monitor *monitor, struct error *err)
{
	const struct monitor_verb *const lists[] = {own_verbs, monitor_guest_verbs,
						    monitor_memory_verbs, monitor_trace_verbs};
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(lists) / sizeof(lists[0]); i++)
		ret = monitor_register(monitor, lists[i], err);
	return ret;
}

/* --- requests -------------------------------------------------------------------------------- */

static struct slot *slot_of(struct monitor *monitor, const struct monitor_client *client)
{
	struct slot *slot = monitor->slots;

	while (slot->client != client)
		slot++;
	return slot;
}

static json_t *reply_to(int ret, const struct error *err, json_t *result, json_t *id)
{
	return ret ? qmp_error_from(QMP_CLASS_GENERIC, err, id) : qmp_return(result, id);
}

static void end_job(struct slot *slot)
{
	monitor_job_abandon(slot->job);
	json_decref(slot->id);
	slot->job = NULL;
	slot->id = NULL;
}

static void on_job_over(void *arg)
{
	struct slot *slot = arg;
	struct error err;
	json_t *result, *reply;
	int ret = monitor_job_result(slot->job, &err, &result);

	reply = reply_to(ret, &err, result, slot->id);
	end_job(slot);
	monitor_client_answer(slot->client, reply);
}

/* The reply, if there is no job that will bring it. */
static json_t *run_aside(struct monitor *monitor, struct monitor_client *client,
			 const struct monitor_verb *verb, const struct monitor_call *call,
			 json_t *id)
{
	struct slot *slot = slot_of(monitor, client);
	struct error err;
	int ret = monitor_job_start(monitor->loop, verb, call, on_job_over, slot, &slot->job, &err);

	if (ret)
		return reply_to(ret, &err, NULL, id);
	slot->id = json_incref(id);
	monitor_client_defer(client);
	return NULL;
}

void monitor_end_jobs(struct monitor *monitor)
{
	static const struct error ended = {.code = ECANCELED, .text = "the guest has ended"};

	for (size_t i = 0; monitor && i < MONITOR_MAX_CLIENTS; i++) {
		struct slot *slot = &monitor->slots[i];
		json_t *reply;

		if (!slot->job)
			continue;
		reply = reply_to(-ECANCELED, &ended, NULL, slot->id);
		end_job(slot);
		monitor_client_answer(slot->client, reply);
	}
}

static json_t *execute(struct monitor *monitor, struct monitor_client *client,
		       const struct qmp_request *request)
{
	const struct monitor_verb *verb = monitor_verbs_find(monitor->verbs, request->execute);
	struct monitor_call call = {.monitor = monitor,
				    .target = monitor->target,
				    .verbs = monitor->verbs,
				    .args = request->arguments};
	bool negotiates = !strcmp(request->execute, "qmp_capabilities");
	struct error err = {0};
	int ret;

	if (negotiates == monitor_client_negotiated(client))
		return qmp_error(QMP_CLASS_NOT_FOUND,
				 negotiates ? "capabilities are negotiated already"
					    : "send qmp_capabilities before other commands",
				 request->id);
	if (!verb) {
		error_set(&err, ENOENT, "there is no command '%.64s'; query-commands lists them",
			  request->execute);
		return qmp_error_from(QMP_CLASS_NOT_FOUND, &err, request->id);
	}
	if (verb->aside)
		return run_aside(monitor, client, verb, &call, request->id);
	ret = monitor_verb_run(verb, &call, &err);
	if (!ret && negotiates)
		monitor_client_set_negotiated(client);
	return reply_to(ret, &err, call.result, request->id);
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

/* --- connections ----------------------------------------------------------------------------- */

static void on_gone(void *arg, struct monitor_client *client)
{
	struct slot *slot = slot_of(arg, client);

	end_job(slot);
	slot->client = NULL;
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

static struct slot *free_slot(struct monitor *monitor)
{
	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++) {
		if (!monitor->slots[i].client)
			return &monitor->slots[i];
	}
	return NULL;
}

static void add_client(struct monitor *monitor, int fd)
{
	const struct monitor_client_ops ops = {
		.message = on_message, .gone = on_gone, .arg = monitor};
	struct slot *slot = free_slot(monitor);

	if (!slot)
		refuse(fd, "the monitor has as many clients as it takes: disconnect one first");
	else if (!monitor_client_create(monitor->loop, fd, &ops, &slot->client, NULL))
		monitor_client_send(slot->client, qmp_greeting());
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

int monitor_create(struct event_loop *loop, const char *path, const struct monitor_target *target,
		   struct monitor **out, struct error *err)
{
	struct monitor *monitor = calloc(1, sizeof(*monitor));
	int ret;

	if (!monitor)
		return error_set(err, ENOMEM, "out of memory for the monitor");
	monitor->loop = loop;
	monitor->target = target;
	ret = monitor_socket_open(path, &monitor->sock, err);
	if (ret)
		goto free_monitor;
	monitor->verbs = monitor_verbs_create();
	ret = monitor->verbs ? register_all(monitor, err)
			     : error_set(err, ENOMEM, "out of memory for the monitor");
	if (ret)
		goto close_socket;
	ret = watch_listener(monitor, err);
	if (ret)
		goto close_socket;
	*out = monitor;
	return 0;

close_socket:
	event_source_remove(monitor->retry);
	monitor_verbs_destroy(monitor->verbs);
	monitor_socket_close(&monitor->sock);
free_monitor:
	free(monitor);
	return ret;
}

void monitor_destroy(struct monitor *monitor)
{
	if (!monitor)
		return;
	event_source_remove(monitor->listener);
	event_source_remove(monitor->retry);
	monitor_end_jobs(monitor);
	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++)
		monitor_client_destroy(monitor->slots[i].client);
	monitor_verbs_destroy(monitor->verbs);
	monitor_socket_close(&monitor->sock);
	free(monitor);
}

void monitor_event(struct monitor *monitor, const char *name, json_t *data)
{
	json_t *event;

	if (!monitor) {
		json_decref(data);
		return;
	}
	event = qmp_event(name, data);
	for (size_t i = 0; event && i < MONITOR_MAX_CLIENTS; i++) {
		if (monitor->slots[i].client)
			monitor_client_event(monitor->slots[i].client, event);
	}
	json_decref(event);
}

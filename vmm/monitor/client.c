/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "vmm/loop/event-loop.h"
#include "vmm/monitor/framer.h"

enum { INPUT_SIZE = 4096 };

struct monitor_client {
	struct monitor_client_ops ops;
	int fd;
	struct event_source *source;
	uint32_t watched; /* events asked for now */
	struct qmp_framer framer;
	bool negotiated;
	bool deferred; /* a reply is to come before further requests are read */
	bool eof;      /* no more input will come */
	bool dead;     /* nothing can be sent any more */

	char input[INPUT_SIZE]; /* received, [input_pos, input_len) not yet looked at */
	size_t input_pos, input_len;
	char *output; /* not yet sent */
	size_t output_len;
};

/* Only its own event callback frees a client: the shutdown brings one. */
static void drop(struct monitor_client *client)
{
	client->dead = true;
	shutdown(client->fd, SHUT_RDWR);
}

static void flush(struct monitor_client *client)
{
	size_t sent = 0;

	while (sent < client->output_len && !client->dead) {
		ssize_t n = send(client->fd, client->output + sent, client->output_len - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			drop(client);
	}
	client->output_len -= sent;
	if (client->output_len) {
		memmove(client->output, client->output + sent, client->output_len);
	} else {
		free(client->output);
		client->output = NULL;
	}
}

static void queue(struct monitor_client *client, const char *text)
{
	size_t len = strlen(text);
	char *output = realloc(client->output, client->output_len + len + 2);

	if (!output) {
		drop(client);
		return;
	}
	memcpy(output + client->output_len, text, len);
	memcpy(output + client->output_len + len, "\r\n", 2);
	client->output = output;
	client->output_len += len + 2;
}

/*
 * Input waits while there is too much output, or some is not looked at yet: then writability says
 * when to go on. Both wait for a reply that is to come.
 */
static void watch(struct monitor_client *client)
{
	bool more = client->input_pos < client->input_len;
	bool behind = client->output_len || (more && !client->deferred);
	bool takes = !client->eof && !more && !client->deferred &&
		     client->output_len < MONITOR_CLIENT_OUTPUT_HIGH;
	uint32_t events = (takes ? EPOLLIN : 0) | (behind ? EPOLLOUT : 0);

	if (events == client->watched)
		return;
	client->watched = events;
	if (event_loop_set_events(client->source, events, NULL) < 0)
		drop(client);
}

static void send_json(struct monitor_client *client, const json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);

	if (text)
		queue(client, text);
	else
		drop(client);
	free(text);
}

void monitor_client_send(struct monitor_client *client, json_t *message)
{
	send_json(client, message);
	json_decref(message);
	flush(client);
	watch(client);
}

void monitor_client_defer(struct monitor_client *client)
{
	client->deferred = true;
}

/* The rest of the input is looked at when the socket is writable, which brings a callback. */
void monitor_client_answer(struct monitor_client *client, json_t *reply)
{
	client->deferred = false;
	monitor_client_send(client, reply);
	if (client->eof && client->input_pos == client->input_len && !client->output_len)
		drop(client);
}

void monitor_client_event(struct monitor_client *client, json_t *event)
{
	if (!client->negotiated || client->dead)
		return;
	if (client->output_len > MONITOR_CLIENT_OUTPUT_MAX) {
		drop(client);
		return;
	}
	send_json(client, event);
	flush(client);
	watch(client);
}

static void process(struct monitor_client *client)
{
	while (client->input_pos < client->input_len && !client->dead && !client->deferred &&
	       client->output_len < MONITOR_CLIENT_OUTPUT_HIGH) {
		struct error err = {0};
		json_t *message = NULL, *reply;
		size_t used = 0;
		int ret = qmp_framer_feed(&client->framer, client->input + client->input_pos,
					  client->input_len - client->input_pos, &used, &message,
					  &err);

		client->input_pos += used;
		if (!ret)
			continue;
		reply = client->ops.message(client->ops.arg, client, message, &err);
		json_decref(message);
		if (!client->deferred)
			monitor_client_send(client, reply);
	}
}

static void receive(struct monitor_client *client)
{
	ssize_t n = recv(client->fd, client->input, sizeof(client->input), MSG_DONTWAIT);

	if (n > 0) {
		client->input_pos = 0;
		client->input_len = (size_t)n;
	} else if (!n) {
		client->eof = true;
	} else if (errno != EAGAIN && errno != EINTR) {
		client->dead = true;
	}
}

static void on_events(void *arg, int fd, uint32_t events)
{
	struct monitor_client *client = arg;

	(void)fd;
	flush(client);
	/* A peer that is wholly gone would be reported again and again. */
	if (client->deferred && events & (EPOLLHUP | EPOLLERR))
		client->dead = true;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !client->dead && !client->eof &&
	    client->input_pos == client->input_len)
		receive(client);
	process(client);
	/* A peer that only ended its sending side still gets its replies. */
	if (client->eof && !client->output_len && !client->deferred)
		client->dead = true;
	if (client->dead)
		client->ops.gone(client->ops.arg, client);
	else
		watch(client);
}

int monitor_client_create(struct event_loop *loop, int fd, const struct monitor_client_ops *ops,
			  struct monitor_client **out, struct error *err)
{
	struct monitor_client *client = calloc(1, sizeof(*client));
	int ret;

	if (!client) {
		close(fd);
		return error_set(err, ENOMEM, "out of memory for a monitor client");
	}
	client->ops = *ops;
	client->fd = fd;
	client->watched = EPOLLIN;
	qmp_framer_init(&client->framer, MONITOR_CLIENT_REQUEST_MAX);
	ret = event_loop_add_fd(loop, fd, EPOLLIN, on_events, client, &client->source, err);
	if (ret) {
		close(fd);
		free(client);
		return ret;
	}
	*out = client;
	return 0;
}

void monitor_client_destroy(struct monitor_client *client)
{
	if (!client)
		return;
	flush(client);
	event_source_remove(client->source);
	close(client->fd);
	qmp_framer_deinit(&client->framer);
	free(client->output);
	free(client);
}

bool monitor_client_negotiated(const struct monitor_client *client)
{
	return client->negotiated;
}

void monitor_client_set_negotiated(struct monitor_client *client)
{
	client->negotiated = true;
}

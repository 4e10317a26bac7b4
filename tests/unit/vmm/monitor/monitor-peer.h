/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_MONITOR_MONITOR_PEER_H
#define SONDE_TESTS_UNIT_VMM_MONITOR_MONITOR_PEER_H

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "tests/lib/tap.h"

#define ERROR_REPLY(class, desc) "{\"error\":{\"class\":\"" class "\",\"desc\":\"" desc "\"}}"
#define GENERIC(desc) ERROR_REPLY("GenericError", desc)

/* A client that only knows lines, so that nothing under test reads what is under test. */
struct peer {
	int fd;
	FILE *in;
};

/* Only a failure takes that long; a thread of a machine under load may wait for some seconds. */
enum { PEER_TIMEOUT_S = 60 };

static inline struct peer peer_open(const char *path)
{
	const struct timeval limit = {.tv_sec = PEER_TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct peer peer = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	strcpy(address.sun_path, path);
	setsockopt(peer.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(peer.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(peer.fd, (struct sockaddr *)&address, sizeof(address)))
		tap_diag("connect: %s", strerror(errno));
	peer.in = fdopen(dup(peer.fd), "r");
	return peer;
}

static inline void peer_close(struct peer *peer)
{
	fclose(peer->in);
	close(peer->fd);
}

static inline void say(const struct peer *peer, const char *text)
{
	size_t len = strlen(text);

	while (len) {
		ssize_t n = send(peer->fd, text, len, MSG_NOSIGNAL);

		if (n <= 0) {
			tap_diag("send: %s", strerror(errno));
			return;
		}
		text += n;
		len -= (size_t)n;
	}
}

/* The next line without its end; "" at the end of the connection or after the time limit. */
static inline const char *hear(const struct peer *peer)
{
	static char line[1 << 16];

	if (!fgets(line, sizeof(line), peer->in)) {
		if (ferror(peer->in))
			tap_diag("recv: %s", strerror(errno));
		return "";
	}
	line[strcspn(line, "\r\n")] = 0;
	return line;
}

static inline void asks(const struct peer *peer, const char *request, const char *want)
{
	char name[160];

	snprintf(name, sizeof(name), "the monitor answers %.100s", request);
	name[strcspn(name, "\n")] = '\0';
	say(peer, request);
	is_str(hear(peer), want, name);
}

/* Seconds since an event's time stamp, by the clock it was taken from: time() is up to a tick
 * behind. */
static inline long long age_of(const json_t *stamp)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (long long)now.tv_sec - json_integer_value(json_object_get(stamp, "seconds"));
}

/* An event's name, or the whole line if it is none or has no time stamp of today. */
static inline const char *hear_event(const struct peer *peer)
{
	static char name[64];
	const char *line = hear(peer);
	json_t *event = json_loads(line, 0, NULL);
	const json_t *stamp = json_object_get(event, "timestamp");
	const char *text = json_string_value(json_object_get(event, "event"));
	bool good = text && age_of(stamp) >= 0 && age_of(stamp) < 60 &&
		    json_is_integer(json_object_get(stamp, "microseconds"));

	snprintf(name, sizeof(name), "%s", good ? text : line);
	json_decref(event);
	return name;
}

/* The monitor may not have noticed yet that earlier peers left, so try more than once. */
static inline struct peer peer_greeted(const char *path)
{
	for (int i = 0; i < 100; i++) {
		struct peer peer = peer_open(path);

		if (!strncmp(hear(&peer), "{\"QMP\"", 6))
			return peer;
		peer_close(&peer);
		usleep(1000);
	}
	tap_diag("no greeting");
	exit(1);
}

static inline struct peer peer_negotiated(const char *path)
{
	struct peer peer = peer_greeted(path);

	asks(&peer, "{\"execute\":\"qmp_capabilities\"}", "{\"return\":{}}");
	return peer;
}

#endif

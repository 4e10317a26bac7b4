/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_MONITOR_MONITOR_PEER_H
#define SONDE_TESTS_UNIT_VMM_MONITOR_MONITOR_PEER_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "tests/lib/tap.h"

/* A client that only knows lines, so that nothing under test reads what is under test. */
struct peer {
	int fd;
	FILE *in;
};

/* Only a failure takes that long; a thread of a machine under load may wait for some seconds. */
enum { PEER_TIMEOUT_S = 60 };

static struct peer peer_open(const char *path)
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

static void peer_close(struct peer *peer)
{
	fclose(peer->in);
	close(peer->fd);
}

static void say(const struct peer *peer, const char *text)
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
static const char *hear(const struct peer *peer)
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

static void asks(const struct peer *peer, const char *request, const char *want)
{
	char name[160];

	snprintf(name, sizeof(name), "the monitor answers %.100s", request);
	name[strcspn(name, "\n")] = '\0';
	say(peer, request);
	is_str(hear(peer), want, name);
}

/* The monitor may not have noticed yet that earlier peers left, so try more than once. */
static struct peer peer_greeted(const char *path)
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

static struct peer peer_negotiated(const char *path)
{
	struct peer peer = peer_greeted(path);

	asks(&peer, "{\"execute\":\"qmp_capabilities\"}", "{\"return\":{}}");
	return peer;
}

#endif

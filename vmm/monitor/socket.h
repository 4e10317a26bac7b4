/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_SOCKET_H
#define SONDE_VMM_MONITOR_SOCKET_H

#include <sys/types.h>
#include <sys/un.h>
#include "formats/base/error.h"

/* The listening AF_UNIX stream socket of a monitor and its place in the file system. */
struct monitor_socket {
	int fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev; /* of the name, to remove only what is still ours */
	ino_t ino;
};

/* Fill *out for `path`. -ENAMETOOLONG (the kernel's limit is 107 bytes) or -EINVAL (empty). */
int monitor_socket_address(const char *path, struct sockaddr_un *out, struct error *err);

/*
 * Bind `path` with mode 0600 and listen, non-blocking. A socket that nobody listens on any more is
 * replaced; anything else there is refused: -EADDRINUSE or -EEXIST. Changes the umask for a moment,
 * so call it before there are other threads.
 */
int monitor_socket_open(const char *path, struct monitor_socket *out, struct error *err);

/* Close, and remove the name if it is still the socket that was bound. */
void monitor_socket_close(struct monitor_socket *sock);

#endif

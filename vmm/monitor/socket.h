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
	dev_t dev; /* of the name: another file of that name is not removed */
	ino_t ino;
};

/* Fill *out for `path`. -ENAMETOOLONG (the kernel's limit is 107 bytes) or -EINVAL (empty). */
int monitor_socket_address(const char *path, struct sockaddr_un *out, struct error *err);

/*
 * Bind `path` with mode 0600 and listen, non-blocking. A socket without a listener is replaced.
 * -EADDRINUSE if a process listens there, -EEXIST if it is another kind of file. Changes the umask
 * for a moment: call it before there are threads.
 */
int monitor_socket_open(const char *path, struct monitor_socket *out, struct error *err);

/* Close, and remove the name if it still is the socket that was bound. */
void monitor_socket_close(struct monitor_socket *sock);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 8 };

int monitor_socket_address(const char *path, struct sockaddr_un *out, struct error *err)
{
	size_t len = strlen(path);

	if (!len)
		return error_set(err, EINVAL, "the socket's path is empty");
	if (len >= sizeof(out->sun_path))
		return error_set(err, ENAMETOOLONG,
				 "socket path longer than %zu bytes: %.40s...; use a relative path",
				 sizeof(out->sun_path) - 1, path);
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(out->sun_path, path, len + 1);
	return 0;
}

/* 0 if a process listens there, -EAGAIN if its queue is full, -ECONNREFUSED if none does. */
static int probe(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

static int make_room(const struct sockaddr_un *address, struct error *err)
{
	const char *path = address->sun_path;
	struct stat st;
	int ret;

	if (lstat(path, &st) < 0) {
		if (errno == ENOENT)
			return 0;
		return error_set(err, errno, "cannot create the monitor socket '%s': %s", path,
				 strerror(errno));
	}
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, EEXIST,
				 "'%s' exists and is not a socket: choose another path", path);
	ret = probe(address);
	if (ret != -ECONNREFUSED)
		return error_set(
			err, EADDRINUSE,
			"another process uses the monitor socket '%s': choose another path", path);
	if (unlink(path) < 0)
		return error_set(err, errno, "cannot remove the stale socket '%s': %s", path,
				 strerror(errno));
	return 0;
}

static int bind_private(int fd, const struct sockaddr_un *address)
{
	/* The mode must be right from the first moment, so chmod() afterwards is too late. */
	mode_t mask = umask(0177);
	int ret = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;

	umask(mask);
	return ret;
}

int monitor_socket_open(const char *path, struct monitor_socket *out, struct error *err)
{
	struct sockaddr_un address;
	struct stat st;
	int ret;

	ret = monitor_socket_address(path, &address, err);
	if (!ret)
		ret = make_room(&address, err);
	if (ret)
		return ret;
	out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (out->fd < 0)
		return error_set(err, errno, "cannot create a socket: %s", strerror(errno));
	ret = bind_private(out->fd, &address);
	if (!ret && (listen(out->fd, BACKLOG) < 0 || lstat(path, &st) < 0)) {
		ret = -errno;
		unlink(path);
	}
	if (ret) {
		close(out->fd);
		return error_set(err, -ret, "cannot create the monitor socket '%s': %s", path,
				 strerror(-ret));
	}
	memcpy(out->path, address.sun_path, sizeof(out->path));
	out->dev = st.st_dev;
	out->ino = st.st_ino;
	return 0;
}

void monitor_socket_close(struct monitor_socket *sock)
{
	struct stat st;

	if (!lstat(sock->path, &st) && st.st_dev == sock->dev && st.st_ino == sock->ino)
		unlink(sock->path);
	close(sock->fd);
}

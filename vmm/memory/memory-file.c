// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A tmpfs of our own is made by fsopen() and never attached anywhere; it lives as long as the one
 * file in it. Root may do that right away, everybody else in a user namespace, which a child enters
 * for us: it is for processes with one thread only.
 */
#include "vmm/memory/memory-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_huge_pages(void)
{
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	char text[64] = {0};
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	return n > 0 && !strstr(text, "[never]");
}

static bool configure(int fs)
{
	/* "0" is "no limit": the size is the guest's, not a share of the host's memory. */
	static const char *const options[][2] = {
		{"huge", "within_size"}, {"size", "0"}, {"mode", "0700"}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
			return false;
	return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0;
}

static int open_in_own_tmpfs(void)
{
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int mount, fd = -1;

	if (fs < 0)
		return -1;
	mount = configure(fs) ? fsmount(fs, FSMOUNT_CLOEXEC, 0) : -1;
	if (mount >= 0) {
		fd = openat(mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		close(mount);
	}
	close(fs);
	return fd;
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Be root of a user namespace with nobody else in it (user_namespaces(7)). */
static bool enter_namespace(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", getuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", uids) && write_text("/proc/self/gid_map", gids);
}

union fd_message {
	struct cmsghdr header;
	uint8_t room[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int socket, int fd)
{
	union fd_message control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
					       .cmsg_level = SOL_SOCKET,
					       .cmsg_type = SCM_RIGHTS}};
	struct iovec data = {.iov_base = "", .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	sendmsg(socket, &message, MSG_NOSIGNAL);
}

static int receive_fd(int socket)
{
	union fd_message control = {.room = {0}};
	char byte;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 ||
	    control.header.cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static int open_by_child(void)
{
	int sockets[2], fd = -1;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		fd = enter_namespace() ? open_in_own_tmpfs() : -1;
		if (fd >= 0)
			send_fd(sockets[1], fd);
		_exit(0);
	}
	close(sockets[1]);
	if (child > 0) {
		fd = receive_fd(sockets[0]);
		waitpid(child, NULL, 0);
	}
	close(sockets[0]);
	return fd;
}

static int open_file(void)
{
	int fd = -1;

	if (has_huge_pages()) {
		fd = open_in_own_tmpfs();
		if (fd < 0 && errno == EPERM)
			fd = open_by_child();
	}
	return fd < 0 ? memfd_create("sonde-guest-ram", MFD_CLOEXEC) : fd;
}

int memory_file_create(uint64_t size)
{
	int fd = open_file();
	int code;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		return fd;
	code = errno;
	if (fd >= 0)
		close(fd);
	return -code;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/byte-source.h"

static int check_empty(int dir_fd, const char *dir, struct error *err)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool empty = true;

	if (!entries) {
		int code = errno;

		if (fd >= 0)
			close(fd);
		return error_set(err, code, "%s: %s", dir, strerror(code));
	}
	while (empty && (entry = readdir(entries)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	closedir(entries);
	if (!empty)
		return error_set(err, ENOTEMPTY, "%s: directory not empty; name a new one", dir);
	return 0;
}

/* A descriptor of the directory, or -errno. With a slash behind its name a link is followed. */
static int open_dir(const char *dir, struct error *err)
{
	size_t n = strlen(dir);
	struct stat st;
	char *name;
	int fd;

	while (n > 1 && dir[n - 1] == '/')
		n--;
	name = strndup(dir, n);
	if (!name)
		return error_set(err, ENOMEM, "out of memory");
	fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR && !lstat(name, &st) && S_ISLNK(st.st_mode))
		errno = ELOOP;
	if (fd < 0)
		fd = -errno;
	free(name);
	if (fd == -ELOOP)
		return error_set(err, ELOOP, "%s: a symbolic link; name the directory itself", dir);
	return fd < 0 ? error_set(err, -fd, "%s: %s", dir, strerror(-fd)) : fd;
}

/* Whoever can write to a directory can rename the files in it, and put his own in their place. */
static int check_owner(int dir_fd, const char *dir, struct error *err)
{
	struct stat st;

	if (fstat(dir_fd, &st))
		return error_set(err, errno, "%s: %s", dir, strerror(errno));
	if (st.st_uid && st.st_uid != geteuid())
		return error_set(err, EPERM,
				 "%s: directory of another user (%u), who could replace the trace; "
				 "name a new one",
				 dir, (unsigned int)st.st_uid);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return error_set(err, EPERM,
				 "%s: other users may write to this directory, and could replace "
				 "the trace; name a new one",
				 dir);
	return 0;
}

int output_dir_open(const char *dir, struct error *err)
{
	int fd, ret;

	if (!*dir)
		return error_set(err, EINVAL, "the output has no name; name a directory");
	if (mkdir(dir, 0700) && errno != EEXIST)
		return error_set(err, errno, "%s: cannot create directory: %s", dir,
				 strerror(errno));
	fd = open_dir(dir, err);
	if (fd < 0)
		return fd;
	ret = check_owner(fd, dir, err);
	if (!ret)
		ret = check_empty(fd, dir, err);
	if (!ret && faccessat(fd, ".", W_OK | X_OK, 0))
		ret = error_set(err, errno, "%s: cannot write there: %s", dir, strerror(errno));
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

int output_file_create(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* A second link may be in a directory of another user's. */
static bool is_own(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       st.st_nlink == 1 && !(st.st_mode & (S_IRWXG | S_IRWXO));
}

int output_file_open(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && is_own(fd))
		return fd;
	if (fd >= 0)
		close(fd);
	unlinkat(dir_fd, name, 0);
	return output_file_create(dir_fd, name);
}

int output_file_reopen(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		return fd;
	close(fd);
	return -EPERM;
}

void files_allow_all(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void files_survive_limit(void)
{
	signal(SIGXFSZ, SIG_IGN);
}

bool path_is_stdout(const char *path)
{
	return !strcmp(path, "-");
}

int file_read(int fd, void *bytes, size_t size, struct error *err)
{
	const struct byte_source source = byte_source_file(fd, size);
	ssize_t n = byte_source_fill(&source, bytes, size, 0);

	if (n < 0)
		return error_set(err, (int)-n, "cannot read: %s", strerror((int)-n));
	if ((size_t)n < size)
		return error_set(err, EIO, "became shorter while it was read");
	return 0;
}

int file_write(int fd, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno == EAGAIN)
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		else if (n < 0 && errno != EINTR)
			return -errno;
		from += n < 0 ? 0 : n;
		size -= n < 0 ? 0 : (size_t)n;
	}
	return 0;
}

int file_write_at(int fd, const void *bytes, size_t size, uint64_t offset, size_t *done)
{
	*done = 0;
	while (*done < size) {
		ssize_t n = pwrite(fd, (const uint8_t *)bytes + *done, size - *done,
				   (off_t)(offset + *done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		*done += (size_t)n;
	}
	return 0;
}

/* The temporary file may hold reserved space behind the bytes. */
static int write_whole(int fd, const void *bytes, size_t size, enum file_durability durability)
{
	size_t done;
	int ret = file_write_at(fd, bytes, size, 0, &done);

	if (!ret && ftruncate(fd, (off_t)size))
		ret = -errno;
	if (!ret && durability == FILE_DURABLE && fdatasync(fd) && errno != EINVAL)
		ret = -errno;
	return ret;
}

int file_replace(int dir_fd, const char *name, const char *temp_name, const void *bytes,
		 size_t size, enum file_durability durability)
{
	int fd = output_file_open(dir_fd, temp_name);
	int ret;

	if (fd < 0)
		return fd;
	ret = write_whole(fd, bytes, size, durability);
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && renameat(dir_fd, temp_name, dir_fd, name))
		ret = -errno;
	if (ret)
		unlinkat(dir_fd, temp_name, 0);
	return ret;
}

void file_reserve(int dir_fd, const char *temp_name, size_t bytes)
{
	enum { STEP = 4096 };
	int fd = output_file_open(dir_fd, temp_name);
	size_t at = 0;

	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, (off_t)bytes))
		while (at < bytes && !posix_fallocate(fd, (off_t)at, STEP))
			at += STEP;
	close(fd);
}

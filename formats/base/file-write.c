/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/file-write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

static int open_temp(int dir_fd, const char *temp_name)
{
	return openat(dir_fd, temp_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
}

/* The temporary file may hold reserved space behind the bytes. */
static int write_whole(int fd, const void *bytes, size_t size)
{
	size_t done;
	int ret = file_write_at(fd, bytes, size, 0, &done);

	if (!ret && ftruncate(fd, (off_t)size))
		ret = -errno;
	if (!ret && fdatasync(fd) && errno != EINVAL)
		ret = -errno;
	return ret;
}

int file_replace(int dir_fd, const char *name, const char *temp_name, const void *bytes,
		 size_t size)
{
	int fd = open_temp(dir_fd, temp_name);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write_whole(fd, bytes, size);
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
	int fd = open_temp(dir_fd, temp_name);

	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, (off_t)bytes))
		unlinkat(dir_fd, temp_name, 0);
	close(fd);
}

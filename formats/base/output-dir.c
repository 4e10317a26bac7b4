/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/output-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int output_dir_open(const char *dir, struct error *err)
{
	int fd, ret;

	if (mkdir(dir, 0777) && errno != EEXIST)
		return error_set(err, errno, "%s: cannot create directory: %s", dir,
				 strerror(errno));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "%s: %s", dir, strerror(errno));
	ret = check_empty(fd, dir, err);
	if (!ret && faccessat(fd, ".", W_OK | X_OK, 0))
		ret = error_set(err, errno, "%s: cannot write there: %s", dir, strerror(errno));
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

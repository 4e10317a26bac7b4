/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/trace/sidecar.h"

enum { PATH_SIZE = 64 };

/* --- the file -------------------------------------------------------------------------------- */

/* A hidden name that nothing else has. */
static void make_temp_name(struct export_file *file)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)getpid();
	snprintf(file->temp_name, sizeof(file->temp_name), ".sonde-%016llx.tmp",
		 (unsigned long long)random);
}

/* Some file systems have no files without a name. */
static bool needs_name(int code)
{
	return code == EOPNOTSUPP || code == EISDIR || code == EINVAL;
}

static int open_unnamed(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

static int open_named(struct export_file *file)
{
	int fd;

	make_temp_name(file);
	fd = openat(file->dir_fd, file->temp_name,
		    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	file->temp_name[0] = '\0';
	return -errno;
}

static int open_dir(struct export_file *file)
{
	if (file->dir_fd < 0)
		file->dir_fd = open(file->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return file->dir_fd < 0 ? -errno : 0;
}

static int find_place(struct export_file *file, const char *path)
{
	char *dir = strdup(path), *name = strdup(path);

	file->dir = dir ? strdup(dirname(dir)) : NULL;
	file->name = name ? strdup(basename(name)) : NULL;
	free(dir);
	free(name);
	return file->dir && file->name ? open_dir(file) : -ENOMEM;
}

/* basename() drops what says that a name is a directory's. */
static int check_name(const char *path, struct error *err)
{
	const size_t length = strlen(path);

	if (!length)
		return error_set(err, EINVAL, "the output has no name; name a file");
	if (path[length - 1] == '/')
		return error_set(err, EISDIR, "%s: names a directory; name a file", path);
	return 0;
}

/* A trace has each file that is in its directory, whatever it is called. */
static bool is_in_trace(const struct export_file *file)
{
	return !faccessat(file->dir_fd, SIDECAR_NAME, F_OK, AT_SYMLINK_NOFOLLOW) ||
	       !faccessat(file->dir_fd, SIDECAR_HIDDEN_NAME, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int check_place(const struct export_file *file, const char *path, struct error *err)
{
	struct stat st;

	if (is_in_trace(file))
		return error_set(err, EINVAL,
				 "%s: in the directory of a trace; name a file elsewhere", path);
	if (fstatat(file->dir_fd, file->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : error_set(err, errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return error_set(err, EISDIR, "%s: is a directory; name a file", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "%s: not a regular file", path);
	if (!file->replace)
		return error_set(err, EEXIST, "%s: file exists; add --force to replace it", path);
	return 0;
}

/* Scratch files have a folder of their own, which is not opened if there are none. */
static int open_stdout(struct export_file *file, struct error *err)
{
	const char *scratch = getenv("TMPDIR");

	file->is_stdout = true;
	file->fd = STDOUT_FILENO;
	file->dir = strdup(scratch && *scratch ? scratch : "/tmp");
	file->name = strdup("standard output");
	return file->dir && file->name ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int open_file(struct export_file *file, const char *path, struct error *err)
{
	int ret;

	if (path_is_stdout(path))
		return open_stdout(file, err);
	ret = check_name(path, err);
	if (ret)
		return ret;
	ret = find_place(file, path);
	if (ret)
		return error_set(err, -ret, "%s: cannot write there: %s", path, strerror(-ret));
	ret = check_place(file, path, err);
	if (ret)
		return ret;
	file->fd = open_unnamed(file->dir_fd);
	if (file->fd < 0 && needs_name(-file->fd))
		file->fd = open_named(file);
	if (file->fd < 0)
		return error_set(err, -file->fd, "%s: cannot write there: %s", path,
				 strerror(-file->fd));
	return 0;
}

int export_file_create(const char *path, bool replace, struct export_file **out, struct error *err)
{
	struct export_file *file = calloc(1, sizeof(*file));
	int ret;

	if (!file)
		return error_set(err, ENOMEM, "out of memory");
	file->fd = file->dir_fd = -1;
	file->replace = replace;
	file->buffer = malloc(EXPORT_BUFFER + EXPORT_ROOM);
	ret = file->buffer ? open_file(file, path, err) : error_set(err, ENOMEM, "out of memory");
	if (ret) {
		export_file_destroy(file);
		return ret;
	}
	*out = file;
	return 0;
}

void export_file_destroy(struct export_file *file)
{
	if (!file)
		return;
	if (file->temp_name[0])
		unlinkat(file->dir_fd, file->temp_name, 0);
	if (file->fd >= 0 && file->fd != STDOUT_FILENO)
		close(file->fd);
	if (file->dir_fd >= 0)
		close(file->dir_fd);
	free(file->dir);
	free(file->name);
	free(file->buffer);
	free(file);
}

/* A name for a file without one: the temporary one if the name at last is to replace another's. */
static int name_unnamed(struct export_file *file)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	if (file->replace)
		make_temp_name(file);
	if (linkat(AT_FDCWD, path, file->dir_fd, file->replace ? file->temp_name : file->name,
		   AT_SYMLINK_FOLLOW)) {
		file->temp_name[0] = '\0';
		return -errno;
	}
	return 0;
}

static int take_name(struct export_file *file)
{
	int ret = file->temp_name[0] ? 0 : name_unnamed(file);

	if (ret || !file->temp_name[0])
		return ret;
	if (renameat2(file->dir_fd, file->temp_name, file->dir_fd, file->name,
		      file->replace ? 0 : RENAME_NOREPLACE))
		return -errno;
	file->temp_name[0] = '\0';
	return 0;
}

/* What was gathered goes to standard output, which is what fails from now on. */
static int hand_out(struct export_file *file)
{
	uint64_t at = 0;
	int ret = 0;

	file->is_gathered = false;

	while (!ret && at < file->written) {
		ssize_t n = pread(file->fd, file->buffer, EXPORT_BUFFER, (off_t)at);

		if (n <= 0)
			return n ? -errno : -EIO;
		ret = file_write(STDOUT_FILENO, file->buffer, (size_t)n);
		at += (uint64_t)n;
	}
	return ret;
}

static int keep(struct export_file *file)
{
	if (file->is_gathered)
		return hand_out(file);
	if (file->is_stdout)
		return 0;
	if (fdatasync(file->fd) && errno != EINVAL)
		return -errno;
	return take_name(file);
}

int export_file_will_patch(struct export_file *file, struct error *err)
{
	int fd = file->is_stdout ? export_scratch_file(file, err) : 0;

	if (!file->is_stdout || fd < 0)
		return fd;
	file->fd = fd;
	file->is_gathered = true;
	return 0;
}

int export_file_finish(struct export_file *file, struct error *err)
{
	int ret;

	export_flush(file);
	ret = file->error;
	if (!ret)
		ret = keep(file);
	return ret ? export_file_error(file, ret, err) : 0;
}

int export_file_error(const struct export_file *file, int ret, struct error *err)
{
	if (ret == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	return error_set(err, -ret, "%s: cannot write: %s",
			 file->is_gathered ? file->dir : file->name, strerror(-ret));
}

static int open_scratch(int dir_fd)
{
	struct export_file other = {.dir_fd = dir_fd};
	int fd = open_unnamed(dir_fd);

	if (fd >= 0 || !needs_name(-fd))
		return fd;
	fd = open_named(&other);
	if (fd >= 0)
		unlinkat(dir_fd, other.temp_name, 0);
	return fd;
}

int export_scratch_file(struct export_file *file, struct error *err)
{
	int fd = open_dir(file);

	if (!fd)
		fd = open_scratch(file->dir_fd);
	return fd >= 0 ? fd
		       : error_set(err, -fd, "%s: cannot write there: %s", file->dir,
				   strerror(-fd));
}

/* --- its content ----------------------------------------------------------------------------- */

static int write_buffer(const struct export_file *file)
{
	size_t done;

	if (file->is_stdout && !file->is_gathered)
		return file_write(file->fd, file->buffer, file->used);
	return file_write_at(file->fd, file->buffer, file->used, file->written, &done);
}

void export_flush(struct export_file *file)
{
	if (!file->error && file->used)
		file->error = write_buffer(file);
	file->written += file->used;
	file->used = 0;
}

void export_put(struct export_file *file, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	while (size) {
		size_t n = size < EXPORT_ROOM ? size : EXPORT_ROOM;
		uint8_t *at = export_room(file);

		memcpy(at, from, n);
		export_took(file, at + n);
		from += n;
		size -= n;
	}
}

void export_text(struct export_file *file, const char *text)
{
	export_put(file, text, strlen(text));
}

void export_printf(struct export_file *file, const char *fmt, ...)
{
	uint8_t *at = export_room(file);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf((char *)at, EXPORT_ROOM, fmt, ap);
	va_end(ap);
	export_took(file, at + (n < 0 ? 0 : n < EXPORT_ROOM ? n : EXPORT_ROOM - 1));
}

void export_patch(struct export_file *file, uint64_t offset, const void *bytes, size_t size)
{
	size_t done;

	export_flush(file);
	if (!file->error)
		file->error = file_write_at(file->fd, bytes, size, offset, &done);
}

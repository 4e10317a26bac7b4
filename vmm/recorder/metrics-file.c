/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/metrics-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/base/thread.h"

enum { MODE = 0644 };

struct metrics_file {
	struct disk_thread thread; /* ends when it has nothing to do */
	int dir_fd;                /* -1: of standard output */
	char *name, *temp_name;
	/* With the thread's lock held: */
	char *text; /* to be written; or NULL */
	int code;   /* of the first failure since it was asked for */
};

/* --- writing --------------------------------------------------------------------------------- */

static int write_text(const struct metrics_file *f, const char *text)
{
	size_t done;
	int fd, ret;

	if (f->dir_fd < 0)
		return file_write(STDOUT_FILENO, text, strlen(text));
	/* Left by a process that was killed; never another user's, by O_EXCL. */
	unlinkat(f->dir_fd, f->temp_name, 0);
	fd = openat(f->dir_fd, f->temp_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    MODE);
	if (fd < 0)
		return -errno;
	ret = file_write_at(fd, text, strlen(text), 0, &done);
	if (!ret && fchmod(fd, MODE))
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && renameat(f->dir_fd, f->temp_name, f->dir_fd, f->name))
		ret = -errno;
	if (ret)
		unlinkat(f->dir_fd, f->temp_name, 0);
	return ret;
}

static void free_file(struct metrics_file *f)
{
	if (f->dir_fd >= 0)
		close(f->dir_fd);
	free(f->name);
	free(f->temp_name);
	free(f->text);
	disk_thread_deinit(&f->thread);
	free(f);
}

/* With the lock held, which is let go meanwhile. */
static void write_next(struct metrics_file *f)
{
	char *text = f->text;
	int ret;

	f->text = NULL;
	pthread_mutex_unlock(&f->thread.lock);
	ret = write_text(f, text);
	free(text);
	pthread_mutex_lock(&f->thread.lock);
	if (ret && !f->code)
		f->code = -ret;
}

static void *work(void *arg)
{
	struct metrics_file *f = arg;

	pthread_mutex_lock(&f->thread.lock);
	while (f->text || !f->thread.ending) {
		if (f->text)
			write_next(f);
		else
			pthread_cond_wait(&f->thread.changed, &f->thread.lock);
	}
	if (disk_thread_leave(&f->thread))
		free_file(f);
	return NULL;
}

/* The thread begins with the first text: until then the process may fork. */
void metrics_file_put(struct metrics_file *f, char *text)
{
	int code;

	pthread_mutex_lock(&f->thread.lock);
	free(f->text);
	f->text = text;
	if (!f->thread.started) {
		code = disk_thread_start(&f->thread, "sonde-metrics", work, f);
		f->code = f->code ? f->code : code;
	}
	pthread_cond_broadcast(&f->thread.changed);
	pthread_mutex_unlock(&f->thread.lock);
}

int metrics_file_failure(struct metrics_file *f, struct error *err)
{
	int code;

	pthread_mutex_lock(&f->thread.lock);
	code = f->code;
	f->code = 0;
	pthread_mutex_unlock(&f->thread.lock);
	return code ? error_set(err, code, "%s: cannot write: %s", f->name, strerror(code)) : 0;
}

/* --- life ------------------------------------------------------------------------------------ */

static int open_dir(struct metrics_file *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	char *dir;

	if (path_is_stdout(path)) {
		f->name = strdup("standard output");
		return f->name ? 0 : -ENOMEM;
	}
	dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	f->name = strdup(slash ? slash + 1 : path);
	if (!dir || !f->name || asprintf(&f->temp_name, ".%s.%d", f->name, (int)getpid()) < 0) {
		f->temp_name = NULL;
		free(dir);
		return -ENOMEM;
	}
	f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	if (f->dir_fd < 0)
		return -errno;
	if (!*f->name || (!fstatat(f->dir_fd, f->name, &st, 0) && S_ISDIR(st.st_mode)))
		return -EISDIR;
	return faccessat(f->dir_fd, ".", W_OK | X_OK, AT_EACCESS) ? -errno : 0;
}

int metrics_file_create(const char *path, struct metrics_file **out, struct error *err)
{
	struct metrics_file *f = calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->dir_fd = -1;
	disk_thread_init(&f->thread);
	ret = open_dir(f, path);
	if (ret) {
		free_file(f);
		return error_set(err, -ret, "--metrics %s: %s", path, strerror(-ret));
	}
	*out = f;
	return 0;
}

void metrics_file_destroy(struct metrics_file *f)
{
	if (f && disk_thread_end(&f->thread))
		free_file(f);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of a trace are their owner's, also in a directory where others may create files. */
#include "formats/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/tap.h"

static char root[] = "/tmp/test-fs-XXXXXX";
static int dir_fd;

static mode_t mode_of(const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_mode & 07777;
}

static void put(const char *name, mode_t mode, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || fchmod(fd, mode) || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

static bool holds(const char *name, const char *text)
{
	char bytes[64] = "";
	int fd = openat(dir_fd, name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes) - 1);

	if (fd >= 0)
		close(fd);
	return n >= 0 && !strcmp(bytes, text);
}

static void test_directory(void)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/new", root);
	fd = output_dir_open(path, NULL);
	ok(fd >= 0 && !fstat(fd, &st) && (st.st_mode & 07777) == 0700,
	   "a new directory is closed to others, whatever the umask");
	close(fd);
	rmdir(path);
}

/* Whether the directory `name`, which is there, is taken: 0, or -errno. */
static int take(const char *name, struct error *err)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	fd = output_dir_open(path, err);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void test_open_to_others(void)
{
	struct error err = {0};

	if (mkdirat(dir_fd, "there", 0755))
		abort();
	ok(!take("there", &err), "a directory that others may read is taken");
	for (mode_t mode = 0775; mode <= 0777; mode += 2) {
		fchmodat(dir_fd, "there", mode, 0);
		ok(take("there", &err) == -EPERM && strstr(err.text, "other users may write"),
		   "one in which others may rename files (mode %o) is refused", mode);
	}
	fchmodat(dir_fd, "there", 01777, 0);
	ok(!take("there", &err), "with the sticky bit, it is taken");
	fchmodat(dir_fd, "there", 0700, 0);
	if (symlinkat("there", dir_fd, "link"))
		abort();
	ok(take("link", &err) == -ELOOP && strstr(err.text, "a symbolic link"),
	   "a symbolic link to a directory is refused");
	ok(take("link//", &err) == -ELOOP, "also with slashes behind its name");
	ok(!take("there/", &err), "which a directory may have");
	unlinkat(dir_fd, "link", 0);
	unlinkat(dir_fd, "there", AT_REMOVEDIR);
}

static void test_owner(void)
{
	enum { STRANGER = 12345 };
	struct error err = {0};

	if (mkdirat(dir_fd, "there", 0755) || fchownat(dir_fd, "there", STRANGER, STRANGER, 0)) {
		tap_skip("a directory of another user is refused",
			 "only root can give a directory away");
	} else {
		ok(take("there", &err) == -EPERM, "a directory of another user is refused");
		ok(strstr(err.text, "another user (12345)") != NULL, "with the user's number");
	}
	unlinkat(dir_fd, "there", AT_REMOVEDIR);
}

static void test_create(void)
{
	int fd = output_file_create(dir_fd, "new");

	ok(fd >= 0 && mode_of("new") == 0600, "a new file is closed to others");
	close(fd);
	is_u64((uint64_t)-output_file_create(dir_fd, "new"), EEXIST, "no file is created twice");
	ok(!symlinkat("elsewhere", dir_fd, "link") &&
		   output_file_create(dir_fd, "link") == -EEXIST && !mode_of("elsewhere"),
	   "no file is created through a link");
	fd = output_file_reopen(dir_fd, "new");
	ok(fd >= 0, "a file is opened again");
	close(fd);
	unlinkat(dir_fd, "new", 0);
	ok(output_file_reopen(dir_fd, "link") == -ELOOP, "not through a link");
	ok(output_file_reopen(dir_fd, "new") == -ENOENT, "nor is it made anew");
	unlinkat(dir_fd, "link", 0);
}

static void test_no_name(void)
{
	struct error err;

	ok(output_dir_open("", &err) == -EINVAL &&
		   !strcmp(err.text, "the output has no name; name a directory"),
	   "an empty name is no directory's");
}

static void test_limit(void)
{
	struct rlimit old, limit;

	getrlimit(RLIMIT_NOFILE, &old);
	limit = (struct rlimit){.rlim_cur = 50, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_NOFILE, &limit);
	files_allow_all();
	getrlimit(RLIMIT_NOFILE, &limit);
	ok(limit.rlim_cur == limit.rlim_max, "as many files are allowed as the system permits");
	setrlimit(RLIMIT_NOFILE, &old);
}

/* In a process of its own, as the signal would end this one. Exits with the errno. */
static void write_too_much(void)
{
	const struct rlimit limit = {.rlim_cur = 10, .rlim_max = 10};
	size_t done;

	signal(SIGXFSZ, SIG_DFL);
	files_survive_limit();
	setrlimit(RLIMIT_FSIZE, &limit);
	_exit(-file_write_at(output_file_create(dir_fd, "large"), (char[20]){0}, 20, 0, &done));
}

static void test_too_large(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		write_too_much();
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == EFBIG,
	   "a file beyond the limit of its size is an error, and ends no process");
	unlinkat(dir_fd, "large", 0);
}

static void replace(const char *what)
{
	ok(!file_replace(dir_fd, "file", "temp", "new", 3, FILE_DURABLE) && holds("file", "new") &&
		   mode_of("file") == 0600 && holds("victim", "victim"),
	   "a file is replaced, closed to others, although its temporary name is %s", what);
	unlinkat(dir_fd, "temp", 0);
}

static void test_replace(void)
{
	put("victim", 0600, "victim");
	replace("free");
	file_reserve(dir_fd, "temp", 4096);
	replace("reserved");
	put("temp", 0666, "open");
	replace("a file that others can read");
	if (symlinkat("victim", dir_fd, "temp"))
		abort();
	replace("a link to another file");
	if (linkat(dir_fd, "victim", dir_fd, "temp", 0))
		abort();
	replace("a second name of another file");
	if (mkfifoat(dir_fd, "temp", 0600))
		abort();
	replace("a pipe");
	unlinkat(dir_fd, "victim", 0);
	unlinkat(dir_fd, "file", 0);
}

static void test_read(void)
{
	char bytes[8] = "";
	struct error err;
	int fd;

	put("file", 0600, "content");
	fd = openat(dir_fd, "file", O_RDONLY);
	ok(!file_read(fd, bytes, 7, &err) && !strcmp(bytes, "content"), "a file is read");
	ok(!file_read(fd, bytes, 3, &err), "the beginning of a file is read");
	is_u64((uint64_t)-file_read(fd, bytes, 8, &err), EIO,
	       "a file that is too short is refused");
	close(fd);
	unlinkat(dir_fd, "file", 0);
	is_u64((uint64_t)-file_read(-1, bytes, 1, &err), EBADF, "a failed read is reported");
}

int main(void)
{
	umask(0);
	if (!mkdtemp(root))
		abort();
	dir_fd = open(root, O_RDONLY | O_DIRECTORY);
	test_directory();
	test_open_to_others();
	test_owner();
	test_create();
	test_no_name();
	test_limit();
	test_too_large();
	test_replace();
	test_read();
	close(dir_fd);
	rmdir(root);
	return tap_done();
}

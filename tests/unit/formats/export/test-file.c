/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file of an export appears whole or not at all. */
#include "formats/export/file.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static struct scratch dir;

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir.path, name);
	return path;
}

static struct export_file *begin(const char *name, bool replace)
{
	struct export_file *file;

	if (export_file_create(path_of(name), replace, &file, NULL))
		abort();
	return file;
}

static unsigned int count_files(void)
{
	DIR *entries = opendir(dir.path);
	unsigned int n = 0;

	if (!entries)
		abort();
	for (const struct dirent *entry; (entry = readdir(entries));)
		n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	closedir(entries);
	return n;
}

static void holds(const char *name, const char *want, const char *label)
{
	size_t size;
	char *text = file_get(dir.path, name, &size);

	is_str(text, want, label);
	free(text);
}

static void test_whole(void)
{
	struct export_file *file = begin("new", false);
	struct stat st;

	export_text(file, "size 0000, ");
	export_printf(file, "%s %d", "text", 7);
	export_patch(file, 5, "1234", 4);
	is_u64(export_offset(file), 17, "the offset counts what was put");
	is_u64(count_files(), 0, "a file that is being written has no name");
	is_u64((uint64_t)export_file_finish(file, NULL), 0, "it is finished");
	export_file_destroy(file);
	holds("new", "size 1234, text 7", "then it has its name and all that was put");
	is_u64(count_files(), 1, "and nothing else is there");
	ok(!stat(path_of("new"), &st) && (st.st_mode & 07777) == 0600, "it is its owner's only");
}

static void test_large(void)
{
	enum { SIZE = 3 * EXPORT_BUFFER + 5 };
	uint8_t *bytes = malloc(SIZE), *got;
	struct export_file *file = begin("large", false);
	size_t size;

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 ^ i >> 8);
	export_put(file, bytes, SIZE);
	ok(!export_file_finish(file, NULL), "more than the buffer holds is written");
	export_file_destroy(file);
	got = (uint8_t *)file_get(dir.path, "large", &size);
	ok(size == SIZE && !memcmp(got, bytes, SIZE), "and reads back the same");
	free(bytes);
	free(got);
}

static void test_refusals(void)
{
	struct export_file *file;
	struct error err;

	ok(export_file_create(path_of("new"), false, &file, &err) == -EEXIST &&
		   strstr(err.text, "/new: file exists; add --force to replace it"),
	   "a file that exists is refused");
	ok(export_file_create(dir.path, true, &file, &err) == -EISDIR &&
		   strstr(err.text, "is a directory; name a file"),
	   "a directory is refused");
	ok(export_file_create(path_of("none/"), true, &file, &err) == -EISDIR &&
		   strstr(err.text, "/none/: names a directory; name a file") &&
		   access(path_of("none"), F_OK),
	   "so is a name that only a directory can have");
	ok(export_file_create("", false, &file, &err) == -EINVAL &&
		   !strcmp(err.text, "the output has no name; name a file"),
	   "so is an empty name");
	for (int replace = 0; replace <= 1; replace++)
		ok(export_file_create("/dev/null", replace, &file, &err) == -EINVAL &&
			   !strcmp(err.text, "/dev/null: not a regular file"),
		   "a device is refused, whether it might be replaced (%d)", replace);
	ok(export_file_create(path_of("none/new"), false, &file, &err) == -ENOENT &&
		   strstr(err.text, "none/new: cannot write there: No such file"),
	   "a directory that is not there is named");
	for (int hidden = 0; hidden <= 1; hidden++) {
		const char *const sidecar = hidden ? ".sonde.json" : "sonde.json";

		file_put(dir.path, sidecar, "{}", 2);
		ok(export_file_create(path_of("new"), true, &file, &err) == -EINVAL &&
			   strstr(err.text,
				  "/new: in the directory of a trace; name a file elsewhere"),
		   "no file of a trace is replaced (%s)", sidecar);
		unlink(path_of(sidecar));
	}
}

static void test_replace(void)
{
	struct export_file *file = begin("new", true);

	export_text(file, "other");
	export_flush(file);
	holds("new", "size 1234, text 7", "the old file stays while the new one is written");
	export_file_destroy(file);
	holds("new", "size 1234, text 7", "and if the new one is given up");
	file = begin("new", true);
	export_text(file, "other");
	ok(!export_file_finish(file, NULL), "the new one is finished");
	export_file_destroy(file);
	holds("new", "other", "and has replaced the old one");
	is_u64(count_files(), 2, "and nothing else is there");
}

/* Somebody else made the file meanwhile. */
static void test_race(void)
{
	struct export_file *file = begin("race", false);
	struct error err;

	file_put(dir.path, "race", "theirs", 6);
	ok(export_file_finish(file, &err) == -EEXIST, "a file that appeared meanwhile is kept");
	export_file_destroy(file);
	holds("race", "theirs", "with its content");
	unlink(path_of("race"));
}

static void test_killed(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct export_file *file = begin("killed", false);

		export_text(file, "half");
		export_flush(file);
		export_scratch_file(file, NULL);
		raise(SIGKILL);
	}
	ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "an export is killed");
	is_u64(count_files(), 2, "and leaves no file");
}

static void test_full(void)
{
	const struct rlimit small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
	struct rlimit old;
	struct export_file *file = begin("full", false);
	struct error err;

	getrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_IGN);
	export_put(file, (uint8_t[2000]){0}, 2000);
	setrlimit(RLIMIT_FSIZE, &small);
	export_flush(file);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(file->error == -EFBIG, "an error of writing is kept");
	ok(export_file_finish(file, &err) == -EFBIG &&
		   !strcmp(err.text, "full: cannot write: File too large"),
	   "and is reported at the end");
	export_file_destroy(file);
	is_u64(count_files(), 2, "there is no file then");
}

/* Standard output becomes a pipe, until end_pipe(). */
struct piped {
	int saved, fds[2];
};

static struct piped begin_pipe(void)
{
	struct piped p = {.saved = dup(STDOUT_FILENO)};

	fflush(stdout);
	if (p.saved < 0 || pipe(p.fds))
		abort();
	dup2(p.fds[1], STDOUT_FILENO);
	close(p.fds[1]);
	return p;
}

/* What is in it, also with another end of it open. */
static const char *in_pipe(const struct piped *p)
{
	static char text[64];
	int n = 0;

	ioctl(p->fds[0], FIONREAD, &n);
	n = n ? (int)read(p->fds[0], text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void end_pipe(const struct piped *p)
{
	dup2(p->saved, STDOUT_FILENO);
	close(p->saved);
	close(p->fds[0]);
}

static void test_stdout(bool patch)
{
	struct piped p = begin_pipe();
	struct export_file *file;
	char first[64], rest[64];
	int ret;

	if (export_file_create("-", false, &file, NULL) ||
	    (patch && export_file_will_patch(file, NULL)))
		abort();
	export_text(file, "size 0000, ");
	export_flush(file);
	strcpy(first, in_pipe(&p));
	export_text(file, "text");
	if (patch)
		export_patch(file, 5, "1234", 4);
	ret = export_file_finish(file, NULL);
	export_file_destroy(file);
	strcpy(rest, in_pipe(&p));
	end_pipe(&p);
	ok(!ret && access("-", F_OK), "- is standard output, and no file");
	is_str(first, patch ? "" : "size 0000, ",
	       patch ? "what will be patched waits" : "what leaves the buffer is there at once");
	is_str(rest, patch ? "size 1234, text" : "text", "at the end all of it is there");
}

/* Where nothing can be gathered, or only so much. */
static void test_no_scratch(void)
{
	const struct rlimit small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
	char want[256];
	struct export_file *file;
	struct rlimit old;
	struct error err;

	setenv("TMPDIR", path_of("none"), 1);
	if (export_file_create("-", false, &file, NULL))
		abort();
	snprintf(want, sizeof(want), "%s: cannot write there: No such file or directory",
		 path_of("none"));
	ok(export_file_will_patch(file, &err) == -ENOENT && !strcmp(err.text, want),
	   "a missing TMPDIR is named: %s", err.text);
	export_file_destroy(file);
	setenv("TMPDIR", dir.path, 1);
	if (export_file_create("-", false, &file, NULL) || export_file_will_patch(file, NULL))
		abort();
	getrlimit(RLIMIT_FSIZE, &old);
	export_put(file, (uint8_t[2000]){0}, 2000);
	setrlimit(RLIMIT_FSIZE, &small);
	export_flush(file);
	setrlimit(RLIMIT_FSIZE, &old);
	snprintf(want, sizeof(want), "%s: cannot write: File too large", dir.path);
	ok(export_file_finish(file, &err) == -EFBIG && !strcmp(err.text, want),
	   "so is one that is full: %s", err.text);
	export_file_destroy(file);
	unsetenv("TMPDIR");
}

/* Whoever reads it has ended. */
static void test_broken_pipe(void)
{
	struct piped p = begin_pipe();
	struct export_file *file;
	struct error err;
	int ret;

	signal(SIGPIPE, SIG_IGN);
	close(p.fds[0]);
	if (export_file_create("-", false, &file, NULL))
		abort();
	export_text(file, "text");
	ret = export_file_finish(file, &err);
	export_file_destroy(file);
	end_pipe(&p);
	ok(ret == -EPIPE && !strcmp(err.text, "standard output: cannot write: Broken pipe"),
	   "a pipe that nothing reads is an error: %s", err.text);
}

int main(void)
{
	dir = scratch_make();
	test_whole();
	test_large();
	test_refusals();
	test_replace();
	test_race();
	test_killed();
	test_full();
	test_stdout(false);
	test_stdout(true);
	test_broken_pipe();
	test_no_scratch();
	scratch_remove(&dir);
	return tap_done();
}

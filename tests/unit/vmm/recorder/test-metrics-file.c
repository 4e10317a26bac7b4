/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file that is replaced again and again, on a thread. */
#include "vmm/recorder/metrics-file.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { LIMIT_MS = 180000, PAUSE_MS = 5, PIPE_MS = 20000 };

static char *text(const char *from)
{
	char *copy = strdup(from);

	if (!copy)
		abort();
	return copy;
}

static bool await_text(const char *dir, const char *wanted)
{
	for (int ms = 0; ms < LIMIT_MS; ms += PAUSE_MS, clock_wait_ms(PAUSE_MS)) {
		size_t size;
		char *found = file_get(dir, "a.prom", &size);
		bool same = found && !strcmp(found, wanted);

		free(found);
		if (same)
			return true;
	}
	return false;
}

static void test_replace(void)
{
	struct scratch dir = scratch_make();
	struct metrics_file *file = NULL;
	struct error err = {0};
	char path[128];

	snprintf(path, sizeof(path), "%s/a.prom", dir.path);
	ok(!metrics_file_create(path, &file, &err), "a file is named");
	ok(access(path, F_OK), "and not there before its first text");
	metrics_file_put(file, text("one\n"));
	ok(await_text(dir.path, "one\n"), "the first text is written");
	for (int i = 0; i < 100; i++)
		metrics_file_put(file, text(i < 99 ? "more\n" : "last\n"));
	ok(await_text(dir.path, "last\n"), "of many texts the last one stays");
	ok(!metrics_file_failure(file, &err), "without a failure");
	metrics_file_destroy(file);
	scratch_remove(&dir);
}

static void test_failures(void)
{
	struct scratch dir = scratch_make();
	struct metrics_file *file = NULL;
	struct error err = {0};
	char path[128];
	int ret = 0;

	ok(metrics_file_create("/nowhere/a.prom", &file, &err) == -ENOENT &&
		   strstr(err.text, "--metrics /nowhere/a.prom: No such file"),
	   "a directory that is not there is an error at once");
	ok(metrics_file_create("/tmp/", &file, &err) == -EISDIR &&
		   metrics_file_create("/tmp", &file, &err) == -EISDIR,
	   "and so is a directory");
	snprintf(path, sizeof(path), "%s/a.prom", dir.path);
	if (metrics_file_create(path, &file, &err))
		abort();
	scratch_remove(&dir);
	metrics_file_put(file, text("lost\n"));
	for (int ms = 0; !ret && ms < LIMIT_MS; ms += PAUSE_MS, clock_wait_ms(PAUSE_MS))
		ret = metrics_file_failure(file, &err);
	ok(ret == -ENOENT && strstr(err.text, "a.prom: cannot write: No such file"),
	   "a directory that is removed meanwhile is told of");
	ok(!metrics_file_failure(file, &err), "once");
	metrics_file_destroy(file);
}

/* Four bytes, when they come; false: they do not. */
static bool read_text(int fd, char *to)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	return poll(&readable, 1, PIPE_MS) > 0 && read(fd, to, 4) == 4;
}

/* One text after the other. */
static void test_standard_output(void)
{
	struct metrics_file *file = NULL;
	int fds[2], before = dup(STDOUT_FILENO), failure;
	char out[32] = "";
	bool complete;

	fflush(stdout);
	if (pipe(fds) || metrics_file_create("-", &file, NULL))
		abort();
	dup2(fds[1], STDOUT_FILENO);
	metrics_file_put(file, text("one\n"));
	complete = read_text(fds[0], out);
	metrics_file_put(file, text("two\n"));
	complete = complete && read_text(fds[0], out + 4);
	failure = metrics_file_failure(file, NULL);
	metrics_file_destroy(file);
	dup2(before, STDOUT_FILENO);
	close(before);
	ok(!failure && access("-", F_OK), "- is standard output, and no file");
	ok(complete && !strcmp(out, "one\ntwo\n"), "it gets one text after the other");
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	test_replace();
	test_failures();
	test_standard_output();
	return tap_done();
}

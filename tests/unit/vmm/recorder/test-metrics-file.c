/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file that is replaced again and again, on a thread. */
#include "vmm/recorder/metrics-file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { LIMIT_MS = 180000, PAUSE_MS = 5 };

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

int main(void)
{
	test_replace();
	test_failures();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An output named - is standard output, which may be a pipe. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "formats/export/export.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"

enum { CHUNK = 4096, ROOM = 1 << 24 };

typedef int verb_fn(int argc, char **argv);

/* What a verb writes into a pipe; NULL if it fails. The caller frees it. */
static uint8_t *piped(verb_fn *fn, char **argv, size_t *size)
{
	uint8_t *bytes = malloc(ROOM);
	int fds[2], argc = 0, status;
	ssize_t n = 1;
	pid_t pid;

	while (argv[argc])
		argc++;
	fflush(stdout);
	if (!bytes || pipe(fds))
		abort();
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		freopen("/dev/null", "w", stderr);
		close(fds[0]);
		close(fds[1]);
		_exit(fn(argc, argv));
	}
	close(fds[1]);
	for (*size = 0; n > 0 && *size + CHUNK <= ROOM; *size += n > 0 ? (size_t)n : 0)
		n = read(fds[0], bytes + *size, CHUNK);
	close(fds[0]);
	if (waitpid(pid, &status, 0) == pid && !status)
		return bytes;
	free(bytes);
	return NULL;
}

static bool is_file(const char *name, const uint8_t *bytes, size_t size)
{
	size_t got_size;
	uint8_t *got = (uint8_t *)file_get(".", name, &got_size);
	bool same = got && bytes && got_size == size && !memcmp(got, bytes, size);

	free(got);
	return same;
}

static void test_export(const char *format)
{
	char *argv[] = {"convert", "trace", "--to", (char *)format, "-o", "-", NULL};
	uint8_t *bytes;
	size_t size;

	export_make_convert("trace", format, format, NULL);
	bytes = piped(cmd_convert, argv, &size);
	ok(is_file(format, bytes, size) && access("-", F_OK),
	   "%s on standard output is what the file has", format);
	free(bytes);
}

static void test_page(verb_fn *fn, char **argv)
{
	static const char end[] = "</html>\n";
	const size_t length = sizeof(end) - 1;
	size_t size;
	uint8_t *bytes = piped(fn, argv, &size);

	ok(bytes && size > length && !memcmp(bytes, "<!DOCTYPE html>", 15) &&
		   !memcmp(bytes + size - length, end, length) && access("-", F_OK),
	   "%s writes a page to standard output, and nothing else", argv[0]);
	free(bytes);
}

static void test_directories(void)
{
	for (size_t i = 0; trace_encoding_names[i]; i++) {
		char *argv[] = {"convert", "trace", "--to", (char *)trace_encoding_names[i],
				"-o",      "-",     NULL};
		size_t size;

		ok(!piped(cmd_convert, argv, &size) && !size && access("-", F_OK),
		   "a trace in %s is refused, as it is a directory", trace_encoding_names[i]);
	}
}

int main(void)
{
	struct scratch dir = scratch_make();

	if (chdir(dir.path))
		abort();
	export_make("trace");
	for (size_t i = 0; exporter_names[i]; i++)
		test_export(exporter_names[i]);
	test_page(cmd_report, (char *[]){"report", "trace", "--html", "-", NULL});
	test_page(cmd_diff, (char *[]){"diff", "trace", "trace", "--html", "-", NULL});
	test_directories();
	scratch_remove(&dir);
	return tap_done();
}

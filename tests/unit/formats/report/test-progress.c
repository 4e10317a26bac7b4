/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pass over a trace shows its rate and the time left on a terminal, and takes the line away. */
#include "formats/report/progress.h"

#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { BATCH = 1 << 16, EVENTS = 3 * BATCH, ROOM = 4096, LATER_MS = 4000, PATIENCE_MS = 10000 };

static void make_trace(const char *path)
{
	const struct trace_info info = {.mode = "trap"};
	struct trace_writer *writer;

	if (trace_writer_create(path, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL))
		abort();
	for (int64_t i = 0; i < EVENTS; i++) {
		const struct kmem_record record =
			make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000000000 + (uint64_t)i * 64, 0x1000,
				   60, 64, i);

		if (trace_writer_append(writer, 0, &record))
			abort();
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

/* All events with standard error on `fd`, as if the pass had begun LATER_MS earlier. */
static void pass(const char *path, int fd)
{
	const int old = dup(STDERR_FILENO);
	struct trace_reader *reader;
	struct progress progress;
	struct event event;

	if (trace_reader_open(path, &reader, NULL) || dup2(fd, STDERR_FILENO) < 0)
		abort();
	progress_begin(&progress, reader);
	progress.begun_ms -= LATER_MS;
	while (trace_reader_next(reader, &event, NULL) > 0)
		progress_count(&progress, 1);
	progress_end(&progress);
	fflush(stderr);
	dup2(old, STDERR_FILENO);
	close(old);
	trace_reader_close(reader);
}

static bool ends_with(const char *text, const char *end)
{
	const size_t size = strlen(text), n = strlen(end);

	return size >= n && !strcmp(text + size - n, end);
}

/* What comes until `end` does, behind the first byte; the kernel passes on what a terminal was sent
 * in its own time. */
static void take(int fd, const char *end, char text[ROOM])
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	size_t size = 0;
	ssize_t n = 1;

	text[0] = '\0';
	while (n > 0 && size < ROOM - 1 && !(size && ends_with(text + 1, end)) &&
	       poll(&readable, 1, PATIENCE_MS) > 0) {
		n = read(fd, text + size, ROOM - 1 - size);
		size += n > 0 ? (size_t)n : 0;
		text[size] = '\0';
	}
}

static void test_terminal(const char *path)
{
	int host, terminal;
	char text[ROOM];

	if (openpty(&host, &terminal, NULL, NULL, NULL))
		abort();
	pass(path, terminal);
	take(host, "\r\033[K", text);
	if (!ok(!strncmp(text, "\r\033[K65,536 events, ", 19) &&
			strstr(text, " per second, 33 %, ") && strstr(text, " s left"),
		"a terminal has the events, their rate, the share that is done and the time left"))
		tap_diag("%s", text);
	ok(ends_with(text + 1, "\r\033[K"), "at the end the line is erased");
	close(terminal);
	close(host);
}

static void test_pipe(const char *path)
{
	char text[ROOM];
	int ends[2];

	if (pipe(ends))
		abort();
	pass(path, ends[1]);
	close(ends[1]);
	take(ends[0], "", text);
	is_str(text, "", "what is no terminal has no line");
	close(ends[0]);
}

int main(void)
{
	const struct scratch dir = scratch_make();
	char path[128];

	snprintf(path, sizeof(path), "%s/trace", dir.path);
	make_trace(path);
	test_terminal(path);
	test_pipe(path);
	scratch_remove(&dir);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines for a reader who does not read. */
#include "vmm/recorder/messages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/tap.h"

enum { LINES = 100000, LINE_SIZE = 128, FEW = 10, BOUND_MS = 20000, PATIENCE_MS = 100 };

static int ends[2], old;

/* As standard error: a pipe that is full. */
static void begin(void)
{
	static const char text[4096];

	old = dup(STDERR_FILENO);
	if (old < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		abort();
	while (write(ends[1], text, sizeof(text)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	fcntl(ends[0], F_SETFL, 0);
	if (dup2(ends[1], STDERR_FILENO) < 0)
		abort();
	close(ends[1]);
}

static void end(void)
{
	dup2(old, STDERR_FILENO);
	close(old);
	close(ends[0]);
}

static void put_line(struct messages *m, unsigned int number)
{
	char line[LINE_SIZE + 1];

	snprintf(line, sizeof(line), "line %-*u\n", LINE_SIZE - 6, number);
	messages_put(m, line);
}

struct read_lines {
	unsigned int lines, wrong, left_out;
};

static void take_line(struct read_lines *seen, const char *line)
{
	unsigned int thousands, number;

	if (sscanf(line, "sonde test: %u,%u lines were left out", &thousands, &number) == 2) {
		seen->left_out += thousands * 1000 + number;
		return;
	}
	if (sscanf(line, "line %u", &number) != 1)
		return;
	seen->wrong += number != seen->lines + seen->left_out;
	seen->lines++;
}

/* Until the last line has come. */
static struct read_lines read_all(unsigned int last)
{
	FILE *from = fdopen(dup(ends[0]), "r");
	struct read_lines seen = {0};
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	while (from && seen.lines + seen.left_out < last &&
	       (n = getdelim(&line, &size, '\n', from)) > 0) {
		/* zeros of the full pipe are in front of the first one */
		const char *text = memchr(line, 'l', (size_t)n);
		const char *note = memmem(line, (size_t)n, "sonde test", strlen("sonde test"));

		if (note || text)
			take_line(&seen, note ? note : text);
	}
	free(line);
	if (from)
		fclose(from);
	return seen;
}

static void test_full_pipe(void)
{
	struct messages *m = messages_create("test");
	struct read_lines seen;
	uint64_t began;

	begin();
	began = clock_monotonic_ms();
	for (unsigned int i = 0; i < LINES; i++)
		put_line(m, i);
	messages_await(m, PATIENCE_MS);
	ok(clock_monotonic_ms() - began < BOUND_MS, "nobody waits for a reader");
	seen = read_all(LINES);
	ok(seen.lines > LINES / 4 && seen.left_out > 1000 && seen.lines + seen.left_out == LINES,
	   "what is too much is left out, and how much that is is said: %u of %u", seen.left_out,
	   LINES);
	is_u64(seen.wrong, 0, "all others are there, in order");
	messages_await(m, -1);
	for (unsigned int i = 0; i < FEW; i++)
		put_line(m, i);
	seen = read_all(FEW);
	ok(seen.lines == FEW && !seen.wrong && !seen.left_out, "later lines come as ever");
	messages_destroy(m);
	end();
}

/* Its thread hangs for good. */
static void test_end(void)
{
	struct messages *m = messages_create("test");
	uint64_t began;

	begin();
	put_line(m, 0);
	began = clock_monotonic_ms();
	messages_destroy(m);
	ok(clock_monotonic_ms() - began < BOUND_MS, "nor does the end");
	messages_destroy(messages_create("test"));
	end();
}

static void test_progress(void)
{
	struct messages *m = messages_create("test");
	char text[256] = "";
	ssize_t n;

	old = dup(STDERR_FILENO);
	if (old < 0 || pipe2(ends, O_CLOEXEC) || dup2(ends[1], STDERR_FILENO) < 0)
		abort();
	close(ends[1]);
	messages_show_progress(m, "12345", 5);
	messages_await(m, -1);
	messages_show_progress(m, "123", 3);
	messages_await(m, -1);
	messages_put(m, "a line\n");
	messages_clear_progress(m);
	messages_await(m, -1);
	n = read(ends[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	is_str(text, "\r12345\r123  \r   \ra line\n", "a line takes the progress away");
	messages_destroy(m);
	end();
}

int main(void)
{
	test_full_pipe();
	test_end();
	test_progress();
	return tap_done();
}

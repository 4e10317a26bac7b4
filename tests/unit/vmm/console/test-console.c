/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's end of the console: what is put in comes out of a file, a FIFO or a failing device. */
#include "vmm/console/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/lib/tap.h"

enum { RING = 16384, RESERVE = 64, PIPE = 65536 };

static struct event_loop *loop;
static char directory[] = "/tmp/test-console-XXXXXX";
static char path[64];

/* The guest's end. */
static unsigned int times_ready;

static void count_ready(void *device)
{
	(void)device;
	times_ready++;
}

static const struct console_port port = {.output_ready = count_ready};

static unsigned int panics;

/* The guest goes on after the first one, which a user has printed. */
static void on_panic(void *arg)
{
	struct console *const *console = arg;

	if (!panics++)
		for (const char *byte = "Kernel panic - not syncing: true\r"; *byte; byte++)
			console_put(*console, (uint8_t)*byte);
}

static struct console *create(const struct console_config *like)
{
	struct console_config config = *like;
	static struct console *console;
	struct error err = {0};

	console = NULL;
	config.panic = on_panic;
	config.arg = &console;
	panics = times_ready = 0;
	if (event_loop_create(&loop, NULL) || console_create(&config, loop, &port, &console, &err))
		tap_diag("%s", err.text);
	return console;
}

static void destroy(struct console *console)
{
	console_destroy(console);
	event_loop_destroy(loop);
}

static void quit(void *arg)
{
	(void)arg;
	event_loop_quit(loop, 1);
}

/* The loop cannot be run again after this. */
static void run_loop(unsigned int ms)
{
	struct event_source *timer;

	event_loop_add_timer(loop, 0, quit, NULL, &timer, NULL);
	event_timer_arm(timer, ms);
	event_loop_run(loop);
}

static void put(struct console *console, const char *text)
{
	for (; *text; text++)
		console_put(console, (uint8_t)*text);
}

static const char *contents(void)
{
	static char text[256];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void test_file(void)
{
	struct console *console = create(&(struct console_config){.path = path});

	put(console, "hello\n");
	is_str(contents(), "", "output is collected before it is written");
	run_loop(50);
	is_str(contents(), "hello\n", "the event loop writes what was collected");
	put(console, "last");
	console_flush(console);
	is_str(contents(), "hello\nlast", "a flush writes the rest without the event loop");
	is_u64(console_lost(console), 0, "nothing is lost");
	destroy(console);
}

/* Standard output is a pipe that other processes share. */
static void test_standard_output(const char *stdout_path)
{
	struct console *console;
	char text[16] = "";
	int fds[2], before = dup(STDOUT_FILENO), flags;

	if (pipe(fds))
		abort();
	dup2(fds[1], STDOUT_FILENO);
	console = create(&(struct console_config){.path = stdout_path});
	flags = fcntl(STDOUT_FILENO, F_GETFL);
	put(console, "to stdout");
	console_flush(console);
	destroy(console);
	dup2(before, STDOUT_FILENO);
	close(before);
	ok(read(fds[0], text, sizeof(text) - 1) > 0 && !strcmp(text, "to stdout"),
	   "%s the output goes to standard output",
	   stdout_path ? "with the path -" : "without a path");
	ok(!(flags & O_NONBLOCK), "a pipe that is shared stays blocking for the others");
	close(fds[0]);
	close(fds[1]);
}

static void test_bad_path(void)
{
	const struct console_config config = {.path = "/nonexistent/console"};
	struct console *console = NULL;
	struct error err;

	event_loop_create(&loop, NULL);
	ok(console_create(&config, loop, &port, &console, &err) == -ENOENT &&
		   strstr(err.text, config.path),
	   "a console file that cannot be opened is an error with its path");
	event_loop_destroy(loop);
}

static void test_failing_output(void)
{
	struct console *console = create(&(struct console_config){.path = "/dev/full"});

	put(console, "four");
	console_flush(console);
	is_u64(console_lost(console), 4, "output that cannot be written is counted as lost");
	ok(console_put(console, 'x'), "after a failed write the port is not busy");
	is_u64(console_lost(console), 5, "after a failed write all output is counted as lost");
	destroy(console);
}

static void test_discard(void)
{
	struct console *console = create(&(struct console_config){.discard = true});

	put(console, "Kernel panic - not syncing: quietly\n");
	console_flush(console);
	is_u64(console_lost(console), 0, "output that is discarded on purpose is not lost");
	is_str(console_panic(console), "quietly", "discarded output is searched for a panic");
	destroy(console);
}

/* Returns how many bytes went in before the port was busy. */
static size_t fill(struct console *console)
{
	size_t n = 1;

	while (console_put(console, 'z'))
		n++;
	return n;
}

static size_t drain_fifo(int fd)
{
	static char bytes[PIPE];
	size_t sum = 0;
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		sum += (size_t)n;
	return sum;
}

static void test_congestion(void)
{
	char fifo[80];
	struct console *console;
	size_t taken = 0;
	int fd;

	snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
	if (mkfifo(fifo, 0600) || (fd = open(fifo, O_RDONLY | O_NONBLOCK)) < 0)
		abort();
	console = create(&(struct console_config){.path = fifo});
	taken += fill(console);
	is_u64(taken, RING - RESERVE + 1, "the port is busy when 64 bytes of the ring are left");
	for (int i = 0; i < RESERVE - 1; i++)
		console_put(console, 'z');
	is_u64(console_lost(console), 0, "a guest that sends 63 more bytes loses none");
	console_put(console, 'z');
	is_u64(console_lost(console), 1, "a guest that ignores the busy port loses the next byte");
	run_loop(50);
	is_u64(times_ready, 1, "the port is told once that it can send again");
	is_u64(drain_fifo(fd), RING, "the FIFO's reader gets what the ring held");
	destroy(console);
	close(fd);
	unlink(fifo);
}

/* The reader of a full pipe reads nothing for a while. */
static void test_slow_reader(void)
{
	char fifo[80];
	struct console *console;
	unsigned int early;
	int fd;

	snprintf(fifo, sizeof(fifo), "%s/slow", directory);
	if (mkfifo(fifo, 0600) || (fd = open(fifo, O_RDONLY | O_NONBLOCK)) < 0)
		abort();
	console = create(&(struct console_config){.path = fifo});
	for (size_t sent = 0; sent < PIPE; sent += RING / 2) {
		for (int i = 0; i < RING / 2; i++)
			console_put(console, 'a');
		console_flush(console);
	}
	fill(console);
	early = times_ready;
	run_loop(50);
	is_u64(times_ready, early, "the port stays busy while the pipe is full");
	drain_fifo(fd);
	console_flush(console);
	is_u64(times_ready, early + 1, "the port can send again when the pipe has been read");
	is_u64(console_lost(console), 0, "a slow reader loses nothing");
	destroy(console);
	close(fd);
	unlink(fifo);
}

static void panic_is(const char *text, const char *reason, const char *name)
{
	struct console *console = create(&(struct console_config){.discard = true});

	put(console, text);
	is_str(console_panic(console), reason, name);
	destroy(console);
}

static void test_panic(void)
{
	char long_text[400] = "Kernel panic - not syncing: ";
	struct console *console = create(&(struct console_config){.discard = true});

	put(console, "[ 1.0] Kernel panic - not syncing: Attempted to kill init!\r");
	ok(!panics, "the callback is not called on the vCPU's thread");
	run_loop(50);
	is_u64(panics, 2, "the event loop calls the callback, once for each message");
	is_str(console_panic(console), "Attempted to kill init!", "the reason is the first one");
	destroy(console);
	panic_is("no panic\n", NULL, "other text is no panic");
	panic_is("Kernel panic - not sinking: x\n", NULL, "almost the marker is no panic");
	panic_is("KKernel panicKernel panic - not syncing: x\nKernel panic - not syncing: y\n", "x",
		 "false starts are skipped, and the first panic counts");
	panic_is("Kernel panic - not syncing: a\x1b[0m", "a?[0m",
		 "control characters of the reason are replaced");
	console = create(&(struct console_config){.discard = true});
	ok(!console_reported_panic(console), "without a message there is none of a reported panic");
	put(console, "Kernel panic - not syncing: imitated\nKernel panic - not syncing: true\n"
		     "---[ end Kernel panic - not syncing: true ]---\n");
	is_str(console_panic(console), "imitated", "the first message counts at first");
	is_str(console_reported_panic(console), "true",
	       "the last one, of a panic that is reported");
	put(console, "Kernel panic - not syncing: later\n");
	is_str(console_reported_panic(console), "true", "which no later one changes");
	destroy(console);
	memset(long_text + strlen(long_text), 'x', 300);
	console = create(&(struct console_config){.discard = true});
	put(console, long_text);
	is_u64(strlen(console_panic(console)), 159, "a long reason is cut");
	run_loop(20);
	ok(!panics, "the callback waits for the end of the reason's line");
	destroy(console);
}

int main(void)
{
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/out", directory);
	test_file();
	test_standard_output(NULL);
	test_standard_output("-");
	test_bad_path();
	test_failing_output();
	test_discard();
	test_congestion();
	test_slow_reader();
	test_panic();
	unlink(path);
	rmdir(directory);
	return tap_done();
}

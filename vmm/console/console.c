/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/console/console.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/fs.h"

static const char panic_marker[] = "Kernel panic - not syncing: ";

enum {
	PANIC_REASON_SIZE = 160,
	OUTPUT_SIZE = 16384,
	OUTPUT_RESERVE = 64, /* more than a UART's FIFO */
	OUTPUT_DELAY_MS = 2, /* how long a byte may wait for more */
	CONGESTED_DELAY_MS = 20,
	FLUSH_TIMEOUT_MS = 2000,
};

/* What follows the marker on its line. */
struct panic_line {
	bool found;
	bool complete; /* the line has ended */
	size_t length;
	char reason[PANIC_REASON_SIZE]; /* printable, NUL-terminated, cut if longer */
};

/*
 * Finds Linux's "Kernel panic - not syncing: REASON" in what a guest writes to its console, byte by
 * byte, and keeps the first reason and the last one. Needs no symbols and works for any kernel.
 */
struct panic_watch {
	size_t matched;  /* bytes of the marker seen so far */
	uint32_t before; /* the last four bytes */
	bool repeated;   /* the marker is that of a panic's last line, "---[ end Kernel ..." */
	uint64_t ended;  /* lines of messages */
	struct panic_line *line;       /* that the bytes belong to; or NULL */
	struct panic_line first, last; /* `last`: of later ones than the first */
	struct panic_line settled;     /* of these, when the panic had been reported */
};

struct console {
	struct console_config config;
	pthread_mutex_t lock; /* for everything below that vCPU threads touch */
	const struct console_port *port;
	struct event_source *timer;
	struct terminal_input *input;
	int fd; /* -1 = nowhere to write */
	bool owns_fd;
	bool port_busy; /* console_put() has returned false */
	struct panic_watch panic;
	uint64_t panics_reported; /* as many as there were of panic.ended */
	uint64_t lost;
	size_t head, count;
	uint8_t output[OUTPUT_SIZE]; /* ring: vCPUs append, the event loop takes */
};

static void feed_reason(struct panic_watch *watch, uint8_t byte)
{
	struct panic_line *line = watch->line;

	if (byte == '\r' || byte == '\n') {
		line->complete = true;
		watch->ended++;
		watch->line = NULL;
	} else if (line->length + 1 < PANIC_REASON_SIZE) {
		line->reason[line->length++] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
	}
}

static void begin_line(struct panic_watch *watch)
{
	watch->matched = 0;
	if (watch->repeated)
		return;
	watch->line = watch->first.found ? &watch->last : &watch->first;
	*watch->line = (struct panic_line){.found = true};
}

static void watch_for_panic(struct panic_watch *watch, uint8_t byte)
{
	static const uint32_t end_word = 'e' << 24 | 'n' << 16 | 'd' << 8 | ' ';

	if (watch->line) {
		feed_reason(watch, byte);
		return;
	}
	/* 'K' occurs in the marker only at its start, so a mismatch can only restart there. */
	if (byte != (uint8_t)panic_marker[watch->matched])
		watch->matched = 0;
	if (byte == (uint8_t)panic_marker[watch->matched] && !watch->matched++)
		watch->repeated = watch->before == end_word;
	watch->before = watch->before << 8 | byte;
	if (watch->matched == sizeof(panic_marker) - 1)
		begin_line(watch);
}

bool console_put(struct console *console, uint8_t byte)
{
	bool arm = false, room;

	pthread_mutex_lock(&console->lock);
	watch_for_panic(&console->panic, byte);
	if (console->fd >= 0 && console->count < OUTPUT_SIZE) {
		arm = !console->count;
		console->output[(console->head + console->count++) % OUTPUT_SIZE] = byte;
	} else {
		console->lost++;
	}
	arm = arm || console->panic.ended != console->panics_reported;
	room = console->count <= OUTPUT_SIZE - OUTPUT_RESERVE;
	console->port_busy = !room;
	pthread_mutex_unlock(&console->lock);
	if (arm)
		event_timer_arm(console->timer, OUTPUT_DELAY_MS);
	return room;
}

static bool is_writable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};

	return poll(&poll_fd, 1, timeout_ms) > 0;
}

/* The output has failed: what is in the ring, and all that follows, counts as lost. */
static void give_up(struct console *console)
{
	console->lost += console->count;
	console->count = 0;
	if (console->owns_fd)
		close(console->fd);
	console->fd = -1;
}

/* Write the oldest bytes, as many as can be written at once. The caller holds the lock, which is
 * released during write(). Returns whether to call again at once. */
static bool write_chunk(struct console *console, int timeout_ms)
{
	size_t n = OUTPUT_SIZE - console->head;
	ssize_t written;

	if (n > console->count)
		n = console->count;
	if (n > PIPE_BUF)
		n = PIPE_BUF; /* what a pipe that polls writable takes without blocking */
	if (!n)
		return false;
	pthread_mutex_unlock(&console->lock);
	errno = EAGAIN;
	written = is_writable(console->fd, timeout_ms)
			  ? write(console->fd, console->output + console->head, n)
			  : -1;
	pthread_mutex_lock(&console->lock);
	if (written < 0) {
		if (errno != EAGAIN && errno != EINTR)
			give_up(console);
		return errno == EINTR;
	}
	console->head = (console->head + (size_t)written) % OUTPUT_SIZE;
	console->count -= (size_t)written;
	return true;
}

static void drain(struct console *console, int timeout_ms)
{
	bool ready;

	pthread_mutex_lock(&console->lock);
	while (write_chunk(console, timeout_ms))
		;
	ready = console->port_busy && console->count <= OUTPUT_SIZE / 2;
	if (ready)
		console->port_busy = false;
	if (console->count)
		event_timer_arm(console->timer, CONGESTED_DELAY_MS);
	pthread_mutex_unlock(&console->lock);
	if (ready)
		console->port->output_ready(console->port->device);
}

static void on_timer(void *arg)
{
	struct console *console = arg;
	bool report;

	drain(console, 0);
	pthread_mutex_lock(&console->lock);
	report = console->panic.ended != console->panics_reported;
	console->panics_reported = console->panic.ended;
	pthread_mutex_unlock(&console->lock);
	if (report && console->config.panic)
		console->config.panic(console->config.arg);
}

void console_flush(struct console *console)
{
	drain(console, FLUSH_TIMEOUT_MS);
}

/* What can block gets a descriptor of its own, so that O_NONBLOCK does not affect other processes.
 * Not a file: it would be written from its beginning. */
static void open_standard_output(struct console *console)
{
	struct stat st;

	console->fd = STDOUT_FILENO;
	if (fstat(STDOUT_FILENO, &st) < 0 || !(S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)))
		return;
	console->fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	console->owns_fd = console->fd >= 0;
	if (!console->owns_fd)
		console->fd = STDOUT_FILENO;
}

static int open_output(struct console *console, struct error *err)
{
	const char *path = console->config.path;

	console->fd = -1;
	if (console->config.discard)
		return 0;
	if (!path || path_is_stdout(path)) {
		open_standard_output(console);
		return 0;
	}
	/* as a redirection of the shell: links such as /dev/stderr are for this */
	console->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0600);
	if (console->fd < 0)
		return error_set(err, errno, "cannot open the console file %s: %s", path,
				 strerror(errno));
	console->owns_fd = true;
	return 0;
}

int console_create(const struct console_config *config, struct event_loop *loop,
		   const struct console_port *port, struct console **out, struct error *err)
{
	struct console *console = calloc(1, sizeof(*console));
	int ret;

	if (!console)
		return error_set(err, ENOMEM, "out of memory");
	console->config = *config;
	console->port = port;
	pthread_mutex_init(&console->lock, NULL);
	ret = open_output(console, err);
	if (ret)
		goto failed;
	ret = event_loop_add_timer(loop, 0, on_timer, console, &console->timer, err);
	if (ret)
		goto failed;
	if (config->input)
		ret = terminal_input_create(loop, port, config->key, config->arg, &console->input,
					    err);
	if (ret)
		goto failed;
	*out = console;
	return 0;
failed:
	console_destroy(console);
	return ret;
}

void console_destroy(struct console *console)
{
	if (!console)
		return;
	terminal_input_destroy(console->input);
	event_source_remove(console->timer);
	if (console->owns_fd && console->fd >= 0)
		close(console->fd);
	pthread_mutex_destroy(&console->lock);
	free(console);
}

uint64_t console_lost(struct console *console)
{
	uint64_t lost;

	pthread_mutex_lock(&console->lock);
	lost = console->config.discard ? 0 : console->lost;
	pthread_mutex_unlock(&console->lock);
	return lost;
}

const char *console_panic(struct console *console)
{
	bool found;

	pthread_mutex_lock(&console->lock);
	found = console->panic.first.found;
	pthread_mutex_unlock(&console->lock);
	return found ? console->panic.first.reason : NULL;
}

const char *console_reported_panic(struct console *console)
{
	struct panic_watch *watch = &console->panic;

	pthread_mutex_lock(&console->lock);
	if (!watch->settled.found)
		watch->settled = watch->last.found ? watch->last : watch->first;
	pthread_mutex_unlock(&console->lock);
	return watch->settled.found ? watch->settled.reason : NULL;
}

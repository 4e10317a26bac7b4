// SPDX-License-Identifier: GPL-2.0-or-later
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
#include "vmm/console/input.h"
#include "vmm/console/panic-watch.h"

enum {
	OUTPUT_SIZE = 16384,
	OUTPUT_RESERVE = 64, /* more than a UART's FIFO */
	OUTPUT_DELAY_MS = 2, /* how long a byte may wait for more */
	CONGESTED_DELAY_MS = 20,
	FLUSH_TIMEOUT_MS = 2000,
};

struct console {
	struct console_config config;
	pthread_mutex_t lock; /* for everything below that vCPU threads touch */
	struct serial *serial;
	struct event_source *timer;
	struct console_input *input;
	int fd; /* -1 = nowhere to write */
	bool owns_fd;
	bool uart_busy; /* console_put() said that there is no room */
	struct panic_watch panic;
	bool panic_told;
	uint64_t lost;
	size_t head, count;
	uint8_t output[OUTPUT_SIZE]; /* ring: vCPUs append, the event loop takes */
};

bool console_put(struct console *console, uint8_t byte)
{
	bool arm = false, room;

	pthread_mutex_lock(&console->lock);
	panic_watch_feed(&console->panic, byte);
	if (console->fd >= 0 && console->count < OUTPUT_SIZE) {
		arm = !console->count;
		console->output[(console->head + console->count++) % OUTPUT_SIZE] = byte;
	} else {
		console->lost++;
	}
	arm = arm || (console->panic.complete && !console->panic_told);
	room = console->count <= OUTPUT_SIZE - OUTPUT_RESERVE;
	console->uart_busy = !room;
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

/* Nobody to write to any more: count what is lost from here on. */
static void give_up(struct console *console)
{
	console->lost += console->count;
	console->count = 0;
	if (console->owns_fd)
		close(console->fd);
	console->fd = -1;
}

/* Write the oldest bytes, as many as go at once. Called and returns with the lock held, which is
 * not held in write(). Returns whether it may be called again at once. */
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
	ready = console->uart_busy && console->count <= OUTPUT_SIZE / 2;
	if (ready)
		console->uart_busy = false;
	if (console->count)
		event_timer_arm(console->timer, CONGESTED_DELAY_MS);
	pthread_mutex_unlock(&console->lock);
	if (ready)
		serial_output_ready(console->serial);
}

static void on_timer(void *arg)
{
	struct console *console = arg;
	bool tell;

	drain(console, 0);
	pthread_mutex_lock(&console->lock);
	tell = console->panic.complete && !console->panic_told;
	console->panic_told |= tell;
	pthread_mutex_unlock(&console->lock);
	if (tell && console->config.panic)
		console->config.panic(console->config.arg, console->panic.reason);
}

void console_flush(struct console *console)
{
	drain(console, FLUSH_TIMEOUT_MS);
}

/* A descriptor of our own for what can block, so that making it non-blocking affects nobody else.
 * Not for files: they would be written from their beginning. */
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
	if (!path) {
		open_standard_output(console);
		return 0;
	}
	console->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0666);
	if (console->fd < 0)
		return error_set(err, errno, "cannot open the console file %s: %s", path,
				 strerror(errno));
	console->owns_fd = true;
	return 0;
}

int console_create(const struct console_config *config, struct event_loop *loop,
		   struct serial *serial, struct console **out, struct error *err)
{
	struct console *console = calloc(1, sizeof(*console));
	int rc;

	if (!console)
		return error_set(err, ENOMEM, "out of memory");
	console->config = *config;
	console->serial = serial;
	pthread_mutex_init(&console->lock, NULL);
	rc = open_output(console, err);
	if (rc == 0)
		rc = event_loop_add_timer(loop, 0, on_timer, console, &console->timer, err);
	if (rc == 0 && config->input)
		rc = console_input_create(loop, serial, config->key, config->arg, &console->input,
					  err);
	if (rc < 0)
		console_destroy(console);
	else
		*out = console;
	return rc;
}

void console_destroy(struct console *console)
{
	if (!console)
		return;
	console_input_destroy(console->input);
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
	found = console->panic.found;
	pthread_mutex_unlock(&console->lock);
	return found ? console->panic.reason : NULL;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/console/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { INPUT_CHUNK = 256, RETRY_MS = 10 };

/* One shot, or a hung-up pipe would keep the loop busy while the UART is full. */
static const uint32_t input_events = EPOLLIN | EPOLLONESHOT;

struct console_input {
	struct serial *serial;
	struct event_source *readable; /* NULL for files, which cannot be polled */
	struct event_source *timer;
	struct terminal_keys keys;
	void (*key)(void *arg, enum terminal_action action);
	void *arg;
};

static void deliver_keys(struct console_input *input, const uint8_t *bytes, size_t n)
{
	while (n) {
		uint8_t out[INPUT_CHUNK];
		enum terminal_action action;
		size_t n_out;
		size_t used = terminal_keys_feed(&input->keys, bytes, n, out, &n_out, &action);

		serial_receive(input->serial, out, n_out);
		if (action != TERMINAL_NONE && input->key)
			input->key(input->arg, action);
		bytes += used;
		n -= used;
	}
}

/* Read what the UART has room for. Returns false at the end of input. */
static bool read_some(struct console_input *input)
{
	uint8_t bytes[INPUT_CHUNK];
	size_t space = serial_input_space(input->serial);
	ssize_t n;

	if (!space)
		return true;
	n = read(STDIN_FILENO, bytes, space < sizeof(bytes) ? space : sizeof(bytes));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (terminal_is_raw())
		deliver_keys(input, bytes, (size_t)n);
	else
		serial_receive(input->serial, bytes, (size_t)n);
	return n > 0;
}

/* While the UART is full nothing can be done about readable input but to look again later. */
static void pace(struct console_input *input)
{
	bool full = !serial_input_space(input->serial);

	if (input->readable && !full)
		event_loop_set_events(input->readable, input_events, NULL);
	else
		event_timer_arm(input->timer, RETRY_MS);
}

static void on_readable(void *arg, int fd, uint32_t events)
{
	struct console_input *input = arg;

	(void)fd;
	(void)events;
	if (read_some(input)) {
		pace(input);
	} else {
		event_source_remove(input->readable);
		input->readable = NULL;
	}
}

static void on_timer(void *arg)
{
	struct console_input *input = arg;

	if (input->readable || read_some(input))
		pace(input);
}

static int watch(struct console_input *input, struct event_loop *loop, struct error *err)
{
	int rc = event_loop_add_timer(loop, 0, on_timer, input, &input->timer, err);

	if (rc < 0)
		return rc;
	rc = event_loop_add_fd(loop, STDIN_FILENO, input_events, on_readable, input,
			       &input->readable, err);
	if (rc == -EPERM) {
		event_timer_arm(input->timer, RETRY_MS);
		rc = 0;
	}
	return rc;
}

int console_input_create(struct event_loop *loop, struct serial *serial,
			 void (*key)(void *arg, enum terminal_action action), void *arg,
			 struct console_input **out, struct error *err)
{
	struct console_input *input = calloc(1, sizeof(*input));
	int rc = 0;

	if (!input)
		return error_set(err, ENOMEM, "out of memory");
	*input = (struct console_input){.serial = serial, .key = key, .arg = arg};
	if (isatty(STDIN_FILENO) && terminal_enter_raw(STDIN_FILENO, NULL) < 0)
		goto out; /* in the background: reading would stop us */
	if (fcntl(STDIN_FILENO, F_GETFD) >= 0)
		rc = watch(input, loop, err);
out:
	if (rc < 0)
		console_input_destroy(input);
	else
		*out = input;
	return rc;
}

void console_input_destroy(struct console_input *input)
{
	if (!input)
		return;
	event_source_remove(input->readable);
	event_source_remove(input->timer);
	terminal_leave_raw();
	free(input);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/console/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>
#include "vmm/terminal/modes.h"

/* --- escape keys ------------------------------------------------------------------------------ */

static enum terminal_action escape_action(uint8_t key)
{
	switch (key) {
	case 'x':
		return TERMINAL_QUIT;
	case 'c':
		return TERMINAL_MONITOR;
	case 'h':
	case '?':
		return TERMINAL_HELP;
	default:
		return TERMINAL_NONE;
	}
}

size_t terminal_keys_feed(struct terminal_keys *keys, const uint8_t *in, size_t n, uint8_t *out,
			  size_t *n_out, enum terminal_action *action)
{
	*n_out = 0;
	*action = TERMINAL_NONE;
	for (size_t i = 0; i < n; i++) {
		if (!keys->escaped) {
			if (in[i] == TERMINAL_ESCAPE)
				keys->escaped = true;
			else
				out[(*n_out)++] = in[i];
			continue;
		}
		keys->escaped = false;
		if (in[i] == TERMINAL_ESCAPE || in[i] == 'a')
			out[(*n_out)++] = TERMINAL_ESCAPE;
		*action = escape_action(in[i]);
		if (*action != TERMINAL_NONE)
			return i + 1;
	}
	return n;
}

/* --- raw mode --------------------------------------------------------------------------------- */

int terminal_enter_raw(int fd, struct error *err)
{
	struct termios raw;
	int ret;

	if (!isatty(fd) || tcgetpgrp(fd) != getpgrp())
		return error_set(err, ENOTTY, "standard input is not a terminal in the foreground");
	/* first: a signal may come in between */
	ret = terminal_modes_keep(fd, NULL, err);
	if (ret)
		return ret;
	tcgetattr(fd, &raw);
	raw.c_iflag &= ~(unsigned int)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
	raw.c_lflag &= ~(unsigned int)(ECHO | ICANON | IEXTEN | ISIG);
	/* Output processing stays on, so that messages of the host begin at the left margin. */
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (!tcsetattr(fd, TCSANOW, &raw))
		return 0;
	ret = error_set(err, errno, "cannot set terminal modes: %s", strerror(errno));
	terminal_modes_restore();
	return ret;
}

void terminal_leave_raw(void)
{
	terminal_modes_restore();
}

bool terminal_is_raw(void)
{
	return terminal_modes_are_kept();
}

/* --- standard input --------------------------------------------------------------------------- */

enum {
	INPUT_CHUNK = 256,
	MAX_TYPED = 1024, /* what is typed beyond that, while the port is full, is dropped */
	RETRY_MS = 10,
};

/* One shot: a pipe that has hung up would keep the loop busy while the port is full. */
static const uint32_t input_events = EPOLLIN | EPOLLONESHOT;

struct terminal_input {
	const struct console_port *port;
	struct event_source *readable; /* NULL for files, which cannot be polled */
	struct event_source *timer;
	struct terminal_keys keys;
	uint8_t typed[MAX_TYPED]; /* for the guest, whose port was full */
	size_t nr_typed;
	void (*key)(void *arg, enum terminal_action action);
	void *arg;
};

static void push_typed(struct terminal_input *input)
{
	const struct console_port *port = input->port;
	size_t taken = port->receive(port->device, input->typed, input->nr_typed);

	input->nr_typed -= taken;
	memmove(input->typed, input->typed + taken, input->nr_typed);
}

static void type(struct terminal_input *input, const uint8_t *bytes, size_t n)
{
	size_t room = MAX_TYPED - input->nr_typed;

	n = n < room ? n : room;
	memcpy(input->typed + input->nr_typed, bytes, n);
	input->nr_typed += n;
	push_typed(input);
}

static void deliver_keys(struct terminal_input *input, const uint8_t *bytes, size_t n)
{
	while (n) {
		uint8_t out[INPUT_CHUNK];
		enum terminal_action action;
		size_t n_out;
		size_t used = terminal_keys_feed(&input->keys, bytes, n, out, &n_out, &action);

		type(input, out, n_out);
		if (action != TERMINAL_NONE && input->key)
			input->key(input->arg, action);
		bytes += used;
		n -= used;
	}
}

/* Read as much as the port has room for; of a terminal everything, because of the escape keys.
 * Returns false at the end of input. */
static bool read_some(struct terminal_input *input)
{
	uint8_t bytes[INPUT_CHUNK];
	size_t space =
		terminal_is_raw() ? sizeof(bytes) : input->port->input_space(input->port->device);
	ssize_t n;

	if (!space)
		return true;
	n = read(STDIN_FILENO, bytes, space < sizeof(bytes) ? space : sizeof(bytes));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (terminal_is_raw())
		deliver_keys(input, bytes, (size_t)n);
	else
		input->port->receive(input->port->device, bytes, (size_t)n);
	return n > 0;
}

/* While the port is full, poll it. */
static void pace(struct terminal_input *input)
{
	bool full = !input->port->input_space(input->port->device);
	bool read = input->readable && (terminal_is_raw() || !full);

	if (read)
		event_loop_set_events(input->readable, input_events, NULL);
	if (!read || input->nr_typed)
		event_timer_arm(input->timer, RETRY_MS);
}

static void on_readable(void *arg, int fd, uint32_t events)
{
	struct terminal_input *input = arg;

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
	struct terminal_input *input = arg;

	push_typed(input);
	if (input->readable || read_some(input))
		pace(input);
}

static int watch(struct terminal_input *input, struct event_loop *loop, struct error *err)
{
	int ret = event_loop_add_timer(loop, 0, on_timer, input, &input->timer, err);

	if (ret < 0)
		return ret;
	ret = event_loop_add_fd(loop, STDIN_FILENO, input_events, on_readable, input,
				&input->readable, err);
	if (ret == -EPERM) {
		event_timer_arm(input->timer, RETRY_MS);
		ret = 0;
	}
	return ret;
}

int terminal_input_create(struct event_loop *loop, const struct console_port *port,
			  void (*key)(void *arg, enum terminal_action action), void *arg,
			  struct terminal_input **out, struct error *err)
{
	struct terminal_input *input = calloc(1, sizeof(*input));
	int ret = 0;

	if (!input)
		return error_set(err, ENOMEM, "out of memory");
	*input = (struct terminal_input){.port = port, .key = key, .arg = arg};
	if (isatty(STDIN_FILENO) && terminal_enter_raw(STDIN_FILENO, NULL) < 0)
		goto out; /* in the background: a read would stop this process */
	if (fcntl(STDIN_FILENO, F_GETFD) >= 0)
		ret = watch(input, loop, err);
out:
	if (ret < 0)
		terminal_input_destroy(input);
	else
		*out = input;
	return ret;
}

void terminal_input_destroy(struct terminal_input *input)
{
	if (!input)
		return;
	event_source_remove(input->readable);
	event_source_remove(input->timer);
	terminal_leave_raw();
	free(input);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/console/terminal.h"

#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include "tests/lib/tap.h"

static struct terminal_keys keys;
static uint8_t out[64];
static size_t n_out;
static enum terminal_action action;

static size_t feed(const char *text)
{
	return terminal_keys_feed(&keys, (const uint8_t *)text, strlen(text), out, &n_out, &action);
}

static void test_keys(void)
{
	is_u64(feed("ls\r"), 3, "plain text is consumed");
	ok(n_out == 3 && !memcmp(out, "ls\r", 3) && action == TERMINAL_NONE,
	   "plain text is passed on");
	feed("a\x01\x01z");
	ok(n_out == 3 && !memcmp(out, "a\x01z", 3), "Ctrl-a Ctrl-a is a literal Ctrl-a");
	feed("\x01"
	     "a");
	ok(n_out == 1 && out[0] == 1, "Ctrl-a a is a literal Ctrl-a");
	is_u64(feed("q\x01xrest"), 3, "consumption ends with an action");
	ok(n_out == 1 && out[0] == 'q' && action == TERMINAL_QUIT, "Ctrl-a x quits");
	feed("\x01");
	ok(n_out == 0 && action == TERMINAL_NONE, "the escape key alone does nothing");
	feed("c!");
	ok(action == TERMINAL_MONITOR && n_out == 0, "an escape sequence may span two reads");
	feed("\x01h");
	is_u64(action, TERMINAL_HELP, "Ctrl-a h asks for help");
	feed("\x01?");
	is_u64(action, TERMINAL_HELP, "Ctrl-a ? asks for help");
	feed("\x01qw");
	ok(n_out == 1 && out[0] == 'w' && action == TERMINAL_NONE,
	   "an unknown key after Ctrl-a is swallowed");
	feed("x");
	ok(n_out == 1 && action == TERMINAL_NONE, "x without Ctrl-a is an x");
}

static void test_not_a_terminal(void)
{
	int fds[2];

	if (pipe(fds))
		abort();
	is_u64((uint64_t)-terminal_enter_raw(fds[0], NULL), ENOTTY,
	       "a pipe cannot be put into raw mode");
	ok(!terminal_is_raw(), "after the refusal nothing is raw");
	terminal_leave_raw();
	close(fds[0]);
	close(fds[1]);
}

/* --- standard input --------------------------------------------------------------------------- */

/* A guest's end with room for `room` bytes more. The loop ends a little later than it has got what
 * it expects. */
static struct guest_end {
	char bytes[512];
	size_t n, room, expected;
} guest;
static struct event_source *quit_timer;

static size_t receive(void *device, const uint8_t *bytes, size_t n)
{
	size_t taken = n < guest.room ? n : guest.room;

	(void)device;
	memcpy(guest.bytes + guest.n, bytes, taken);
	guest.n += taken;
	guest.room -= taken;
	if (guest.n == guest.expected)
		event_timer_arm(quit_timer, 20);
	return taken;
}

static size_t input_space(void *device)
{
	(void)device;
	return guest.room;
}

static const struct console_port port = {.receive = receive, .input_space = input_space};

static enum terminal_action last_key;

static void on_key(void *arg, enum terminal_action key)
{
	(void)arg;
	last_key = key;
}

static struct event_loop *loop;
static struct terminal_input *input;

static void quit(void *arg)
{
	(void)arg;
	event_loop_quit(loop, 1);
}

static size_t before_growth;

static void grow(void *arg)
{
	(void)arg;
	before_growth = guest.n;
	guest.room = sizeof(guest.bytes) - guest.n;
}

/* Feed standard input to a guest's end with `room`, which gets more room after a while. */
static int feed_stdin(size_t room, size_t expected)
{
	struct event_source *grower;
	int ret;

	guest = (struct guest_end){.room = room, .expected = expected};
	last_key = TERMINAL_NONE;
	event_loop_create(&loop, NULL);
	ret = terminal_input_create(loop, &port, on_key, NULL, &input, NULL);
	if (ret)
		return ret;
	event_loop_add_timer(loop, 0, grow, NULL, &grower, NULL);
	event_loop_add_timer(loop, 0, quit, NULL, &quit_timer, NULL);
	event_timer_arm(grower, 40);
	event_timer_arm(quit_timer, expected ? 5000 : 100);
	event_loop_run(loop);
	return 0;
}

static void end_feeding(void)
{
	terminal_input_destroy(input);
	event_loop_destroy(loop);
	input = NULL;
}

static void set_stdin(int fd)
{
	dup2(fd, STDIN_FILENO);
	close(fd);
}

static void stdin_from_pipe(const char *text)
{
	int fds[2];

	if (pipe(fds) || write(fds[1], text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fds[1]);
	set_stdin(fds[0]);
}

static void test_pipe(void)
{
	stdin_from_pipe("ls\n\x01x");
	is_u64((uint64_t)feed_stdin(100, 5), 0, "a pipe can be standard input");
	ok(guest.n == 5 && !memcmp(guest.bytes, "ls\n\x01x", 5) && last_key == TERMINAL_NONE,
	   "every byte of a pipe goes to the guest, escape keys too");
	end_feeding();
}

static void test_slow_guest(void)
{
	stdin_from_pipe("0123456789");
	feed_stdin(4, 10);
	is_u64(before_growth, 4, "a port with room for four bytes gets four");
	ok(guest.n == 10 && !memcmp(guest.bytes, "0123456789", 10),
	   "the rest follows, in order, when the port has room");
	end_feeding();
}

static void test_regular_file(void)
{
	char path[] = "/tmp/test-terminal-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, "script\n", 7) != 7 || lseek(fd, 0, SEEK_SET))
		abort();
	unlink(path);
	set_stdin(fd);
	feed_stdin(3, 7);
	is_u64(before_growth, 3, "a file is read no faster than the port takes it");
	ok(guest.n == 7 && !memcmp(guest.bytes, "script\n", 7),
	   "a file, which cannot be polled, is read to its end");
	end_feeding();
}

static void test_closed(void)
{
	guest = (struct guest_end){.room = 10};
	event_loop_create(&loop, NULL);
	close(STDIN_FILENO);
	is_u64((uint64_t)terminal_input_create(loop, &port, on_key, NULL, &input, NULL), 0,
	       "a closed standard input is no error");
	end_feeding();
}

/* --- on a terminal of its own, in a child ----------------------------------------------------- */

struct outcome {
	bool was_raw, kept_output, restored, background_refused;
	enum terminal_action key, key_when_full;
	char bytes[8], late_bytes[8];
	size_t room_when_full;
	size_t background_bytes;
};

static bool modes(tcflag_t *local, tcflag_t *output)
{
	struct termios now;

	if (tcgetattr(STDIN_FILENO, &now))
		return false;
	*local = now.c_lflag;
	*output = now.c_oflag;
	return true;
}

static void use_terminal(struct outcome *outcome, int master)
{
	const tcflag_t cooked = ICANON | ECHO | ISIG;
	tcflag_t local, output, before, raw_output;

	if (!modes(&before, &output) || write(master, "a\x01xb", 4) != 4)
		return;
	feed_stdin(100, 2);
	modes(&local, &raw_output);
	outcome->was_raw = terminal_is_raw() && !(local & cooked);
	outcome->kept_output = raw_output == output;
	outcome->key = last_key;
	memcpy(outcome->bytes, guest.bytes, guest.n < 7 ? guest.n : 7);
	end_feeding();
	modes(&local, &raw_output);
	outcome->restored = !terminal_is_raw() && local == before;
}

/* The escape keys work while the guest does not take its input. */
static void use_full(struct outcome *outcome, int master)
{
	if (write(master, "cdef\x01x", 6) != 6)
		return;
	feed_stdin(1, 4);
	outcome->room_when_full = before_growth;
	outcome->key_when_full = last_key;
	memcpy(outcome->late_bytes, guest.bytes, guest.n < 7 ? guest.n : 7);
	end_feeding();
}

/* Another process group has the foreground: a read would stop this process. */
static void use_in_background(struct outcome *outcome, int master)
{
	pid_t other = fork();

	if (other == 0) {
		pause();
		_exit(0);
	}
	signal(SIGTTOU, SIG_IGN);
	setpgid(other, other);
	if (tcsetpgrp(STDIN_FILENO, other) || write(master, "x\r", 2) != 2)
		return;
	outcome->background_refused = terminal_enter_raw(STDIN_FILENO, NULL) == -ENOTTY;
	feed_stdin(100, 0);
	outcome->background_bytes = guest.n;
	end_feeding();
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static void own_a_terminal(struct outcome *outcome)
{
	int master, slave;

	alarm(10);
	outcome->background_bytes = SIZE_MAX;
	if (openpty(&master, &slave, NULL, NULL, NULL) || setsid() < 0 ||
	    ioctl(slave, TIOCSCTTY, 0))
		return;
	set_stdin(slave);
	use_terminal(outcome, master);
	use_full(outcome, master);
	use_in_background(outcome, master);
}

static void test_terminal(void)
{
	struct outcome *outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();

	if (child == 0) {
		own_a_terminal(outcome);
		exit(0);
	}
	waitpid(child, NULL, 0);
	ok(outcome->was_raw, "a terminal is in raw mode while it is read");
	ok(outcome->kept_output, "raw mode leaves output processing on");
	is_u64(outcome->key, TERMINAL_QUIT, "an escape key is reported");
	is_str(outcome->bytes, "ab", "the other keys go to the guest");
	ok(outcome->restored, "the terminal's modes are restored at the end");
	is_u64(outcome->key_when_full, TERMINAL_QUIT,
	       "an escape key is reported while the port is full");
	is_u64(outcome->room_when_full, 1, "a full port gets no more than it takes");
	is_str(outcome->late_bytes, "cdef", "what was typed meanwhile follows, in order");
	ok(outcome->background_refused, "raw mode is refused in the background");
	is_u64(outcome->background_bytes, 0, "in the background nothing is read");
	munmap(outcome, sizeof(*outcome));
}

/* Raw mode ends with the process, also if a fatal signal ends it. */
static void die_raw(int slave, int number)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){0});
	signal(number, SIG_DFL); /* AddressSanitizer has handlers */
	setsid();
	ioctl(slave, TIOCSCTTY, 0);
	if (!terminal_enter_raw(slave, NULL))
		raise(number);
	_exit(1);
}

static void test_fatal_signal(int number)
{
	struct termios before, after;
	int master, slave, status;
	pid_t child;

	if (openpty(&master, &slave, NULL, NULL, NULL))
		abort();
	tcgetattr(slave, &before);
	child = fork();
	if (child == 0)
		die_raw(slave, number);
	waitpid(child, &status, 0);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == number,
	   "signal %d in raw mode ends the process as usual", number);
	tcgetattr(slave, &after);
	ok(after.c_lflag == before.c_lflag, "signal %d restores the terminal's modes", number);
	close(master);
	close(slave);
}

int main(void)
{
	test_keys();
	test_not_a_terminal();
	test_terminal();
	test_fatal_signal(SIGSEGV);
	test_fatal_signal(SIGTERM);
	test_fatal_signal(SIGHUP);
	test_pipe();
	test_slow_guest();
	test_regular_file();
	test_closed();
	return tap_done();
}

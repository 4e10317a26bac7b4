// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/console/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/console/panic-watch.h"

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
	ok(n_out == 3 && !memcmp(out, "ls\r", 3) && action == TERMINAL_NONE, "and passed on");
	feed("a\x01\x01z");
	ok(n_out == 3 && !memcmp(out, "a\x01z", 3), "Ctrl-a Ctrl-a is a literal Ctrl-a");
	feed("\x01"
	     "a");
	ok(n_out == 1 && out[0] == 1, "so is Ctrl-a a");
	is_u64(feed("q\x01xrest"), 3, "consumption ends with an action");
	ok(n_out == 1 && out[0] == 'q' && action == TERMINAL_QUIT, "Ctrl-a x quits");
	feed("\x01");
	ok(n_out == 0 && action == TERMINAL_NONE, "the escape key alone does nothing");
	feed("c!");
	ok(action == TERMINAL_MONITOR && n_out == 0, "a key split over two reads works");
	feed("\x01h");
	is_u64(action, TERMINAL_HELP, "Ctrl-a h is help");
	feed("\x01qw");
	ok(n_out == 1 && out[0] == 'w' && action == TERMINAL_NONE, "unknown keys are swallowed");
	feed("x");
	ok(n_out == 1 && action == TERMINAL_NONE, "x alone is an x");
}

static void test_not_a_terminal(void)
{
	int fds[2];

	ok(pipe(fds) == 0, "pipe");
	is_u64((uint64_t)-terminal_enter_raw(fds[0], NULL), ENOTTY, "a pipe is no terminal");
	ok(!terminal_is_raw(), "nothing changed");
	terminal_leave_raw();
	close(fds[0]);
	close(fds[1]);
}

static struct panic_watch watch_text(const char *text)
{
	struct panic_watch watch = {0};

	for (const char *p = text; *p; p++)
		panic_watch_feed(&watch, (uint8_t)*p);
	return watch;
}

static void test_panic_watch(void)
{
	char long_text[400] = "Kernel panic - not syncing: ";
	struct panic_watch watch =
		watch_text("[ 1.0] Kernel panic - not syncing: Attempted to kill init!\r\nmore");

	ok(watch.found && watch.complete, "a panic is seen");
	is_str(watch.reason, "Attempted to kill init!", "its reason");
	watch = watch_text("KKernel panicKernel panic - not syncing: x\nKernel panic - not "
			   "syncing: y\n");
	is_str(watch.reason, "x", "false starts, and only the first panic counts");
	ok(!watch_text("Kernel panic - not sinking: x\n").found, "other text is none");
	watch = watch_text("Kernel panic - not syncing: a\x1b[0m");
	ok(watch.found && !watch.complete, "incomplete until the line ends");
	is_str(watch.reason, "a?[0m", "control characters are not passed on");
	memset(long_text + strlen(long_text), 'x', 300);
	is_u64(strlen(watch_text(long_text).reason), PANIC_REASON_SIZE - 1, "cut to size");
}

int main(void)
{
	test_keys();
	test_not_a_terminal();
	test_panic_watch();
	return tap_done();
}

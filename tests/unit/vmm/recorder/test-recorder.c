/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/recorder.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/lib/capture.h"
#include "tests/lib/tap.h"
#include "vmm/loop/event-loop.h"

/* What ends a run: a recorder that traces nothing, and a guest that is only a name. */
enum { QUIT_REASON = 7 };

struct fixture {
	struct event_loop *loop;
	struct recorder_options options;
	struct recorder *recorder;
	struct guest guest;
	int quits;
};

static void fixture_quit(void *arg)
{
	struct fixture *f = arg;

	f->quits++;
	event_loop_quit(f->loop, QUIT_REASON);
}

static const struct monitor_guest_ops ops = {.quit = fixture_quit};

static void begin_with(struct fixture *f, struct recorder_config config, uint64_t duration_ms)
{
	struct error err;

	config.verb = "test";
	config.options = &f->options;

	*f = (struct fixture){.guest = {.nr_vcpus = 1}};
	f->options.duration_ms = duration_ms;
	if (event_loop_create(&f->loop, &err))
		exit(1);
	config.loop = f->loop;
	if (recorder_create(&config, &f->recorder, &err) ||
	    recorder_watch(f->recorder, &f->guest, &ops, f, &err) ||
	    recorder_begin(f->recorder, &f->guest, &err))
		exit(1);
}

static void begin(struct fixture *f, uint64_t duration_ms, void (*before_death)(void))
{
	begin_with(f, (struct recorder_config){.before_death = before_death}, duration_ms);
}

static void end(struct fixture *f)
{
	recorder_end(f->recorder, RECORDER_GUEST_OVER, NULL);
	recorder_close(f->recorder);
	recorder_destroy(f->recorder);
	event_loop_destroy(f->loop);
}

static void test_duration(void)
{
	uint64_t started = clock_monotonic_ms();
	struct fixture f;
	struct error err;
	int reason = 0;

	begin(&f, 50, NULL);
	ok(!recorder_run(f.recorder, &reason, &err), "a recorder without a trace runs");
	is_u64((uint64_t)reason, QUIT_REASON, "--duration asks the owner to quit");
	ok(clock_monotonic_ms() - started >= 50, "--duration is not cut short");
	is_u64((uint64_t)recorder_signal(f.recorder), 0, "a limit is no signal");
	ok(!recorder_conclude(f.recorder, &err), "without a trace there is nothing to fail");
	end(&f);
}

static void test_first_signal(int number)
{
	struct fixture f;
	struct error err;
	int reason = 0;

	begin(&f, 0, NULL);
	raise(number);
	raise(number);
	ok(!recorder_run(f.recorder, &reason, &err) && reason == QUIT_REASON,
	   "signal %d ends the run in order", number);
	is_u64((uint64_t)recorder_signal(f.recorder), (uint64_t)number, "its number is kept");
	is_u64((uint64_t)f.quits, 1, "the same signal sent twice at once counts as one");
	end(&f);
}

static void say_goodbye(void)
{
	if (write(STDOUT_FILENO, "goodbye\n", 8) < 0)
		abort();
}

/* In a child: what kills it after the run has ended by `first` (0: by a limit). */
static int status_of_child(int first, unsigned int wait_ms, int second)
{
	struct fixture f;
	struct error err;
	int reason, status;
	pid_t pid = fork();

	if (!pid) {
		begin(&f, first ? 0 : 1, say_goodbye);
		if (first)
			raise(first);
		recorder_run(f.recorder, &reason, &err);
		usleep(wait_ms * 1000);
		raise(second);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void test_second_signal(void)
{
	struct capture capture;
	int status;

	capture_begin(&capture, "");
	status = status_of_child(SIGINT, 300, SIGTERM);
	capture_end(&capture);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "a second signal kills the process");
	is_str(capture.out, "goodbye\n", "before_death() is called before that");
	capture_begin(&capture, "");
	status = status_of_child(SIGINT, 0, SIGINT);
	capture_end(&capture);
	ok(WIFEXITED(status), "a second signal within 0.2 s is taken for the first");
	capture_begin(&capture, "");
	status = status_of_child(0, 0, SIGHUP);
	capture_end(&capture);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP,
	   "after a limit was reached, the first signal kills the process");
}

/* In a child, as a failure would stop it: how it ends, or that it was stopped. `early`: the signals
 * come before the recorder watches for them. */
static int status_of_unstoppable(bool early)
{
	struct fixture f;
	struct error err;
	int reason, status;
	pid_t pid = fork();

	if (!pid) {
		setpgid(0, 0);
		if (early) {
			recorder_never_stop();
			raise(SIGTTOU);
			raise(SIGTTIN);
			raise(SIGTSTP);
		}
		begin_with(&f, (struct recorder_config){.never_stopped = true}, 0);
		raise(SIGTTOU);
		raise(SIGTTIN);
		if (!early)
			raise(SIGTSTP);
		if (recorder_run(f.recorder, &reason, &err) || reason != QUIT_REASON)
			_exit(1);
		raise(SIGTSTP);
		_exit(recorder_signal(f.recorder) == SIGTSTP ? 0 : 2);
	}
	waitpid(pid, &status, WUNTRACED);
	if (WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return status;
}

static void test_never_stopped(void)
{
	struct capture capture;
	int status;

	capture_begin(&capture, "");
	status = status_of_unstoppable(false);
	capture_end(&capture);
	ok(!WIFSTOPPED(status), "job control does not stop a recorder that is never stopped");
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "SIGTSTP ends its run in order");
	capture_begin(&capture, "");
	status = status_of_unstoppable(true);
	capture_end(&capture);
	ok(WIFEXITED(status) && !WEXITSTATUS(status),
	   "so does one that came before its signals were watched for, and was not stopped by");
}

int main(void)
{
	test_duration();
	test_first_signal(SIGINT);
	test_first_signal(SIGTERM);
	test_first_signal(SIGHUP);
	test_second_signal();
	test_never_stopped();
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ends a run: signals and limits. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "vmm/loop/event-loop.h"
#include "vmm/recorder/internal.h"

enum {
	TICK_MS = 100,
	PROGRESS_TICKS = 5,
	METRICS_TICKS = 50,
	MESSAGES_MS = 1000, /* for a terminal that may be stopped, before the guest is left */
	/* timeout(1) signals the process and its group: both signals count as the first */
	SECOND_SIGNAL_MS = 200,
};

/* --- signals --------------------------------------------------------------------------------- */

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { NR_END_SIGNALS = sizeof(end_signals) / sizeof(end_signals[0]) };

/* For the handler of the second signal; a process has one recorder that catches signals. */
static uint64_t first_signal_ms;
static void (*before_death)(void);

static void die_of_second(int number)
{
	if (first_signal_ms && clock_monotonic_ms() - first_signal_ms < SECOND_SIGNAL_MS)
		return;
	if (before_death)
		before_death();
	signal(number, SIG_DFL);
	raise(number);
}

static void let_signals_through(struct recorder *r)
{
	struct sigaction hard = {.sa_handler = die_of_second, .sa_flags = SA_RESTART};
	struct signalfd_siginfo info;

	if (r->signal_fd < 0 || r->let_through)
		return;
	r->let_through = true;
	/* signals that came so far asked for the end that is under way */
	while (read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	sigemptyset(&hard.sa_mask);
	if (r->config.never_stopped)
		signal(SIGTSTP, SIG_IGN);
	for (int i = 0; i < NR_END_SIGNALS; i++) {
		sigaction(end_signals[i], &hard, NULL);
		sigdelset(&r->old_signals, end_signals[i]);
	}
	sigdelset(&r->old_signals, SIGTSTP);
	sigprocmask(SIG_SETMASK, &r->old_signals, NULL);
}

static void on_signal(void *arg, int fd, uint32_t events)
{
	struct recorder *r = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	r->signal_number = (int)info.ssi_signo;
	first_signal_ms = clock_monotonic_ms();
	let_signals_through(r);
	r->ops->quit(r->arg);
}

void recorder_never_stop(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	signal(SIGTTIN, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
}

static int catch_signals(struct recorder *r, struct error *err)
{
	sigset_t signals;

	before_death = r->config.before_death;
	first_signal_ms = 0;
	sigemptyset(&signals);
	for (int i = 0; i < NR_END_SIGNALS; i++)
		sigaddset(&signals, end_signals[i]);
	if (r->config.never_stopped) {
		sigaddset(&signals, SIGTSTP);
		recorder_never_stop();
	}
	sigprocmask(SIG_BLOCK, &signals, &r->old_signals);
	signal(SIGPIPE, SIG_IGN);
	r->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return error_set(err, errno, "cannot watch for signals: %s", strerror(errno));
	return event_loop_add_fd(r->config.loop, r->signal_fd, EPOLLIN, on_signal, r, &r->signals,
				 err);
}

int recorder_watch(struct recorder *r, struct guest *guest, const struct monitor_guest_ops *ops,
		   void *arg, struct error *err)
{
	int ret;

	r->guest = guest;
	r->ops = ops;
	r->arg = arg;
	ret = catch_signals(r, err);
	return ret ? ret : recorder_listen(r, err);
}

void recorder_close(struct recorder *r)
{
	let_signals_through(r);
	monitor_destroy(r->monitor);
	event_source_remove(r->signals);
	if (r->signal_fd >= 0)
		close(r->signal_fd);
	r->monitor = NULL;
	r->signals = NULL;
	r->signal_fd = -1;
}

int recorder_signal(const struct recorder *r)
{
	return r->signal_number;
}

/* --- limits ---------------------------------------------------------------------------------- */

static void on_limit(void *arg)
{
	struct recorder *r = arg;

	r->limit_reached = "--duration is over";
	r->ops->quit(r->arg);
}

/* NULL: none. */
static const char *find_limit(const struct recorder *r)
{
	const struct trace_writer_counts sum = recorder_sum(r);
	const uint64_t events = r->options->until_events, bytes = r->options->max_bytes;

	if (events && sum.events >= events)
		return "--until-events is reached";
	if (bytes && r->writer && trace_writer_bytes(r->writer) >= bytes)
		return "--max-size is reached";
	return NULL;
}

const char *recorder_ended(const struct recorder *r)
{
	return r->ended;
}

static void say_ended(struct recorder *r, const char *why)
{
	snprintf(r->ended_text, sizeof(r->ended_text), "%s", why);
	r->ended = r->ended_text;
	r->end_failed = false;
	recorder_say(r, "%s: tracing has ended", why);
}

/* Once, though each tick tries again. */
static void say_goes_on(struct recorder *r, const char *why, const struct error *err)
{
	if (r->end_failed)
		return;
	r->end_failed = true;
	recorder_say(r, "%s, but tracing cannot be ended yet (trying again): %s", why, err->text);
}

static bool is_tracing(const struct recorder *r)
{
	struct trace_status status;

	trace_session_status(r->session, &status);
	return status.enabled;
}

/* With the lock held. The guest may wait until its kernel has its own text back. */
static void end_if_due(struct recorder *r)
{
	const char *why = trace_session_must_end(r->session);
	struct error err;
	int ret = why ? trace_session_stop(r->session, &err) : -EALREADY;

	if (ret == -EALREADY)
		return;
	if (ret && is_tracing(r)) {
		say_goes_on(r, why, &err);
		return;
	}
	say_ended(r, why);
	if (ret)
		recorder_fail(r, &err);
}

static void tick_session(void *arg)
{
	struct recorder *r = arg;
	struct error err;

	pthread_mutex_lock(&r->lock);
	if (r->session && trace_session_tick(r->session, &err))
		recorder_fail_meanwhile(r, &err);
	recorder_print_switched(r);
	recorder_print_gaps(r);
	recorder_print_yields(r);
	recorder_print_instances(r);
	if (r->session)
		end_if_due(r);
	pthread_mutex_unlock(&r->lock);
}

int recorder_add_wake(struct recorder *r, struct error *err)
{
	return event_loop_add_timer(r->config.loop, 0, tick_session, r, &r->early_tick, err);
}

void recorder_wake(void *arg)
{
	const struct recorder *r = arg;

	event_timer_arm(r->early_tick, 0);
}

/* A failure is no reason to end the trace. It is said once, until a write succeeds again. */
static void tick_metrics(struct recorder *r)
{
	struct error err;

	if (!r->metrics || r->nr_ticks % METRICS_TICKS)
		return;
	if (!metrics_file_failure(r->metrics, &err)) {
		r->metrics_failed = false;
	} else if (!r->metrics_failed) {
		r->metrics_failed = true;
		recorder_say(r, "--metrics: %s", err.text);
	}
	recorder_put_metrics(r);
}

static void on_tick(void *arg)
{
	struct recorder *r = arg;

	tick_session(r);
	recorder_look_at_disk(r);
	recorder_look_at_snapshot(r);
	if (r->live)
		live_memory_poll(r->live);
	tick_metrics(r);
	r->limit_reached = find_limit(r);
	if (r->limit_reached)
		r->ops->quit(r->arg);
	else if (r->nr_ticks++ % PROGRESS_TICKS == 0)
		recorder_show_progress(r);
}

static int start_timers(struct recorder *r, struct error *err)
{
	int ret = 0;

	if (r->session)
		ret = event_loop_add_timer(r->config.loop, TICK_MS, on_tick, r, &r->ticks, err);
	if (!ret && r->options->duration_ms)
		ret = event_loop_add_timer(r->config.loop, (unsigned int)r->options->duration_ms,
					   on_limit, r, &r->limit, err);
	return ret;
}

int recorder_run(struct recorder *r, int *reason, struct error *err)
{
	int ret = start_timers(r, err);

	r->run_since_ms = clock_monotonic_ms();
	if (!ret)
		*reason = event_loop_run(r->config.loop);
	let_signals_through(r);
	event_source_remove(r->ticks);
	event_source_remove(r->limit);
	r->ticks = r->limit = NULL;
	messages_clear_progress(r->messages);
	messages_await(r->messages, MESSAGES_MS);
	return ret;
}

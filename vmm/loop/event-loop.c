/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/loop/event-loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { EVENT_BATCH = 16 };

struct event_source {
	struct event_loop *loop;
	struct event_source *next;
	int fd;
	bool is_timer;
	bool removed;
	event_fd_fn *fd_fn;
	event_timer_fn *timer_fn;
	void *arg;
};

struct event_loop {
	int epoll;
	int wake;
	_Atomic int reason;
	struct event_source *sources;
	bool dispatching;
};

int event_loop_create(struct event_loop **out, struct error *err)
{
	struct event_loop *loop = calloc(1, sizeof(*loop));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int code;

	if (!loop)
		return error_set(err, ENOMEM, "out of memory");
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->epoll < 0 || loop->wake < 0 ||
	    epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) < 0) {
		code = errno;
		event_loop_destroy(loop);
		return error_set(err, code, "cannot set up an event loop: %s", strerror(code));
	}
	*out = loop;
	return 0;
}

static void free_source(struct event_source *source)
{
	if (source->is_timer)
		close(source->fd);
	free(source);
}

static void sweep(struct event_loop *loop)
{
	struct event_source **link = &loop->sources;

	while (*link) {
		struct event_source *source = *link;

		if (source->removed) {
			*link = source->next;
			free_source(source);
		} else {
			link = &source->next;
		}
	}
}

void event_loop_destroy(struct event_loop *loop)
{
	if (!loop)
		return;
	for (struct event_source *source = loop->sources; source; source = source->next)
		source->removed = true;
	sweep(loop);
	if (loop->wake >= 0)
		close(loop->wake);
	if (loop->epoll >= 0)
		close(loop->epoll);
	free(loop);
}

static int add_source(struct event_loop *loop, const struct event_source *like, uint32_t events,
		      struct event_source **out, struct error *err)
{
	struct event_source *source = malloc(sizeof(*source));
	struct epoll_event event = {.events = events, .data.ptr = source};
	int code;

	if (!source)
		return error_set(err, ENOMEM, "out of memory");
	*source = *like;
	source->loop = loop;
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0) {
		code = errno;
		free(source);
		return error_set(err, code, "cannot watch descriptor %d: %s", like->fd,
				 strerror(code));
	}
	source->next = loop->sources;
	loop->sources = source;
	if (out)
		*out = source;
	return 0;
}

int event_loop_add_fd(struct event_loop *loop, int fd, uint32_t events, event_fd_fn *fn, void *arg,
		      struct event_source **out, struct error *err)
{
	const struct event_source like = {.fd = fd, .fd_fn = fn, .arg = arg};

	return add_source(loop, &like, events, out, err);
}

int event_loop_set_events(struct event_source *source, uint32_t events, struct error *err)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	if (epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event) < 0)
		return error_set(err, errno, "cannot watch descriptor %d: %s", source->fd,
				 strerror(errno));
	return 0;
}

static struct timespec timespec_of_ms(unsigned int ms)
{
	return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
}

int event_loop_add_timer(struct event_loop *loop, unsigned int interval_ms, event_timer_fn *fn,
			 void *arg, struct event_source **out, struct error *err)
{
	const struct itimerspec spec = {.it_interval = timespec_of_ms(interval_ms),
					.it_value = timespec_of_ms(interval_ms)};
	struct event_source like = {.is_timer = true, .timer_fn = fn, .arg = arg};
	int ret;

	like.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (like.fd < 0 || timerfd_settime(like.fd, 0, &spec, NULL) < 0) {
		ret = error_set(err, errno, "cannot set up a timer: %s", strerror(errno));
		if (like.fd >= 0)
			close(like.fd);
		return ret;
	}
	ret = add_source(loop, &like, EPOLLIN, out, err);
	if (ret < 0)
		close(like.fd);
	return ret;
}

void event_timer_arm(struct event_source *timer, unsigned int delay_ms)
{
	/* A zero it_value would disarm: the soonest there is means one nanosecond. */
	struct itimerspec spec = {.it_value = timespec_of_ms(delay_ms)};

	if (!delay_ms)
		spec.it_value.tv_nsec = 1;
	timerfd_settime(timer->fd, 0, &spec, NULL);
}

void event_source_remove(struct event_source *source)
{
	if (!source || source->removed)
		return;
	epoll_ctl(source->loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	source->removed = true;
	if (!source->loop->dispatching)
		sweep(source->loop);
}

static void dispatch(struct event_source *source, uint32_t events)
{
	uint64_t ticks;

	if (source->removed)
		return;
	if (!source->is_timer)
		source->fd_fn(source->arg, source->fd, events);
	else if (read(source->fd, &ticks, sizeof(ticks)) == (ssize_t)sizeof(ticks))
		source->timer_fn(source->arg);
}

static void run_once(struct event_loop *loop)
{
	struct epoll_event events[EVENT_BATCH];
	int n = epoll_wait(loop->epoll, events, EVENT_BATCH, -1);

	/* A source removed by an earlier callback of the batch is freed only after the batch. */
	loop->dispatching = true;
	for (int i = 0; i < n && !atomic_load(&loop->reason); i++) {
		if (events[i].data.ptr)
			dispatch(events[i].data.ptr, events[i].events);
	}
	loop->dispatching = false;
	sweep(loop);
}

int event_loop_run(struct event_loop *loop)
{
	while (!atomic_load(&loop->reason))
		run_once(loop);
	return atomic_load(&loop->reason);
}

void event_loop_quit(struct event_loop *loop, int reason)
{
	const uint64_t one = 1;
	int none = 0;

	atomic_compare_exchange_strong(&loop->reason, &none, reason);
	/* Cannot fail but on overflow of the counter, and then the loop is awake anyway. */
	if (write(loop->wake, &one, sizeof(one)) < 0)
		return;
}

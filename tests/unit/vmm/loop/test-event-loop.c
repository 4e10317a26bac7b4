/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/loop/event-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "tests/lib/tap.h"

static struct event_loop *loop;

struct counter {
	struct event_source *self, *other;
	unsigned int calls, quit_after;
};

static void count_timer(void *arg)
{
	struct counter *counter = arg;

	if (++counter->calls == counter->quit_after)
		event_loop_quit(loop, 7);
}

static void count_fd(void *arg, int fd, uint32_t events)
{
	struct counter *counter = arg;
	char byte;

	(void)events;
	counter->calls++;
	if (read(fd, &byte, 1) != 1)
		tap_diag("read failed");
	if (counter->other) {
		event_source_remove(counter->other);
		event_source_remove(counter->self);
		event_loop_quit(loop, 1);
	}
}

static void *quit_later(void *arg)
{
	(void)arg;
	usleep(20000);
	event_loop_quit(loop, 42);
	event_loop_quit(loop, 43);
	return NULL;
}

static void with_loop(void (*test)(void))
{
	if (event_loop_create(&loop, NULL))
		abort();
	test();
	event_loop_destroy(loop);
}

static void test_quit(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, quit_later, NULL);
	is_u64((uint64_t)event_loop_run(loop), 42,
	       "another thread ends the loop, with the first reason");
	pthread_join(thread, NULL);
	is_u64((uint64_t)event_loop_run(loop), 42,
	       "a loop that has ended ends at once when it runs again");
}

static void test_timers(void)
{
	struct counter periodic = {.quit_after = 3}, once = {0};

	event_loop_add_timer(loop, 5, count_timer, &periodic, &periodic.self, NULL);
	event_loop_add_timer(loop, 0, count_timer, &once, &once.self, NULL);
	event_timer_arm(once.self, 0);
	is_u64((uint64_t)event_loop_run(loop), 7, "a periodic timer fires until it is removed");
	is_u64(once.calls, 1, "an armed timer fires once");
}

/* Both pipes are ready in the same batch; whichever is served first removes the other. */
static void test_removal(void)
{
	int p[2], q[2];
	struct counter a = {0}, b = {0};

	if (pipe(p) || pipe(q) || write(p[1], "x", 1) != 1 || write(q[1], "x", 1) != 1)
		abort();
	event_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &a, &a.self, NULL);
	event_loop_add_fd(loop, q[0], EPOLLIN, count_fd, &b, &b.self, NULL);
	a.other = b.self;
	b.other = a.self;
	event_loop_run(loop);
	is_u64(a.calls + b.calls, 1, "a source that another callback has removed is not called");
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(q[i]);
	}
}

static void test_files(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	is_u64((uint64_t)-event_loop_add_fd(loop, fd, EPOLLIN, count_fd, NULL, NULL, NULL), EPERM,
	       "a regular file cannot be watched");
	close(fd);
}

static void test_events(void)
{
	struct counter pipe_end = {0}, timer = {.quit_after = 4};
	struct error err;
	int p[2];

	if (pipe(p) || write(p[1], "xy", 2) != 2)
		abort();
	event_loop_add_fd(loop, p[0], 0, count_fd, &pipe_end, &pipe_end.self, NULL);
	is_u64((uint64_t)-event_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &pipe_end, NULL, NULL),
	       EEXIST, "a descriptor cannot be watched twice");
	event_loop_add_timer(loop, 5, count_timer, &timer, &timer.self, NULL);
	event_loop_run(loop);
	is_u64(pipe_end.calls, 0, "a source without events is not called");
	is_u64((uint64_t)event_loop_set_events(pipe_end.self, EPOLLIN, NULL), 0,
	       "the events of a source can be changed");
	close(p[0]);
	ok(event_loop_set_events(pipe_end.self, EPOLLIN, &err) == -EBADF &&
		   strstr(err.text, "cannot watch descriptor"),
	   "the events of a closed descriptor cannot be changed");
	close(p[1]);
}

static void test_changed_events(void)
{
	struct counter pipe_end = {0}, timer = {.quit_after = 4};
	int p[2];

	if (pipe(p) || write(p[1], "xy", 2) != 2)
		abort();
	event_loop_add_fd(loop, p[0], 0, count_fd, &pipe_end, &pipe_end.self, NULL);
	event_loop_set_events(pipe_end.self, EPOLLIN, NULL);
	event_loop_add_timer(loop, 5, count_timer, &timer, &timer.self, NULL);
	event_loop_run(loop);
	is_u64(pipe_end.calls, 2, "a source with events is called while there is input");
	event_source_remove(pipe_end.self);
	close(p[0]);
	close(p[1]);
}

static void test_no_descriptors(void)
{
	struct event_loop *other = NULL;
	struct rlimit before;
	struct error err = {0};
	int created, added;

	getrlimit(RLIMIT_NOFILE, &before);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max});
	created = event_loop_create(&other, &err);
	added = event_loop_add_timer(loop, 5, count_timer, NULL, NULL, NULL);
	setrlimit(RLIMIT_NOFILE, &before);
	ok(created == -EMFILE && strstr(err.text, "cannot set up an event loop"),
	   "without descriptors no event loop can be created");
	is_u64((uint64_t)-added, EMFILE, "without descriptors no timer can be added");
}

int main(void)
{
	with_loop(test_quit);
	with_loop(test_timers);
	with_loop(test_removal);
	with_loop(test_files);
	with_loop(test_events);
	with_loop(test_changed_events);
	with_loop(test_no_descriptors);
	return tap_done();
}

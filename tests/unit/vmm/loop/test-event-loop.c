/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/loop/event-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
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
	ok(event_loop_create(&loop, NULL) == 0, "loop");
	test();
	event_loop_destroy(loop);
}

static void test_quit(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, quit_later, NULL);
	is_u64((uint64_t)event_loop_run(loop), 42, "another thread ends it; the first reason wins");
	pthread_join(thread, NULL);
	is_u64((uint64_t)event_loop_run(loop), 42, "and it stays ended");
}

static void test_timers(void)
{
	struct counter periodic = {.quit_after = 3}, once = {0};

	event_loop_add_timer(loop, 5, count_timer, &periodic, &periodic.self, NULL);
	event_loop_add_timer(loop, 0, count_timer, &once, &once.self, NULL);
	event_timer_arm(once.self, 0);
	is_u64((uint64_t)event_loop_run(loop), 7, "a periodic timer");
	is_u64(once.calls, 1, "an armed timer fires once");
}

/* Both pipes are ready in the same batch; whichever is served first removes the other. */
static void test_removal(void)
{
	int p[2], q[2];
	struct counter a = {0}, b = {0};

	ok(pipe(p) == 0 && pipe(q) == 0, "pipes");
	ok(write(p[1], "x", 1) == 1 && write(q[1], "x", 1) == 1, "both ready");
	event_loop_add_fd(loop, p[0], EPOLLIN, count_fd, &a, &a.self, NULL);
	event_loop_add_fd(loop, q[0], EPOLLIN, count_fd, &b, &b.self, NULL);
	a.other = b.self;
	b.other = a.self;
	event_loop_run(loop);
	is_u64(a.calls + b.calls, 1, "a source removed by the other's callback is not called");
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(q[i]);
	}
}

static void test_files(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	is_u64((uint64_t)-event_loop_add_fd(loop, fd, EPOLLIN, count_fd, NULL, NULL, NULL), EPERM,
	       "files cannot be watched");
	close(fd);
}

int main(void)
{
	with_loop(test_quit);
	with_loop(test_timers);
	with_loop(test_removal);
	with_loop(test_files);
	return tap_done();
}

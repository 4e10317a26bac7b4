/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include "formats/base/clock.h"

static const uint64_t disk_patience_ns = 2000000000;

int thread_start(pthread_t *out, const char *name, void *(*work)(void *), void *arg)
{
	sigset_t all, old;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	code = pthread_create(out, NULL, work, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!code)
		pthread_setname_np(*out, name);
	return code;
}

void thread_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

bool thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t ns)
{
	const uint64_t ns_per_s = 1000000000;
	const struct timespec until = {.tv_sec = (time_t)(ns / ns_per_s),
				       .tv_nsec = (long)(ns % ns_per_s)};

	return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}

/* --- at a disk that may hang ------------------------------------------------------------------- */

void disk_thread_init(struct disk_thread *t)
{
	*t = (struct disk_thread){0};
	pthread_mutex_init(&t->lock, NULL);
	thread_cond_init(&t->changed);
}

void disk_thread_deinit(struct disk_thread *t)
{
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
}

int disk_thread_start(struct disk_thread *t, const char *name, void *(*work)(void *), void *arg)
{
	pthread_t thread;
	int code = thread_start(&thread, name, work, arg);

	if (code)
		return code;
	t->started = true;
	pthread_detach(thread);
	return 0;
}

bool disk_thread_leave(struct disk_thread *t)
{
	const bool abandoned = t->abandoned;

	t->ended = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	return abandoned;
}

bool disk_thread_end(struct disk_thread *t)
{
	const uint64_t until = clock_monotonic_ns() + disk_patience_ns;
	bool over;

	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_broadcast(&t->changed);
	while (t->started && !t->ended && thread_wait_until(&t->changed, &t->lock, until))
		;
	over = !t->started || t->ended;
	t->abandoned = !over;
	pthread_mutex_unlock(&t->lock);
	return over;
}

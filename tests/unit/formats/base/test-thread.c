/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "tests/lib/tap.h"

static char name[16];
static sigset_t blocked;
static atomic_bool name_is_read;

/* A thread that has ended has no name. */
static void *look(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	while (!name_is_read)
		clock_wait_ms(1);
	return arg;
}

static void test_start(void)
{
	pthread_t thread;
	sigset_t own;
	void *result;

	pthread_sigmask(SIG_SETMASK, NULL, &own);
	ok(!thread_start(&thread, "sonde-test", look, &thread), "a thread starts");
	pthread_getname_np(thread, name, sizeof(name));
	name_is_read = true;
	pthread_join(thread, &result);
	ok(result == &thread && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM),
	   "with all signals blocked");
	is_str(name, "sonde-test", "it has its name");
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	ok(!memcmp(&own, &blocked, sizeof(own)), "the caller's signals are as before");
}

static void test_wait(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	const uint64_t until = clock_monotonic_ns() + 20000000;

	thread_cond_init(&cond);
	pthread_mutex_lock(&lock);
	while (thread_wait_until(&cond, &lock, until))
		;
	pthread_mutex_unlock(&lock);
	ok(clock_monotonic_ns() >= until, "a wait ends at its time, and not before");
	pthread_cond_destroy(&cond);
}

/* What an owner shares with its thread. */
struct shared {
	struct disk_thread thread;
	atomic_bool *hangs, *freed;
};

static void free_shared(struct shared *s)
{
	*s->freed = true;
	disk_thread_deinit(&s->thread);
	free(s);
}

static void *work(void *arg)
{
	struct shared *s = arg;

	while (*s->hangs)
		clock_wait_ms(1);
	pthread_mutex_lock(&s->thread.lock);
	while (!s->thread.ending)
		pthread_cond_wait(&s->thread.changed, &s->thread.lock);
	if (disk_thread_leave(&s->thread))
		free_shared(s);
	return NULL;
}

static void test_disk(bool starts, bool disk_hangs)
{
	static atomic_bool hangs, freed;
	struct shared *s = calloc(1, sizeof(*s));
	bool ended;

	if (!s)
		abort();
	hangs = disk_hangs;
	freed = false;
	s->hangs = &hangs;
	s->freed = &freed;
	disk_thread_init(&s->thread);
	if (starts && disk_thread_start(&s->thread, "sonde-test", work, s))
		abort();
	ended = disk_thread_end(&s->thread);
	ok(ended == !disk_hangs && !freed, "a thread that %s is left to %s",
	   !starts ? "never started" : disk_hangs ? "hangs at its disk" : "has ended",
	   disk_hangs ? "itself" : "its owner");
	if (ended)
		free_shared(s);
	hangs = false;
	for (int i = 0; i < 10000 && !freed; i++)
		clock_wait_ms(1);
	ok(freed, "and what they share is freed");
}

int main(void)
{
	test_start();
	test_wait();
	test_disk(false, false);
	test_disk(true, false);
	test_disk(true, true);
	return tap_done();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_THREAD_H
#define SONDE_FORMATS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Start a thread with all signals blocked: those to the process are for the main thread. Its name
 * has at most 15 characters. Returns 0 or an error number, as pthread_create() does.
 */
int thread_start(pthread_t *out, const char *name, void *(*work)(void *), void *arg);

/* A condition that is waited for by the host's monotonic time. */
void thread_cond_init(pthread_cond_t *cond);
/* Wait for such a condition until this time, in ns of clock_monotonic_ns(). False: it has come. */
bool thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t ns);

/*
 * A thread that works on a disk for its owner. The disk may hang, and sonde must end nevertheless:
 * so the thread is detached, and what both use is freed by the one that is the last to need it.
 */
struct disk_thread {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* waited for by thread_wait_until() */
	/* With the lock held: */
	bool ending; /* the thread is to end */
	bool started, ended, abandoned;
};

void disk_thread_init(struct disk_thread *t);
/* For the one that frees. */
void disk_thread_deinit(struct disk_thread *t);

/* Start the thread, once. Returns 0 or an error number; after an error there is no thread. */
int disk_thread_start(struct disk_thread *t, const char *name, void *(*work)(void *), void *arg);
/* The last that the thread does, with the lock held, which this releases. True: it frees. */
bool disk_thread_leave(struct disk_thread *t);
/* By the owner: have the thread end, and wait two seconds for it at most. True: the owner frees. */
bool disk_thread_end(struct disk_thread *t);

#endif

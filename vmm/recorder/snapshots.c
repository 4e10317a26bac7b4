/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/snapshots.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include "formats/base/thread.h"

struct snapshots {
	struct trace_writer *writer;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t nr_users; /* the owner, the thread, and those that wait; the last one frees */
	uint64_t nr_asked, nr_over;
	bool running; /* the thread */
	int ret;      /* of the last one that is over */
	struct error err;
};

struct snapshot {
	struct snapshots *snapshots;
	uint64_t number; /* it is over when nr_over has got there */
};

/* With the lock held, which this releases. */
static void leave(struct snapshots *s)
{
	const bool last = !--s->nr_users;

	pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* With the lock held, but for the time that it takes. */
static void write_next(struct snapshots *s)
{
	const uint64_t number = s->nr_asked;
	struct error err = {0};
	int ret;

	pthread_mutex_unlock(&s->lock);
	ret = trace_writer_snapshot(s->writer, &err);
	pthread_mutex_lock(&s->lock);
	s->nr_over = number;
	s->ret = ret;
	s->err = err;
	pthread_cond_broadcast(&s->changed);
}

static void *write_all(void *arg)
{
	struct snapshots *s = arg;

	pthread_mutex_lock(&s->lock);
	while (s->nr_over < s->nr_asked)
		write_next(s);
	s->running = false;
	pthread_cond_broadcast(&s->changed);
	leave(s);
	return NULL;
}

int snapshots_create(struct trace_writer *writer, struct snapshots **out, struct error *err)
{
	struct snapshots *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->writer = writer;
	s->nr_users = 1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	*out = s;
	return 0;
}

void snapshots_end(struct snapshots *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	while (s->running)
		pthread_cond_wait(&s->changed, &s->lock);
	leave(s);
}

/* With the lock held. */
static int start_thread(struct snapshots *s)
{
	pthread_t thread;
	int code = s->running ? 0 : thread_start(&thread, "sonde-snapshot", write_all, s);

	if (code || s->running)
		return code;
	pthread_detach(thread);
	s->running = true;
	s->nr_users++;
	return 0;
}

int snapshots_ask(struct snapshots *s, struct snapshot **out, struct error *err)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int code;

	if (!snapshot)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&s->lock);
	code = start_thread(s);
	if (!code) {
		*snapshot = (struct snapshot){.snapshots = s, .number = ++s->nr_asked};
		s->nr_users++;
	}
	pthread_mutex_unlock(&s->lock);
	if (code) {
		free(snapshot);
		return error_set(err, code, "cannot start a thread for the snapshot");
	}
	*out = snapshot;
	return 0;
}

bool snapshot_is_over(struct snapshot *snapshot)
{
	struct snapshots *s = snapshot->snapshots;
	bool over;

	pthread_mutex_lock(&s->lock);
	over = s->nr_over >= snapshot->number;
	pthread_mutex_unlock(&s->lock);
	return over;
}

int snapshot_await(struct snapshot *snapshot, struct error *err)
{
	struct snapshots *s = snapshot->snapshots;
	int ret;

	pthread_mutex_lock(&s->lock);
	while (s->nr_over < snapshot->number)
		pthread_cond_wait(&s->changed, &s->lock);
	ret = s->ret;
	if (ret && err)
		*err = s->err;
	leave(s);
	free(snapshot);
	return ret;
}

void snapshot_forget(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	pthread_mutex_lock(&snapshot->snapshots->lock);
	leave(snapshot->snapshots);
	free(snapshot);
}

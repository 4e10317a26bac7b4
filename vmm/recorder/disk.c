/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A disk that hangs holds up the end of a trace for as long as it does: the user is told why. */
#include <pthread.h>
#include "formats/base/clock.h"
#include "formats/base/thread.h"
#include "vmm/recorder/internal.h"

enum { LOOK_MS = 200 };

static const uint64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

void recorder_look_at_disk(struct recorder *r)
{
	const uint64_t hangs_ns = r->writer ? trace_writer_hangs_ns(r->writer) : 0;
	const bool hangs = hangs_ns >= r->patience_ms * ns_per_ms;

	if (hangs == r->disk_hangs)
		return;
	r->disk_hangs = hangs;
	if (hangs)
		recorder_say(r, "%s: the disk has not answered for %llu s: waiting for it", r->dir,
			     (unsigned long long)(hangs_ns / ns_per_s));
	else
		recorder_say(r, "%s: the disk answers again", r->dir);
}

struct disk_watch {
	struct recorder *recorder;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool is_over; /* under lock */
};

static void *look_until_over(void *arg)
{
	struct disk_watch *watch = arg;

	pthread_mutex_lock(&watch->lock);
	while (!watch->is_over) {
		const uint64_t until = clock_monotonic_ns() + LOOK_MS * ns_per_ms;

		recorder_look_at_disk(watch->recorder);
		thread_wait_until(&watch->over, &watch->lock, until);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

void recorder_use_disk(struct recorder *r, void (*fn)(struct recorder *r))
{
	struct disk_watch watch = {.recorder = r, .lock = PTHREAD_MUTEX_INITIALIZER};
	bool watched;

	thread_cond_init(&watch.over);
	watched = !thread_start(&watch.thread, "sonde-disk", look_until_over, &watch);
	fn(r);
	if (!watched)
		return;
	pthread_mutex_lock(&watch.lock);
	watch.is_over = true;
	pthread_cond_signal(&watch.over);
	pthread_mutex_unlock(&watch.lock);
	pthread_join(watch.thread, NULL);
	recorder_look_at_disk(r);
}

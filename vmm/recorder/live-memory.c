/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/live-memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/base/json.h"
#include "formats/base/text.h"

enum { ROUND_S = 1, PATIENCE_S = 2 };

struct live_memory {
	const char *dir;
	uint64_t limit;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started, ending, ended;
	bool abandoned; /* the thread frees all of this */
	/* What is known, with the lock held: */
	bool is_known;
	uint64_t bytes;
	struct heap_totals totals;
	int64_t ns;
	struct error failed; /* code 0: it goes on */
	/* The thread's own: */
	struct replay_view view;
	struct replay replay;
	struct analysis analysis;
	bool is_open;
};

/* --- the thread ------------------------------------------------------------------------------ */

static int take_change(struct analysis *analysis, const struct heap_change *change)
{
	(void)analysis;
	(void)change;
	return 0;
}

/* The replay keeps a heap if an analysis is told of it. */
static const struct analysis_ops ops = {.about = "live memory", .change = take_change};

static void close_trace(struct live_memory *live)
{
	if (live->is_open)
		replay_close(&live->replay);
	live->is_open = false;
}

/* Returns 0, also if nothing is traced so far that it could follow. */
static int open_trace(struct live_memory *live, struct error *err)
{
	int ret = replay_open(&live->replay, live->dir, &live->view, err);

	live->is_open = true;
	live->analysis = (struct analysis){.ops = &ops, .replay = &live->replay};
	if (!ret)
		ret = replay_select(&live->replay, err);
	if (!ret && live->replay.instance)
		return 0;
	close_trace(live);
	return ret == -ENOENT ? 0 : ret;
}

static int read_on(struct live_memory *live, struct error *err)
{
	struct analysis *analyses[] = {&live->analysis};
	int ret = live->is_open ? 0 : open_trace(live, err);

	if (ret || !live->is_open)
		return ret;
	ret = replay_follow(&live->replay, analyses, 1, err);
	if (ret >= 0 && heap_memory(live->replay.heap) > live->limit)
		ret = error_set(err, ENOSPC, "the live heap takes more than %s",
				text_bytes(live->limit).s);
	return ret < 0 ? ret : 0;
}

/* With the lock held, which is let go meanwhile. */
static void read_next(struct live_memory *live)
{
	struct error err = {0};
	int ret;

	pthread_mutex_unlock(&live->lock);
	ret = read_on(live, &err);
	pthread_mutex_lock(&live->lock);
	if (ret) {
		live->failed = err;
		return;
	}
	if (!live->is_open || !live->replay.records)
		return;
	live->is_known = true;
	live->bytes = heap_live_bytes(live->replay.heap);
	live->totals = *heap_totals(live->replay.heap);
	live->ns = live->replay.last_ns;
}

static void free_all(struct live_memory *live)
{
	close_trace(live);
	pthread_cond_destroy(&live->changed);
	pthread_mutex_destroy(&live->lock);
	free(live);
}

static void *work(void *arg)
{
	struct live_memory *live = arg;
	bool abandoned;

	pthread_mutex_lock(&live->lock);
	while (!live->ending && !live->failed.code) {
		struct timespec next;

		read_next(live);
		clock_gettime(CLOCK_REALTIME, &next);
		next.tv_sec += ROUND_S;
		while (!live->ending && !live->failed.code &&
		       pthread_cond_timedwait(&live->changed, &live->lock, &next) != ETIMEDOUT)
			;
	}
	live->ended = true;
	abandoned = live->abandoned;
	pthread_cond_broadcast(&live->changed);
	pthread_mutex_unlock(&live->lock);
	if (abandoned)
		free_all(live);
	return NULL;
}

/* Detached, as the disk may hang, and sonde must end nevertheless. */
void live_memory_poll(struct live_memory *live)
{
	pthread_t thread;
	sigset_t all, old;
	int code;

	if (live->started)
		return;
	live->started = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	code = pthread_create(&thread, NULL, work, live);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!code) {
		pthread_setname_np(thread, "sonde-live");
		pthread_detach(thread);
		return;
	}
	live->ended = true;
	error_set(&live->failed, code, "cannot start a thread: %s", strerror(code));
}

/* --- life ------------------------------------------------------------------------------------ */

int live_memory_create(const char *dir, uint64_t limit, struct live_memory **out, struct error *err)
{
	struct live_memory *live = calloc(1, sizeof(*live));

	if (!live)
		return error_set(err, ENOMEM, "out of memory");
	live->dir = dir;
	live->limit = limit;
	live->view = REPLAY_ALL;
	live->view.follow = true;
	pthread_mutex_init(&live->lock, NULL);
	pthread_cond_init(&live->changed, NULL);
	*out = live;
	return 0;
}

void live_memory_destroy(struct live_memory *live)
{
	struct timespec limit;
	bool ended;

	if (!live)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&live->lock);
	live->ending = true;
	live->ended = live->ended || !live->started;
	pthread_cond_broadcast(&live->changed);
	while (!live->ended &&
	       pthread_cond_timedwait(&live->changed, &live->lock, &limit) != ETIMEDOUT)
		;
	ended = live->ended;
	live->abandoned = !ended;
	pthread_mutex_unlock(&live->lock);
	if (ended)
		free_all(live);
}

/* --- what is known --------------------------------------------------------------------------- */

static json_t *counts_json(const struct live_memory *live)
{
	const struct heap_sum *slabs = &live->totals.pages[HEAP_SLAB];
	const struct heap_sum *objects = &live->totals.objects[HEAP_IN_SLAB];

	return json_pack("{so so so so so so}", "bytes", json_from_count(live->bytes), "objects",
			 json_from_count(objects->objects), "object_bytes",
			 json_from_count(objects->bytes), "slabs", json_from_count(slabs->objects),
			 "slab_bytes", json_from_count(slabs->bytes), "time_ns",
			 json_integer(live->ns));
}

json_t *live_memory_json(struct live_memory *live)
{
	json_t *object = NULL;

	pthread_mutex_lock(&live->lock);
	if (live->failed.code)
		object = json_pack("{so}", "error", json_from_text(live->failed.text));
	else if (live->is_known)
		object = counts_json(live);
	pthread_mutex_unlock(&live->lock);
	return object;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/live-memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/base/clock.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/thread.h"

static const uint64_t round_ns = 1000000000;

struct live_memory {
	const char *dir;
	uint64_t limit;
	struct disk_thread thread;
	bool tried; /* to start it */
	/* What is known, with the thread's lock held: */
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

	pthread_mutex_unlock(&live->thread.lock);
	ret = read_on(live, &err);
	pthread_mutex_lock(&live->thread.lock);
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
	disk_thread_deinit(&live->thread);
	free(live);
}

static void *work(void *arg)
{
	struct live_memory *live = arg;
	struct disk_thread *t = &live->thread;

	pthread_mutex_lock(&t->lock);
	while (!t->ending && !live->failed.code) {
		uint64_t next;

		read_next(live);
		next = clock_monotonic_ns() + round_ns;
		while (!t->ending && !live->failed.code &&
		       thread_wait_until(&t->changed, &t->lock, next))
			;
	}
	if (disk_thread_leave(t))
		free_all(live);
	return NULL;
}

void live_memory_poll(struct live_memory *live)
{
	int code;

	if (live->tried)
		return;
	live->tried = true;
	code = disk_thread_start(&live->thread, "sonde-live", work, live);
	if (code)
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
	disk_thread_init(&live->thread);
	*out = live;
	return 0;
}

void live_memory_destroy(struct live_memory *live)
{
	if (live && disk_thread_end(&live->thread))
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

	pthread_mutex_lock(&live->thread.lock);
	if (live->failed.code)
		object = json_pack("{so}", "error", json_from_text(live->failed.text));
	else if (live->is_known)
		object = counts_json(live);
	pthread_mutex_unlock(&live->thread.lock);
	return object;
}

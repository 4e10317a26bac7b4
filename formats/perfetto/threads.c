/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/perfetto/threads.h"

#include <errno.h>
#include <string.h>

enum { MAX_THREADS = 1 << 16, MAX_FRAMES = 1 << 20, INSTANCE_BITS = 8 };
_Static_assert(TRACE_INSTANCES_MAX <= 1 << INSTANCE_BITS, "frame_key() tells instances apart");

#define FIRST_THREAD_TRACK (UINT64_C(1) << 32)

uint64_t thread_track_uuid(uint32_t tid)
{
	return FIRST_THREAD_TRACK + tid;
}

void thread_tracks_init(struct thread_tracks *tracks)
{
	u64_map_init(&tracks->by_tid, sizeof(struct thread_track));
	u64_map_init(&tracks->by_frame, sizeof(uint32_t));
}

void thread_tracks_deinit(struct thread_tracks *tracks)
{
	u64_map_deinit(&tracks->by_tid);
	u64_map_deinit(&tracks->by_frame);
}

static const struct event_field *find(const struct event_class *class, const char *name,
				      enum event_field_type type)
{
	const struct event_field *field = event_field_own(class, name);

	return field && field->type == type ? field : NULL;
}

struct thread_fields thread_fields_of(const struct event_class *class, size_t instance)
{
	return (struct thread_fields){.pid = find(class, "pid", EVENT_UINT),
				      .tgid = find(class, "tgid", EVENT_UINT),
				      .comm = find(class, "comm", EVENT_STRING),
				      .frame = find(class, "frame", EVENT_POINTER),
				      .instance = instance};
}

/* Returns whether that is news. */
static bool learn(struct thread_track *thread, const struct thread_fields *fields,
		  const void *bytes)
{
	struct thread_track now = *thread;
	bool news;

	if (fields->tgid)
		now.pid = (uint32_t)event_field_value(fields->tgid, bytes);
	if (fields->comm)
		event_field_text(fields->comm, bytes, now.name);
	news = now.pid != thread->pid || strcmp(now.name, thread->name);
	*thread = now;
	return news;
}

/* The upper bits of an address are copies of another one. */
static uint64_t frame_key(const struct thread_fields *fields, const void *bytes)
{
	return event_field_value(fields->frame, bytes) << INSTANCE_BITS | fields->instance;
}

static int begin_call(struct thread_tracks *tracks, const struct thread_fields *fields,
		      const void *bytes, uint32_t tid)
{
	const uint64_t key = frame_key(fields, bytes);
	uint32_t *place = u64_map_find(&tracks->by_frame, key);

	if (!place && tracks->by_frame.count >= MAX_FRAMES)
		return 0;
	if (!place)
		place = u64_map_insert(&tracks->by_frame, key, NULL);
	if (!place)
		return -ENOMEM;
	*place = tid;
	return 0;
}

static uint32_t end_call(struct thread_tracks *tracks, const struct thread_fields *fields,
			 const void *bytes)
{
	const uint64_t key = frame_key(fields, bytes);
	const uint32_t *place = u64_map_find(&tracks->by_frame, key);
	const uint32_t tid = place ? *place : 0;

	u64_map_remove(&tracks->by_frame, key);
	return tid;
}

/* *tid is 0 if it is not known. */
static int find_tid(struct thread_tracks *tracks, const struct thread_fields *fields,
		    const void *bytes, uint32_t *tid)
{
	*tid = 0;
	if (fields->pid)
		*tid = (uint32_t)event_field_value(fields->pid, bytes);
	else if (fields->frame)
		*tid = end_call(tracks, fields, bytes);
	return fields->pid && fields->frame ? begin_call(tracks, fields, bytes, *tid) : 0;
}

int thread_tracks_find(struct thread_tracks *tracks, const struct thread_fields *fields,
		       const void *bytes, const struct thread_track **out, bool *changed)
{
	struct thread_track *thread;
	uint32_t tid;
	int ret;

	*out = NULL;
	*changed = false;
	ret = find_tid(tracks, fields, bytes, &tid);
	if (ret || !tid)
		return ret;
	thread = u64_map_find(&tracks->by_tid, tid);
	if (!thread) {
		if (tracks->by_tid.count >= MAX_THREADS)
			return 0;
		thread = u64_map_insert(&tracks->by_tid, tid, changed);
		if (!thread)
			return -ENOMEM;
		*thread = (struct thread_track){
			.uuid = thread_track_uuid(tid), .tid = tid, .pid = tid};
	}
	*changed |= learn(thread, fields, bytes);
	*out = thread;
	return 0;
}

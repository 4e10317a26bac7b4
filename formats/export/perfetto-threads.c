/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/perfetto-threads.h"

#include <errno.h>
#include <string.h>

enum { MAX_THREADS = 1 << 16 };
#define FIRST_THREAD_TRACK (UINT64_C(1) << 32)

void thread_tracks_init(struct thread_tracks *tracks)
{
	u64_map_init(&tracks->by_tid, sizeof(struct thread_track));
}

void thread_tracks_deinit(struct thread_tracks *tracks)
{
	u64_map_deinit(&tracks->by_tid);
}

static const struct event_field *find(const struct event_class *class, const char *name,
				      enum event_field_type type)
{
	const struct event_field *field = event_field_find(class, name);

	return field && field->type == type ? field : NULL;
}

struct thread_fields thread_fields_of(const struct event_class *class)
{
	return (struct thread_fields){.pid = find(class, "pid", EVENT_UINT),
				      .tgid = find(class, "tgid", EVENT_UINT),
				      .comm = find(class, "comm", EVENT_STRING)};
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

int thread_tracks_find(struct thread_tracks *tracks, const struct thread_fields *fields,
		       const void *bytes, const struct thread_track **out, bool *changed)
{
	const uint32_t tid = fields->pid ? (uint32_t)event_field_value(fields->pid, bytes) : 0;
	struct thread_track *thread;

	*out = NULL;
	*changed = false;
	if (!tid)
		return 0;
	thread = u64_map_find(&tracks->by_tid, tid);
	if (!thread) {
		if (tracks->by_tid.count >= MAX_THREADS)
			return 0;
		thread = u64_map_insert(&tracks->by_tid, tid, changed);
		if (!thread)
			return -ENOMEM;
		*thread = (struct thread_track){
			.uuid = FIRST_THREAD_TRACK + tid, .tid = tid, .pid = tid};
	}
	*changed |= learn(thread, fields, bytes);
	*out = thread;
	return 0;
}

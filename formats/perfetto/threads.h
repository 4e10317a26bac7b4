/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_PERFETTO_THREADS_H
#define SONDE_FORMATS_PERFETTO_THREADS_H

#include "formats/base/u64-map.h"
#include "formats/event/event.h"

/* The guest's threads that events were of, each with a track of its own. */
struct thread_tracks {
	struct u64_map by_tid;   /* -> struct thread_track */
	struct u64_map by_frame; /* of calls that have not returned: -> tid */
};

struct thread_track {
	uint64_t uuid;                   /* of the track */
	uint32_t tid, pid;               /* pid: of the process; if no event said it, the tid */
	char name[EVENT_STRING_MAX + 1]; /* "" if no event said it */
};

/* The same of any thread. */
uint64_t thread_track_uuid(uint32_t tid);

/* Which fields of a class say the thread; NULL: the class has none. A return without a pid is of
 * the thread that made the call with the same frame, in the same instance. */
struct thread_fields {
	const struct event_field *pid, *tgid, *comm, *frame;
	size_t instance;
};

void thread_tracks_init(struct thread_tracks *tracks);
void thread_tracks_deinit(struct thread_tracks *tracks);

/* `instance`: the number of the one whose class it is. */
struct thread_fields thread_fields_of(const struct event_class *class, size_t instance);

/*
 * The thread of an event, valid until the next call; NULL if it is not known, is that of an idle
 * task, of which each CPU has one, or too many have come. *changed: it is new, or what is known of
 * it is. -ENOMEM.
 */
int thread_tracks_find(struct thread_tracks *tracks, const struct thread_fields *fields,
		       const void *bytes, const struct thread_track **out, bool *changed);

#endif

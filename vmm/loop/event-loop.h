/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LOOP_EVENT_LOOP_H
#define SONDE_VMM_LOOP_EVENT_LOOP_H

#include <stdint.h>
#include "formats/base/error.h"

/*
 * The main thread's event loop (epoll): descriptors and timers with callbacks. All functions but
 * event_loop_quit() are for the thread that runs the loop; callbacks run on that thread. A callback
 * may add and remove sources, its own included.
 */
struct event_loop;
struct event_source;

/* -ENOMEM, or -errno where the process has no descriptors left. */
int event_loop_create(struct event_loop **out, struct error *err);
/* Removes (and for timers closes) all sources. NULL-safe. */
void event_loop_destroy(struct event_loop *loop);

/* `events` are epoll's (EPOLLIN, EPOLLOUT, EPOLLHUP ...). */
typedef void event_fd_fn(void *arg, int fd, uint32_t events);

/*
 * Watch fd, which stays the caller's and must be removed before it is closed. Level-triggered.
 * Returns 0, -EPERM for descriptors that cannot be polled (regular files), -EEXIST if watched.
 */
int event_loop_add_fd(struct event_loop *loop, int fd, uint32_t events, event_fd_fn *fn, void *arg,
		      struct event_source **out, struct error *err);
/* Change what is watched for; 0 = nothing but errors. */
int event_loop_set_events(struct event_source *source, uint32_t events, struct error *err);

typedef void event_timer_fn(void *arg);

/* Call fn every interval_ms milliseconds until removed; 0 = not until event_timer_arm() is called.
 */
int event_loop_add_timer(struct event_loop *loop, unsigned int interval_ms, event_timer_fn *fn,
			 void *arg, struct event_source **out, struct error *err);
/* Any thread: let a timer fire once, delay_ms from now. */
void event_timer_arm(struct event_source *timer, unsigned int delay_ms);

/* Stop watching and free. NULL-safe; not called again afterwards, even for pending events. */
void event_source_remove(struct event_source *source);

/* Run until event_loop_quit(); returns the reason given to the first call of it. */
int event_loop_run(struct event_loop *loop);

/* Any thread, async-signal-safe: end event_loop_run() with `reason` (not 0). First call wins. */
void event_loop_quit(struct event_loop *loop, int reason);

#endif

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

/* -ENOMEM, or -EMFILE if the process has no descriptors left. */
int event_loop_create(struct event_loop **out, struct error *err);
/* Removes all sources, and closes the timers. NULL-safe. */
void event_loop_destroy(struct event_loop *loop);

/* `events` are epoll's (EPOLLIN, EPOLLOUT, EPOLLHUP ...). */
typedef void event_fd_fn(void *arg, int fd, uint32_t events);

/*
 * Watch fd, level-triggered. The caller keeps it, and removes the source before closing it.
 *  -EPERM   a descriptor that cannot be polled (a regular file)
 *  -EEXIST  fd is watched already
 *  others   those of epoll_ctl()
 */
int event_loop_add_fd(struct event_loop *loop, int fd, uint32_t events, event_fd_fn *fn, void *arg,
		      struct event_source **out, struct error *err);
/* Change the events; 0 = errors only. */
int event_loop_set_events(struct event_source *source, uint32_t events, struct error *err);

typedef void event_timer_fn(void *arg);

/* Call fn every interval_ms milliseconds until it is removed; 0 = only after event_timer_arm(). */
int event_loop_add_timer(struct event_loop *loop, unsigned int interval_ms, event_timer_fn *fn,
			 void *arg, struct event_source **out, struct error *err);
/* Any thread: let a timer fire once, in delay_ms. */
void event_timer_arm(struct event_source *timer, unsigned int delay_ms);

/* Stop watching, and free. NULL-safe. The callback is not called again, even for pending events. */
void event_source_remove(struct event_source *source);

/* Run until event_loop_quit(); returns the reason given to the first call of it. */
int event_loop_run(struct event_loop *loop);

/* Any thread, async-signal-safe: end event_loop_run() with `reason` (not 0). The first call counts.
 */
void event_loop_quit(struct event_loop *loop, int reason);

#endif

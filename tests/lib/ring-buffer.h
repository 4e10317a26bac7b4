/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_RING_BUFFER_H
#define SONDE_TESTS_LIB_RING_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/error.h"
#include "tests/lib/event-format.h"

/*
 * Pages of the guest kernel's own ring buffer, as trace_pipe_raw gives them (the kernel's
 * include/linux/ring_buffer.h, enum ring_buffer_type, and events/header_page).
 */
struct ring_page {
	const unsigned char *data; /* the events */
	size_t size;               /* their bytes */
	uint64_t time;             /* trace clock before the first event */
	bool lost_events;          /* the kernel overwrote events before this page */
};

struct ring_event {
	const unsigned char *record; /* starts with the u16 common_type */
	size_t size;                 /* bytes */
	uint64_t time;               /* trace clock */
};

/*
 * Check the header of `size` bytes at `bytes`; `header` is the parsed events/header_page.
 * *page points into bytes. -EINVAL: the header says more than there is.
 */
int ring_page_init(struct ring_page *page, const struct event_format *header, const void *bytes,
		   size_t size, struct error *err);

/*
 * Take the next event off the page; page->time advances. Returns 1 and fills *event, 0 at the end,
 * or -EINVAL if an event reaches beyond the page.
 */
int ring_page_next(struct ring_page *page, struct ring_event *event, struct error *err);

#endif

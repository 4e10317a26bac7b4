// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "tests/lib/ring-buffer.h"

/* An event starts with 5 bits of type or length and 27 bits of time since the one before. */
enum {
	TYPE_LENGTH_FOLLOWS = 0, /* 1 to 28 are the length in 4-byte words */
	TYPE_PADDING = 29,
	TYPE_TIME_EXTEND = 30,
	TYPE_TIME_STAMP = 31,
};

#define DELTA_BITS 27
#define WORD 4u
/* Of the page's commit word: below these two the bytes used (RB_MISSED_EVENTS, _STORED). */
#define MISSED_EVENTS (1ull << 31)
#define MISSED_STORED (1ull << 30)

int ring_page_init(struct ring_page *page, const struct event_format *header, const void *bytes,
		   size_t size, struct error *err)
{
	const struct event_field *data = event_format_field(header, "data");
	uint64_t commit, used;

	if (!data || data->offset > size ||
	    !event_field_read(event_format_field(header, "commit"), bytes, size, &commit) ||
	    !event_field_read(event_format_field(header, "timestamp"), bytes, size, &page->time))
		return error_set(err, EINVAL, "ring buffer page: unusable header");
	used = commit & (MISSED_STORED - 1);
	if (used > size - data->offset)
		return error_set(err, EINVAL, "ring buffer page: %llu bytes used of %zu",
				 (unsigned long long)used, size - data->offset);
	page->data = (const unsigned char *)bytes + data->offset;
	page->size = used;
	page->lost_events = commit & MISSED_EVENTS;
	return 0;
}

static bool read_word(const struct ring_page *page, size_t at, uint32_t *word)
{
	if (at > page->size || page->size - at < WORD)
		return false;
	memcpy(word, page->data + at, WORD);
	return true;
}

/*
 * The bytes of the event at the page's start and of its head (what comes before the record). False:
 * it does not fit in the page.
 */
static bool measure(const struct ring_page *page, uint32_t type, uint64_t *head, uint64_t *total)
{
	uint32_t second;

	*head = WORD;
	*total = WORD + type * WORD;
	if (type == TYPE_LENGTH_FOLLOWS || type >= TYPE_PADDING) {
		if (!read_word(page, WORD, &second))
			return false;
		*head = 2 * WORD;
		*total = type >= TYPE_TIME_EXTEND ? *head : WORD + (uint64_t)second;
	}
	/* The next one starts aligned, whatever length a hostile guest wrote. */
	*total = (*total + WORD - 1) & ~(uint64_t)(WORD - 1);
	return *total >= *head && *total <= page->size;
}

/* A stamp has 59 bits of the clock; the others are those of the time so far. Padding has no time.
 */
static uint64_t time_after(uint64_t time, uint32_t type, uint32_t delta, uint32_t second)
{
	uint64_t wide = (uint64_t)second << DELTA_BITS | delta;

	if (type == TYPE_PADDING)
		return time;
	if (type == TYPE_TIME_STAMP)
		return (time & ~((1ull << 59) - 1)) | wide;
	return time + (type == TYPE_TIME_EXTEND ? wide : delta);
}

int ring_page_next(struct ring_page *page, struct ring_event *event, struct error *err)
{
	uint32_t first, second = 0, type, delta;
	uint64_t head, total;

	while (read_word(page, 0, &first)) {
		type = first & 31;
		delta = first >> 5;
		if (type == TYPE_PADDING && delta == 0)
			break; /* nothing more on this page */
		if (!measure(page, type, &head, &total))
			return error_set(err, EINVAL, "ring buffer page: event beyond the end");
		read_word(page, WORD, &second);
		page->time = time_after(page->time, type, delta, second);
		event->record = page->data + head;
		event->size = total - head;
		event->time = page->time;
		page->data += total;
		page->size -= total;
		if (type < TYPE_PADDING)
			return 1;
	}
	return 0;
}

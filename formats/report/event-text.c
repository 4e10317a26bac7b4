/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Made for millions of lines: no printf() on the way of an event. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "formats/report/digits.h"
#include "formats/report/event-text-internal.h"

enum {
	BUFFER_BYTES = 1 << 20,
	SECONDS_WIDTH = 5,
	VCPU_WIDTH = 3,
	NS_PER_S = 1000000000,
	NR_BEGINS = 64,
};

_Static_assert(EVENT_LINE_MAX < BUFFER_BYTES / 2, "the buffer holds several lines");

/* "[002]     5." */
struct line_begin {
	unsigned int vcpu, length; /* length 0: none yet */
	int64_t second;
	char text[2 * DIGITS_ROOM];
};

struct event_printer {
	int fd;
	bool json;
	struct event_texts *texts;
	struct event_layout **layouts;
	size_t nr_layouts;
	const struct event_layout *last;     /* that was used; or NULL */
	struct line_begin begins[NR_BEGINS]; /* by vCPU */
	size_t used;
	char buffer[BUFFER_BYTES];
};

int event_printer_create(int fd, bool json, struct event_texts *texts, struct event_printer **out,
			 struct error *err)
{
	struct event_printer *p = malloc(sizeof(*p));

	if (!p)
		return error_set(err, ENOMEM, "out of memory");
	p->fd = fd;
	p->json = json;
	p->texts = texts;
	p->layouts = NULL;
	p->nr_layouts = 0;
	p->last = NULL;
	memset(p->begins, 0, sizeof(p->begins));
	p->used = 0;
	*out = p;
	return 0;
}

void event_printer_destroy(struct event_printer *p)
{
	for (size_t i = 0; p && i < p->nr_layouts; i++)
		event_layout_destroy(p->layouts[i]);
	if (p)
		free(p->layouts);
	free(p);
}

int event_printer_flush(struct event_printer *p)
{
	size_t done = 0;

	while (done < p->used) {
		ssize_t n = write(p->fd, p->buffer + done, p->used - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	p->used = 0;
	return 0;
}

/* --- a line of text -------------------------------------------------------------------------- */

static char *put_padded(char *at, uint64_t value, unsigned int width, char pad)
{
	char digits[DIGITS_ROOM];
	size_t n = (size_t)(digits_put_decimal(digits, value) - digits);

	for (; width > n; width--)
		*at++ = pad;
	memcpy(at, digits, sizeof(digits));
	return at + n;
}

static void make_begin(struct line_begin *begin, unsigned int vcpu, int64_t second, bool negative)
{
	char *at = begin->text;

	*at++ = '[';
	at = put_padded(at, vcpu, VCPU_WIDTH, '0');
	memcpy(at, "] ", 2);
	at += 2;
	if (negative)
		*at++ = '-';
	at = put_padded(at, (uint64_t)second, SECONDS_WIDTH, ' ');
	*at++ = '.';
	begin->vcpu = vcpu;
	begin->second = second;
	begin->length = (unsigned int)(at - begin->text);
}

/* What a vCPU's lines begin with is the same for a second. Times may be negative. */
static char *put_begin(struct line_begin *begins, char *at, unsigned int vcpu, int64_t ns)
{
	const uint64_t absolute = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	struct line_begin other, *begin = ns < 0 ? &other : &begins[vcpu % NR_BEGINS];
	int64_t second = (int64_t)(absolute / NS_PER_S);

	if (ns < 0 || begin->vcpu != vcpu || begin->second != second || !begin->length)
		make_begin(begin, vcpu, second, ns < 0);
	memcpy(at, begin->text, sizeof(begin->text));
	return digits_put_nine(at + begin->length, (uint32_t)(absolute % NS_PER_S));
}

static char *put_string(char *at, const struct event_field *field, const void *bytes)
{
	char text[EVENT_TEXT_ROOM];
	size_t length;

	event_field_shown(field, bytes, text);
	length = strlen(text);
	memcpy(at, text, length);
	return at + length;
}

/* " (fs/inode.c:263)" behind a symbol, if that is known and asked for. */
static char *put_source(char *at, struct event_texts *texts, uint64_t code)
{
	const struct piece_text *source = event_text_of(texts, EVENT_TEXT_SOURCE, code);

	if (!source->length)
		return at;
	memcpy(at, " (", 2);
	at = piece_text_put(at + 2, source);
	*at++ = ')';
	return at;
}

static char *put_value(char *at, const struct event_text_field *f, struct event_texts *texts,
		       const void *bytes)
{
	uint64_t value;

	if (f->sort == EVENT_TEXT_STRING)
		return put_string(at, f->field, bytes);
	value = event_text_value(f, bytes);
	if (f->sort < EVENT_TEXT_SORTS) {
		at = piece_text_put(at, event_text_of(texts, f->sort, value));
		if (texts->has_source && f->sort == EVENT_TEXT_CODE)
			at = put_source(at, texts, value);
		return at;
	}
	if (f->sort == EVENT_TEXT_HEX)
		return digits_put_hex(at, value);
	if (f->sort == EVENT_TEXT_SIGNED)
		return digits_put_signed(at, (int64_t)value);
	return digits_put_decimal(at, value);
}

/* As ftrace shows it. */
static char *put_fault(char *at)
{
	static const char fault[] = "(fault)";

	memcpy(at, fault, sizeof(fault) - 1);
	return at + sizeof(fault) - 1;
}

/* A line for each frame, as perf script shows it. */
static char *put_stack(char *at, const struct event_field *field, struct event_texts *texts,
		       const void *bytes)
{
	static const char mark[] = "\t[cut]\n";
	uint64_t frames[EVENT_STACK_FRAMES];
	bool cut;
	unsigned int n = event_field_frames(field, bytes, frames, &cut);

	for (unsigned int i = 0; i < n; i++) {
		*at++ = '\t';
		at = digits_put_hex(at, frames[i]);
		*at++ = ' ';
		at = piece_text_put(at, event_text_of(texts, EVENT_TEXT_CODE, frames[i]));
		if (texts->has_source)
			at = put_source(at, texts, frames[i]);
		*at++ = '\n';
	}
	if (!cut)
		return at;
	memcpy(at, mark, sizeof(mark) - 1);
	return at + sizeof(mark) - 1;
}

static char *put_line(struct event_printer *p, char *at, const struct event_layout *layout,
		      const struct event *event)
{
	const struct event_text_field *f = layout->fields, *end = f + layout->nr_fields;
	const uint64_t faults = event_text_faults(layout, event->bytes);

	at = put_begin(p->begins, at, event->vcpu, event->ns);
	at = piece_text_put(at, layout->head);
	for (; f != end; f++) {
		at = piece_text_put(at, f->label);
		if (f->fault & faults)
			at = put_fault(at);
		else
			at = put_value(at, f, p->texts, event->bytes);
	}
	*at++ = '\n';
	return layout->stack ? put_stack(at, layout->stack, p->texts, event->bytes) : at;
}

/* --- lines ----------------------------------------------------------------------------------- */

static bool is_of(const struct event_layout *layout, const struct event *event)
{
	return layout->class == event->class && layout->instance == event->instance;
}

static const struct event_layout *add_layout(struct event_printer *p, const struct event *event)
{
	struct event_layout **bigger =
		reallocarray(p->layouts, p->nr_layouts + 1, sizeof(*p->layouts));
	struct event_layout *layout;

	if (!bigger)
		return NULL;
	p->layouts = bigger;
	layout = event_layout_create(event, p->json);
	if (layout)
		p->layouts[p->nr_layouts++] = layout;
	return layout;
}

/* Mostly that of the last event, or of the one before. NULL without memory. */
static const struct event_layout *find_layout(struct event_printer *p, const struct event *event)
{
	if (p->last && is_of(p->last, event))
		return p->last;
	p->last = NULL;
	for (size_t i = 0; !p->last && i < p->nr_layouts; i++)
		if (is_of(p->layouts[i], event))
			p->last = p->layouts[i];
	if (!p->last)
		p->last = add_layout(p, event);
	return p->last;
}

int event_printer_put(struct event_printer *p, const struct event *event)
{
	const struct event_layout *layout = find_layout(p, event);
	char *at, *end;

	if (!layout)
		return -ENOMEM;
	if (p->used > BUFFER_BYTES - EVENT_LINE_MAX) {
		int ret = event_printer_flush(p);

		if (ret)
			return ret;
	}
	at = p->buffer + p->used;
	end = p->json ? event_json_put(at, layout, p->texts, event)
		      : put_line(p, at, layout, event);
	p->used = (size_t)(end - p->buffer);
	return 0;
}

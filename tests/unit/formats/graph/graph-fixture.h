/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_FORMATS_GRAPH_GRAPH_FIXTURE_H
#define SONDE_TESTS_UNIT_FORMATS_GRAPH_GRAPH_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/graph/graph-text.h"
#include "tests/lib/tap.h"

/* Calls out of hand-made events, as they are printed. */

enum { A = 0xa, B = 0xb, C = 0xc, D = 0xd, US = 1000, TASK = 100, OTHER = 200 };

#define STACK UINT64_C(0xffffc90000104000) /* the upper ends of stacks */
#define STACK_2 UINT64_C(0xffffc9000020c000)
#define IRQ_STACK UINT64_C(0xffffc90000003000)

static struct {
	struct graph_text *text;
	struct event_texts *texts;
	FILE *out;
	char *printed;
	size_t size;
	unsigned int fields, vcpu;
	uint32_t pid;
	const char *comm;
	int64_t ns;
} t;

static inline void begin_as(unsigned int fields, const struct graph_text_options *options)
{
	memset(&t, 0, sizeof(t));
	t.fields = fields;
	t.pid = TASK;
	t.out = open_memstream(&t.printed, &t.size);
	if (!t.out || event_texts_create(NULL, &t.texts, NULL) ||
	    graph_text_create(t.out, t.texts, options, &t.text, NULL))
		abort();
}

static inline void begin_with(unsigned int fields, unsigned int depth)
{
	begin_as(fields, &(struct graph_text_options){.max_depth = depth, .stack_bytes = 16 << 10});
}

static inline void begin(void)
{
	begin_with(0, 0);
}

static inline void put(enum graph_class class, const struct graph_event *bytes)
{
	const struct event event = {.class = &graph_classes(t.fields)[class],
				    .vcpu = t.vcpu,
				    .ns = t.ns,
				    .bytes = bytes};

	if (graph_text_put(t.text, &event))
		abort();
	t.ns += US;
}

static inline void entry_of(enum graph_class class, uint64_t ip, uint64_t parent, uint64_t frame)
{
	struct graph_event event = {.call = {.ip = ip, .parent_ip = parent, .pid = t.pid},
				    .frame = frame};

	if (t.comm)
		memcpy(event.call.comm, t.comm, strlen(t.comm));
	put(class, &event);
}

/* A call from a place in the function that has the same number. */
static inline void enter(uint64_t ip, uint64_t frame)
{
	entry_of(GRAPH_ENTRY, ip, frame, frame);
}

static inline void leave_with(uint64_t frame, uint64_t result)
{
	put(GRAPH_EXIT, &(struct graph_event){.frame = frame, .result = result});
}

static inline void leave(uint64_t frame)
{
	leave_with(frame, 0);
}

/* Without the header, and the banner of the first task. */
static inline void prints(const char *expected, const char *label)
{
	const char *text;

	graph_text_end(t.text, NULL);
	fclose(t.out);
	text = strstr(t.printed, "task 100\n");
	text = text ? strchr(strchr(text, '\n') + 1, '\n') + 1 : t.printed;
	if (!ok(!strcmp(text, expected), "%s", label))
		tap_diag("%s\nnot\n%s", text, expected);
	graph_text_destroy(t.text);
	event_texts_destroy(t.texts);
	free(t.printed);
}

#endif

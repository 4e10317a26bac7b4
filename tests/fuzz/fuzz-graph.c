/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of the graph tracer in any order, paired and printed. Two bytes are an event: its class,
 * vCPU and task; its frame and function.
 */
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/graph/graph-text.h"

#define STACK UINT64_C(0xffffc90000100000)

static struct {
	uint64_t entered, left;
} seen;

static void on_enter(void *arg, struct graph_call *call)
{
	(void)arg;
	seen.entered++;
	call->note = call->frame ^ call->ip;
}

/* A call ends once, and is the one that began. */
static void on_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool was_seen)
{
	(void)arg;
	(void)vcpu;
	seen.left++;
	if (seen.left > seen.entered || call->note != (call->frame ^ call->ip) ||
	    (was_seen && call->end_ns < call->begin_ns))
		abort();
}

static struct event event_of(const uint8_t *data, int64_t ns, struct graph_event *bytes)
{
	const enum graph_class class = data[0] % GRAPH_NR_CLASSES;

	*bytes = (struct graph_event){.call = {.ip = data[1] & 7,
					       .parent_ip = data[0] >> 6,
					       .pid = data[0] >> 2 & 3,
					       .comm = "task"},
				      .frame = STACK + (data[1] >> 3 & 15) * 8 +
					       (data[1] >> 7) * UINT64_C(0x8000),
				      .result = data[1]};
	return (struct event){.class = &graph_classes(GRAPH_ALL)[class],
			      .vcpu = data[0] >> 4 & 1,
			      .ns = ns,
			      .bytes = bytes};
}

static bool wants(void *arg, uint64_t ip)
{
	(void)arg;
	return ip & 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct graph_visitor visitor = {.stack_bytes = 16 << 10,
					      .wants = size % 2 ? wants : NULL,
					      .enter = on_enter,
					      .leave = on_leave};
	const struct graph_text_options options = {
		.max_depth = size % 5, .stack_bytes = 16 << 10, .only = size % 3 ? NULL : "0x?"};
	struct graph_event bytes;
	struct event_texts *texts;
	struct graph_calls *calls;
	struct graph_text *text;
	char *printed;
	size_t printed_size;
	FILE *out = open_memstream(&printed, &printed_size);

	memset(&seen, 0, sizeof(seen));
	if (!out || event_texts_create(NULL, &texts, NULL) ||
	    graph_text_create(out, texts, &options, &text, NULL) ||
	    graph_calls_create(&visitor, &calls, NULL))
		abort();
	for (size_t i = 0; i + 1 < size; i += 2) {
		const struct event event = event_of(data + i, (int64_t)i, &bytes);

		if (graph_calls_add(calls, &event) || graph_text_put(text, &event))
			abort();
	}
	if (graph_calls_counts(calls).calls != seen.entered)
		abort();
	graph_text_end(text, NULL);
	fclose(out);
	free(printed);
	graph_text_destroy(text);
	graph_calls_destroy(calls);
	event_texts_destroy(texts);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls out of hand-made events as JSON objects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/graph/graph-json.h"
#include "tests/lib/tap.h"

enum { A = 0xa, B = 0xb, C = 0xc, US = 1000, TASK = 100 };

#define STACK UINT64_C(0xffffc90000104000) /* the upper ends of stacks */
#define IRQ_STACK UINT64_C(0xffffc90000003000)

static struct {
	struct graph_json *json;
	struct event_texts *texts;
	FILE *out;
	char *printed;
	size_t size;
	unsigned int fields, vcpu;
	int64_t ns;
} t;

static void begin_as(unsigned int fields, unsigned int depth, const char *only)
{
	const struct graph_text_options options = {
		.max_depth = depth, .only = only, .stack_bytes = 16 << 10};

	memset(&t, 0, sizeof(t));
	t.fields = fields;
	t.out = open_memstream(&t.printed, &t.size);
	if (!t.out || event_texts_create(NULL, &t.texts, NULL) ||
	    graph_json_create(t.out, t.texts, &options, &t.json, NULL))
		abort();
}

static void put(enum graph_class class, const struct graph_event *bytes)
{
	const struct event event = {.class = &graph_classes(t.fields)[class],
				    .vcpu = t.vcpu,
				    .ns = t.ns,
				    .bytes = bytes};

	if (graph_json_put(t.json, &event))
		abort();
	t.ns += US;
}

static void enter_as(enum graph_class class, uint64_t ip, uint64_t parent, uint64_t frame)
{
	put(class, &(struct graph_event){.call = {.ip = ip, .parent_ip = parent, .pid = TASK},
					 .frame = frame});
}

static void enter(uint64_t ip, uint64_t frame)
{
	enter_as(GRAPH_ENTRY, ip, 1, frame);
}

static void leave(uint64_t frame, uint64_t result)
{
	put(GRAPH_EXIT, &(struct graph_event){.frame = frame, .result = result});
}

static void prints_all(int status, const char *expected, const char *label)
{
	struct error err;
	const int ret = graph_json_end(t.json, &err);

	fclose(t.out);
	if (!ok(ret == status && !strcmp(t.printed, expected), "%s", label))
		tap_diag("%d\n%s\nnot\n%s", ret, t.printed, expected);
	graph_json_destroy(t.json);
	event_texts_destroy(t.texts);
	free(t.printed);
}

static void prints(const char *expected, const char *label)
{
	prints_all(0, expected, label);
}

static void test_nesting(void)
{
	begin_as(0, 0, NULL);
	enter(A, STACK - 100);
	t.vcpu = 1;
	enter_as(GRAPH_ENTRY, B, 0x15, STACK - 200);
	leave(STACK - 200, 0);
	leave(STACK - 100, 0);
	prints("{\"ns\":1000,\"vcpu\":1,\"pid\":100,\"name\":\"0xb\",\"caller\":\"0x15\","
	       "\"depth\":1,\"duration_ns\":1000,\"self_ns\":1000}\n"
	       "{\"ns\":0,\"vcpu\":0,\"pid\":100,\"name\":\"0xa\",\"caller\":\"0x1\","
	       "\"depth\":0,\"duration_ns\":3000,\"self_ns\":2000}\n",
	       "a call is an object when it ends, with its time, and that without inner calls");
}

static void test_task(void)
{
	struct graph_event event = {.call = {.ip = A,
					     .parent_ip = 1,
					     .pid = TASK,
					     .tgid = 99,
					     .cgroup = 55,
					     .comm = "a\"b\033"},
				    .frame = STACK - 100};

	begin_as(GRAPH_TGID | GRAPH_COMM | GRAPH_CGROUP, 0, NULL);
	put(GRAPH_ENTRY, &event);
	leave(STACK - 100, 0);
	prints("{\"ns\":0,\"vcpu\":0,\"pid\":100,\"name\":\"0xa\",\"caller\":\"0x1\","
	       "\"depth\":0,\"comm\":\"a\\\"b?\",\"tgid\":99,\"cgroup\":55,"
	       "\"duration_ns\":1000,\"self_ns\":1000}\n",
	       "what was recorded of the task is in it");
}

static void returns(uint64_t result, const char *expected)
{
	char text[200];

	begin_as(GRAPH_RESULT, 0, NULL);
	enter(A, STACK - 100);
	leave(STACK - 100, result);
	snprintf(text, sizeof(text),
		 "{\"ns\":0,\"vcpu\":0,\"pid\":100,\"name\":\"0xa\",\"caller\":\"0x1\","
		 "\"depth\":0,\"duration_ns\":1000,\"self_ns\":1000,\"ret\":%s}\n",
		 expected);
	prints(text, expected);
}

static void test_results(void)
{
	returns(8192, "8192");
	returns((uint64_t)-2, "-2");
	returns((uint32_t)-11, "-11");
	returns(UINT64_C(0xffff888003a4b000), "\"0xffff888003a4b000\"");
}

#define HEAD(ns, ip, depth)                                    \
	"{\"ns\":" ns ",\"vcpu\":0,\"pid\":100,\"name\":\"" ip \
	"\",\"caller\":\"0x1\",\"depth\":" depth ","

static void test_unknown(void)
{
	begin_as(0, 0, NULL);
	leave(STACK - 300, 0);
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	enter_as(GRAPH_CALL, C, 1, STACK - 200);
	leave(STACK - 100, 0);
	prints(HEAD("2000", "0xb", "1") "\"no_return\":\"unseen\"}\n" HEAD(
		       "3000", "0xc",
		       "1") "\"no_return\":\"unrecorded\"}\n" HEAD("1000", "0xa",
								   "0") "\"duration_ns\":3000,"
									"\"self_ns\":3000}\n",
	       "a call without a return says why, and has no time");
	begin_as(0, 0, NULL);
	enter(A, STACK - 100);
	enter_as(GRAPH_TAIL, B, 1, STACK - 100);
	leave(STACK - 100, 0);
	prints(HEAD("1000", "0xb", "1") "\"tail\":true,\"duration_ns\":1000,\"self_ns\":1000}"
					"\n" HEAD("0", "0xa",
						  "0") "\"duration_ns\":2000,\"self_ns\":1000}\n",
	       "a tail call is marked");
	begin_as(0, 0, NULL);
	enter(A, STACK - 100);
	enter(B, IRQ_STACK - 64);
	leave(IRQ_STACK - 64, 0);
	prints(HEAD("1000", "0xb",
		    "1") "\"interrupt\":true,\"duration_ns\":1000,"
			 "\"self_ns\":1000}\n" HEAD("0", "0xa", "0") "\"no_return\":\"unseen\"}\n",
	       "so is an interrupt's; what is open at the end has no return");
}

static void test_choice(void)
{
	begin_as(0, 1, "0xb");
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	enter(C, STACK - 300);
	leave(STACK - 300, 0);
	leave(STACK - 200, 0);
	enter(B, STACK - 200);
	enter(C, STACK - 300);
	prints(HEAD("1000", "0xb", "0") "\"duration_ns\":3000,\"self_ns\":2000}\n" HEAD(
		       "5000", "0xb", "0") "\"no_return\":\"unseen\"}\n",
	       "calls of some functions, and not too deep");
	begin_as(0, 0, "vfs_*");
	enter(A, STACK - 100);
	prints_all(-ENOENT, "", "without such a call that is an error");
}

int main(void)
{
	test_nesting();
	test_task();
	test_results();
	test_unknown();
	test_choice();
	return tap_done();
}

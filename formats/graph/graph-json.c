/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/graph-json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"

struct graph_json {
	FILE *out;
	struct event_texts *texts;
	struct graph_text_options options;
	struct graph_calls *calls;
	const struct call_filter *choice;  /* NULL: all */
	bool has_printed;
	bool failed;                       /* memory ran out */
};

/* --- a call ---------------------------------------------------------------------------------- */

/* Numbers, and errors; but pointers are addresses. JSON's numbers have 53 bits. */
static json_t *result_json(const struct graph_call *call)
{
	const int64_t exact = INT64_C(1) << 53, result = graph_call_result(call);

	if (result >= -GRAPH_ERRNO_MAX && result <= exact)
		return json_integer(result);
	return json_from_address(call->result);
}

static int put_task(json_t *object, const struct graph_call *call)
{
	char comm[sizeof(call->comm) + 1] = "";
	int failed = 0;

	memcpy(comm, call->comm, sizeof(call->comm));
	if (*comm)
		failed |= json_object_set_new(object, "comm", json_from_text(comm));
	if (call->tgid)
		failed |= json_object_set_new(object, "tgid", json_from_count(call->tgid));
	if (call->cgroup)
		failed |= json_object_set_new(object, "cgroup", json_from_count(call->cgroup));
	return failed;
}

static int put_end(json_t *object, const struct graph_call *call, bool seen)
{
	int failed = 0;

	if (!seen)
		return json_object_set_new(object, "no_return",
					   json_string(call->unrecorded ? "unrecorded" : "unseen"));
	failed |= json_object_set_new(object, "duration_ns",
				      json_integer(call->end_ns - call->begin_ns));
	failed |= json_object_set_new(object, "self_ns", json_from_count(graph_call_self_ns(call)));
	if (call->has_result)
		failed |= json_object_set_new(object, "ret", result_json(call));
	return failed;
}

static json_t *call_json(struct graph_json *j, const struct graph_call *call, bool seen)
{
	static const struct event_field caller = {
		.name = "parent_ip", .type = EVENT_CODE, .size = sizeof(call->parent_ip)};
	json_t *name = json_from_text(event_texts_function(j->texts, call->ip));
	json_t *object = json_pack(
		"{sI si so so so si}", "ns", (json_int_t)call->begin_ns, "vcpu", (int)call->vcpu,
		"pid", json_from_count(call->pid), "name", name, "caller",
		json_from_text(event_texts_of(j->texts, &caller, call->parent_ip)), "depth",
		(int)call->depth);
	int failed = put_task(object, call);

	if (call->is_tail)
		failed |= json_object_set_new(object, "tail", json_true());
	if (call->interrupts)
		failed |= json_object_set_new(object, "interrupt", json_true());
	failed |= put_end(object, call, seen);
	return json_if_whole(object, failed);
}

static void print(struct graph_json *j, const struct graph_call *call, bool seen)
{
	json_t *object = call_json(j, call, seen);
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	if (text)
		fprintf(j->out, "%s\n", text);
	j->has_printed |= text != NULL;
	j->failed |= !text;
	free(text);
}

/* --- visits ---------------------------------------------------------------------------------- */

static bool is_wanted(void *arg, uint64_t ip)
{
	struct graph_json *j = arg;

	return graph_name_matches(j->options.only, event_texts_function(j->texts, ip));
}

static void on_enter(void *arg, struct graph_call *call)
{
	(void)arg;
	(void)call;
}

static bool is_printed(const struct graph_json *j, const struct graph_call *call)
{
	return !j->options.max_depth || call->depth < j->options.max_depth;
}

static void on_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct graph_json *j = arg;

	(void)vcpu;
	if (is_printed(j, call) && graph_choice_has(j->choice, call, seen))
		print(j, call, seen);
}

static void on_open(void *arg, const struct graph_call *call)
{
	on_leave(arg, call, call->vcpu, false);
}

/* --- life ------------------------------------------------------------------------------------ */

int graph_json_create(FILE *out, struct event_texts *texts,
		      const struct graph_text_options *options, struct graph_json **json,
		      struct error *err)
{
	struct graph_json *j = calloc(1, sizeof(*j));
	const struct graph_visitor visitor = {.arg = j,
					      .stack_bytes = options->stack_bytes,
					      .wants = options->only ? is_wanted : NULL,
					      .enter = on_enter,
					      .leave = on_leave};
	int ret;

	if (!j)
		return error_set(err, ENOMEM, "out of memory");
	j->out = out;
	j->texts = texts;
	j->options = *options;
	ret = graph_calls_create(&visitor, &j->calls, err);
	if (ret)
		graph_json_destroy(j);
	else
		*json = j;
	return ret;
}

void graph_json_destroy(struct graph_json *j)
{
	if (!j)
		return;
	graph_calls_destroy(j->calls);
	free(j);
}

int graph_json_put(struct graph_json *j, const struct event *event)
{
	return graph_calls_add(j->calls, event) || j->failed ? -ENOMEM : 0;
}

void graph_json_choose(struct graph_json *j, const struct call_filter *choice)
{
	j->choice = choice;
}

int graph_json_end(struct graph_json *j, struct error *err)
{
	if (graph_calls_visit_open_in_order(j->calls, on_open, j) || j->failed)
		return error_set(err, ENOMEM, "out of memory");
	if (!j->options.only || graph_calls_counts(j->calls).calls)
		return 0;
	return error_set(err, ENOENT, "--only: no call of a function '%s' is in the trace",
			 j->options.only);
}

bool graph_json_has_printed(const struct graph_json *j)
{
	return j->has_printed;
}

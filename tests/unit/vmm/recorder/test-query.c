/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client of the monitor gets of a trace, and changes of it. */
#include <errno.h>
#include <jansson.h>
#include "tests/unit/vmm/recorder/tracing-fixture.h"

static int change(const struct tracing *t, enum monitor_change what, const char *text)
{
	const struct monitor_target *target = &t->recorder->target;
	struct error err = {0};
	json_t *reply = NULL;
	int ret = target->trace->change(target->trace_arg, what, text, &reply, &err);

	json_decref(reply);
	tap_diag("%s: %s", text, err.text);
	return ret;
}

/* The names of the instances, each with a space behind. */
static void list(const struct tracing *t, char *names, size_t size)
{
	const struct monitor_target *target = &t->recorder->target;
	json_t *instances = target->trace->instances(target->trace_arg), *instance;
	size_t i, used = 0;

	names[0] = '\0';
	json_array_foreach(instances, i, instance)
	{
		used += (size_t)snprintf(names + used, size - used, "%s ",
					 json_string_value(json_object_get(instance, "name")));
	}
	json_decref(instances);
}

static void test_instances(void)
{
	static struct tracing t;
	char names[64];

	begin_tracing(&t, 0);
	list(&t, names, sizeof(names));
	is_str(names, "kmem ", "the tracer of the command line is listed");
	ok(change(&t, MONITOR_ADD, "kmem:cache") == -EEXIST, "its name is taken");
	ok(change(&t, MONITOR_ADD, "x=nonsense") == -EINVAL, "an unknown tracer is refused");
	ok(change(&t, MONITOR_REMOVE, "x") == -ENOENT, "one that is not there cannot be removed");
	switch_tracing(&t, false);
	ok(!change(&t, MONITOR_REPLACE, "kmem:cache"), "while tracing is off it can be replaced");
	list(&t, names, sizeof(names));
	is_str(names, "kmem ", "there is one still");
	switch_tracing(&t, true);
	end_tracing(&t);
}

static json_int_t number_in(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text_in(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* What a monitor's client gets. */
static void test_query(void)
{
	static struct tracing t;
	const struct monitor_trace_ops *trace;
	const char *specs[TRACE_MAX_INSTANCES + 1];
	json_t *reply, *vcpus;
	struct error err;
	uint64_t gpa = 0;
	void *snapshot;

	begin_tracing(&t, 0);
	trace = t.recorder->target.trace;
	allocate(&t);
	allocate(&t);
	reply = trace->query(t.recorder);
	ok(json_is_true(json_object_get(reply, "enabled")) && number_in(reply, "events") == 2 &&
		   number_in(reply, "allocs") == 2 && !number_in(reply, "frees"),
	   "query-trace: tracing is on, and how many events there are");
	ok(number_in(reply, "tracing_ns") > 0, "query-trace: for how long it has been on");
	is_str(text_in(reply, "mode"), "trap", "query-trace: how it traces");
	is_str(text_in(reply, "trace_dir"), t.trace, "query-trace: where to");
	is_str(text_in(reply, "domain"), "web1", "query-trace: of which domain");
	ok(number_in(json_object_get(reply, "sites"), "entry") > 0 &&
		   json_is_array(json_object_get(json_object_get(reply, "sites"), "refused")),
	   "query-trace: how many functions");
	vcpus = json_object_get(reply, "vcpus");
	ok(json_array_size(vcpus) == FAKE_VCPUS &&
		   number_in(json_array_get(vcpus, 0), "allocs") == 2 &&
		   !number_in(json_array_get(vcpus, 1), "allocs"),
	   "query-trace: which vCPU's");
	json_decref(reply);
	ok(!trace->translate(t.recorder, FAKE_LINK_TEXT + FAKE_SLIDE, &gpa, &err) &&
		   gpa == FAKE_PHYS_TEXT,
	   "an address of the kernel's text is translated");
	ok(trace->translate(t.recorder, 0x1000, &gpa, &err) < 0,
	   "one that is not mapped is not: %s", err.text);
	ok(trace->start(t.recorder, NULL, 0, &err) == -EALREADY,
	   "what traces cannot be started: %s", err.text);
	ok(trace->start(t.recorder, specs, TRACE_MAX_INSTANCES + 1, &err) == -E2BIG,
	   "there may be so many tracers: %s", err.text);
	ok(!trace->snapshot(t.recorder, &snapshot, &err) && !trace->await_snapshot(snapshot, &err),
	   "what is gathered is written at once");
	ok(!trace->stop(t.recorder, &err) && trace->stop(t.recorder, &err) == -EALREADY,
	   "tracing is stopped once: %s", err.text);
	reply = trace->query(t.recorder);
	ok(json_is_false(json_object_get(reply, "enabled")), "query-trace: tracing is off");
	json_decref(reply);
	end_tracing(&t);
}

int main(void)
{
	test_query();
	test_instances();
	return tap_done();
}

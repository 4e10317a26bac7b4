/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/syscalls/syscall-text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/syscalls/call-choice.h"
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"

enum {
	NS_PER_S = 1000000000,
	NS_PER_US = 1000,
};

struct syscall_text {
	FILE *out;
	struct event_texts *texts;
	struct syscall_text_options options;
	struct syscall_calls *calls;
	struct syscall_prototypes *prototypes;
	struct syscall_choice *choice;
	bool has_printed;
};

static const char *name_of(struct syscall_text *t, const struct syscall_call *call)
{
	return syscall_name_of(event_texts_function(t->texts, call->ip));
}

/* --- a line of text -------------------------------------------------------------------------- */

static void print_place(FILE *out, const struct syscall_call *call)
{
	const uint64_t ns =
		call->begin_ns < 0 ? -(uint64_t)call->begin_ns : (uint64_t)call->begin_ns;
	char raw[sizeof(call->comm) + 1] = "", comm[sizeof(raw)];

	memcpy(raw, call->comm, sizeof(call->comm));
	clean_text(comm, sizeof(comm), raw);
	fprintf(out, "[%03u] %s%5" PRIu64 ".%09" PRIu64 " %s%s%" PRIu32 " ", call->vcpu,
		call->begin_ns < 0 ? "-" : "", ns / NS_PER_S, ns % NS_PER_S, comm, *comm ? "-" : "",
		call->pid);
}

/* " ENOENT" behind -2; "" behind what is no error that user space knows. */
static struct text errno_text(int64_t result)
{
	const char *name = NULL;
	struct text out = {""};

	if (result < 0 && result >= -SYSCALL_ERRNO_MAX)
		name = strerrorname_np((int)-result);
	if (name)
		snprintf(out.s, sizeof(out.s), " %s", name);
	return out;
}

static void print_result(FILE *out, const struct syscall_call *call)
{
	const int64_t ns = call->end_ns - call->begin_ns;

	if (call->end == SYSCALL_UNRECORDED) {
		fputs(" = ? <its return is not recorded>\n", out);
		return;
	}
	if (call->end == SYSCALL_UNSEEN) {
		fputs(" = ? <no return seen>\n", out);
		return;
	}
	if (call->result >= -SYSCALL_ERRNO_MAX && call->result <= UINT32_MAX)
		fprintf(out, " = %" PRId64 "%s", call->result, errno_text(call->result).s);
	else
		fprintf(out, " = 0x%" PRIx64, (uint64_t)call->result);
	fprintf(out, " <%" PRId64 ".%03" PRId64 " us>\n", ns / NS_PER_US, ns % NS_PER_US);
}

static void print_text(struct syscall_text *t, const struct syscall_call *call)
{
	const char *name = name_of(t, call);
	const struct syscall_prototype *prototype = syscall_prototypes_find(t->prototypes, name);

	print_place(t->out, call);
	fprintf(t->out, "%s(", name);
	for (unsigned int i = 0; i < prototype->nr_args; i++) {
		char value[SYSCALL_VALUE_SIZE];

		syscall_value_text(prototype->args[i].show, call->args[i], value);
		fprintf(t->out, "%s%s=%s", i ? ", " : "", prototype->args[i].name, value);
	}
	fputs(")", t->out);
	print_result(t->out, call);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *argument_json(enum syscall_show show, uint64_t value)
{
	switch (show) {
	case SYSCALL_SHOW_INT_32:
		return json_integer((int32_t)value);
	case SYSCALL_SHOW_INT:
		return json_integer((int64_t)value);
	case SYSCALL_SHOW_UINT_32:
		return json_integer((uint32_t)value);
	case SYSCALL_SHOW_UINT:
		return json_from_count(value);
	case SYSCALL_SHOW_OCTAL:
		return json_integer((uint16_t)value);
	case SYSCALL_SHOW_HEX_32:
		return json_from_address((uint32_t)value);
	case SYSCALL_SHOW_HEX:
		break;
	}
	return json_from_address(value);
}

static json_t *call_json(struct syscall_text *t, const struct syscall_call *call)
{
	const char *name = name_of(t, call);
	const struct syscall_prototype *prototype = syscall_prototypes_find(t->prototypes, name);
	char comm[sizeof(call->comm) + 1] = "";
	json_t *args = json_object(), *object;
	int failed = 0;

	memcpy(comm, call->comm, sizeof(call->comm));
	for (unsigned int i = 0; i < prototype->nr_args; i++)
		failed |=
			json_object_set_new(args, prototype->args[i].name,
					    argument_json(prototype->args[i].show, call->args[i]));
	object = json_pack("{sI si so}", "ns", (json_int_t)call->begin_ns, "vcpu", (int)call->vcpu,
			   "pid", json_from_count(call->pid));
	if (*comm)
		failed |= json_object_set_new(object, "comm", json_from_text(comm));
	failed |= json_object_set_new(object, "name", json_from_text(name));
	failed |= json_object_set_new(object, "args", args);
	if (call->tgid)
		failed |= json_object_set_new(object, "tgid", json_from_count(call->tgid));
	if (call->cgroup)
		failed |= json_object_set_new(object, "cgroup", json_from_count(call->cgroup));
	if (call->end == SYSCALL_RETURNED) {
		failed |= json_object_set_new(object, "ret", json_integer(call->result));
		failed |= json_object_set_new(object, "duration_ns",
					      json_integer(call->end_ns - call->begin_ns));
	}
	if (failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int print_json(struct syscall_text *t, const struct syscall_call *call)
{
	json_t *object = call_json(t, call);
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	if (!text)
		return -ENOMEM;
	fprintf(t->out, "%s\n", text);
	free(text);
	return 0;
}

/* --- life ------------------------------------------------------------------------------------ */

static int on_call(void *arg, const struct syscall_call *call)
{
	struct syscall_text *t = arg;

	if (!syscall_choice_has(t->choice, call))
		return 0;
	t->has_printed = true;
	if (t->options.json)
		return print_json(t, call);
	print_text(t, call);
	return 0;
}

int syscall_text_create(FILE *out, struct event_texts *texts,
			const struct syscall_text_options *options, struct syscall_text **text,
			struct error *err)
{
	struct syscall_text *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->out = out;
	t->texts = texts;
	t->options = *options;
	ret = syscall_calls_create(on_call, t, &t->calls, err);
	if (!ret)
		ret = syscall_prototypes_create(options->prototypes, &t->prototypes, err);
	if (!ret)
		ret = syscall_choice_create(options->filters, options->vcpus, options->instance,
					    texts, &t->choice, err);
	if (ret)
		syscall_text_destroy(t);
	else
		*text = t;
	return ret;
}

void syscall_text_destroy(struct syscall_text *t)
{
	if (!t)
		return;
	syscall_choice_destroy(t->choice);
	syscall_prototypes_destroy(t->prototypes);
	syscall_calls_destroy(t->calls);
	free(t);
}

int syscall_text_put(struct syscall_text *t, const struct event *event)
{
	return syscall_calls_add(t->calls, event);
}

int syscall_text_end(struct syscall_text *t)
{
	return syscall_calls_end(t->calls);
}

bool syscall_text_has_printed(const struct syscall_text *t)
{
	return t->has_printed;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls: what is known of one where it begins, or returns, and the names of its arguments.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/syscalls/prototypes.h"
#include "guest-symbols/functions/function-set.h"
#include "guest-symbols/functions/syscalls.h"
#include "patcher/tracers/hist/hist.h"

enum { RDI = 7, WORD = 8 };

/* --- an event of one -------------------------------------------------------------------------- */

struct syscall_values {
	uint64_t id, args[SYSCALL_ARGS], cgroup, ret;
	uint32_t pid, tgid;
	char comm[EVENT_STRING_MAX];
};

#define FIELD(name_, type_, member)                                   \
	{                                                             \
		.name = name_, .type = type_,                         \
		.size = sizeof(((struct syscall_values *)0)->member), \
		.at = offsetof(struct syscall_values, member)         \
	}

static const struct event_field own_fields[] = {
	FIELD("id", EVENT_UINT, id),         FIELD("arg0", EVENT_HEX, args[0]),
	FIELD("arg1", EVENT_HEX, args[1]),   FIELD("arg2", EVENT_HEX, args[2]),
	FIELD("arg3", EVENT_HEX, args[3]),   FIELD("arg4", EVENT_HEX, args[4]),
	FIELD("arg5", EVENT_HEX, args[5]),   FIELD("pid", EVENT_UINT, pid),
	FIELD("tgid", EVENT_UINT, tgid),     FIELD("comm", EVENT_STRING, comm),
	FIELD("cgroup", EVENT_UINT, cgroup), FIELD("ret", EVENT_INT, ret)};
enum {
	NR_OWN = sizeof(own_fields) / sizeof(own_fields[0]),
	RESULT = NR_OWN - 1, /* at returns */
	NAME_SIZE = 24
};

struct hist_syscalls {
	bool at_returns;
	struct syscall_argument args[SYSCALL_ARGS]; /* without a name: calls have different ones */
	/* Of an event, which is never written to a trace. */
	struct event_class class;
	struct event_field fields[NR_OWN + SYSCALL_ARGS];
	char names[NR_OWN][NAME_SIZE];
};

/* How the kernel's types of arguments are shown and compared. */
static const struct {
	enum hist_show show;
	enum event_field_type type;
	uint8_t size;
} kinds[] = {
	[SYSCALL_SHOW_HEX] = {HIST_HEX, EVENT_HEX, 8},
	[SYSCALL_SHOW_HEX_32] = {HIST_HEX, EVENT_HEX, 4},
	[SYSCALL_SHOW_INT_32] = {HIST_SIGNED, EVENT_INT, 4},
	[SYSCALL_SHOW_INT] = {HIST_SIGNED, EVENT_INT, 8},
	[SYSCALL_SHOW_UINT_32] = {HIST_UNSIGNED, EVENT_UINT, 4},
	[SYSCALL_SHOW_UINT] = {HIST_UNSIGNED, EVENT_UINT, 8},
	[SYSCALL_SHOW_OCTAL] = {HIST_HEX, EVENT_HEX, 4},
};

/* --- names ------------------------------------------------------------------------------------ */

/* What is not the same argument of this call, too, has no name. */
static void intersect(struct syscall_argument *args, const struct syscall_prototype *call)
{
	for (unsigned int i = 0; i < SYSCALL_ARGS; i++) {
		if (i >= call->nr_args || strcmp(args[i].name, call->args[i].name) != 0)
			args[i].name[0] = '\0';
		else if (args[i].show != call->args[i].show)
			args[i].show = SYSCALL_SHOW_HEX;
	}
}

/* Those of a call of which nothing is known are what all calls have. */
static void forget_numbers(struct syscall_argument *args)
{
	for (unsigned int i = 0; i < SYSCALL_ARGS; i++)
		if (!strcmp(args[i].name, own_fields[1 + i].name))
			args[i].name[0] = '\0';
}

static void find_names(struct hist_syscalls *s, const struct image_syscalls *calls,
		       const struct function_set *set, const struct syscall_prototypes *prototypes)
{
	bool any = false;

	for (size_t i = 0; i < calls->n; i++) {
		const struct syscall_prototype *call;

		if (!function_set_has(set, calls->v[i].name, NULL))
			continue;
		call = syscall_prototypes_find(prototypes, calls->v[i].name);
		if (!any)
			memcpy(s->args, call->args, sizeof(s->args));
		any = true;
		intersect(s->args, call);
	}
	forget_numbers(s->args);
}

static bool is_argument(const struct hist_syscalls *s, const char *name)
{
	bool is = false;

	for (unsigned int i = 0; i < SYSCALL_ARGS; i++)
		is |= !strcmp(s->args[i].name, name);
	return is;
}

/* That of rt_sigreturn() is -1 when it returns. */
static enum event_field_type id_type(const struct hist_syscalls *s)
{
	return s->at_returns ? EVENT_INT : EVENT_UINT;
}

/* See event_field_is_own(). */
static void make_class(struct hist_syscalls *s)
{
	const size_t nr_own = s->at_returns ? NR_OWN : RESULT;
	size_t n = 0;

	for (; n < nr_own; n++) {
		s->fields[n] = own_fields[n];
		if (!n)
			s->fields[n].type = id_type(s);
		s->fields[n].name =
			event_own_name(own_fields[n].name, is_argument(s, own_fields[n].name),
				       s->names[n], NAME_SIZE);
	}
	for (unsigned int i = 0; i < SYSCALL_ARGS; i++) {
		if (!s->args[i].name[0])
			continue;
		s->fields[n++] = (struct event_field){
			.name = s->args[i].name,
			.type = kinds[s->args[i].show].type,
			.size = kinds[s->args[i].show].size,
			.at = (uint16_t)(offsetof(struct syscall_values, args) + i * WORD),
			.is_argument = true};
	}
	s->class = (struct event_class){.system = "syscalls",
					.name = s->at_returns ? "sys_exit" : "sys_enter",
					.fields = s->fields,
					.nr_fields = n,
					.size = sizeof(struct syscall_values)};
}

static int read_image(struct hist_syscalls *s, const struct trace_spec *spec,
		      const struct kernel_image *image, struct error *err)
{
	struct syscall_prototypes *prototypes = NULL;
	const struct image_syscalls *calls;
	struct function_set *set = NULL;
	int ret = image_syscalls_of(image, SYSCALL_64, &calls, err);

	if (!ret)
		ret = syscall_prototypes_create(calls->prototypes, &prototypes, err);
	if (!ret)
		ret = function_set_create(&spec->functions, &set, err);
	if (!ret)
		find_names(s, calls, set, prototypes);
	function_set_destroy(set);
	syscall_prototypes_destroy(prototypes);
	return ret;
}

int hist_syscalls_create(const struct trace_spec *spec, const struct kernel_image *image,
			 struct hist_syscalls **out, struct error *err)
{
	struct hist_syscalls *s = calloc(1, sizeof(*s));
	int ret = 0;

	*out = s;
	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->at_returns = hist_is_at_returns(spec);
	if (image)
		ret = read_image(s, spec, image, err);
	make_class(s);
	return ret;
}

void hist_syscalls_destroy(struct hist_syscalls *calls)
{
	free(calls);
}

/* --- fields and conditions -------------------------------------------------------------------- */

/* The function's parameter points to them, and does no more when it returns. */
static struct hist_field field_of(const char *name, enum gate_source source, bool at_returns,
				  enum hist_show show, uint8_t size)
{
	return (struct hist_field){.name = name,
				   .operand = {.source = HIST_POINTED,
					       .reg = at_returns ? FETCH_USER_REGS : RDI,
					       .at = gate_syscall_place(source),
					       .size = size,
					       .is_signed = show == HIST_SIGNED},
				   .show = show};
}

void hist_syscalls_fields(const struct hist_syscalls *calls, bool at_returns,
			  struct hist_fields *out)
{
	const enum hist_show id = at_returns ? HIST_SIGNED : HIST_UNSIGNED;
	struct hist_field field;

	for (unsigned int i = 0; calls && i < SYSCALL_ARGS; i++) {
		if (!calls->args[i].name[0])
			continue;
		field = field_of(calls->args[i].name, GATE_SYSCALL_ARG0 + i, at_returns,
				 kinds[calls->args[i].show].show, kinds[calls->args[i].show].size);
		hist_fields_add(out, &field);
	}
	for (unsigned int i = 0; i <= SYSCALL_ARGS; i++) {
		field = field_of(calls ? calls->names[i] : own_fields[i].name, GATE_SYSCALL + i,
				 at_returns, i ? HIST_HEX : id, WORD);
		hist_fields_add(out, &field);
	}
	field = (struct hist_field){.name = calls ? calls->names[RESULT] : own_fields[RESULT].name,
				    .operand = {.source = HIST_REGISTER,
						.reg = FETCH_AX,
						.size = WORD,
						.is_signed = true},
				    .show = HIST_SIGNED};
	if (at_returns)
		hist_fields_add(out, &field);
}

/* What the guest can decide of an event. */
static size_t list_gate_fields(const struct hist_syscalls *s, struct gate_field *out)
{
	static const struct gate_field of_task[] = {
		{"pid", GATE_PID, 4, false},
		{"tgid", GATE_TGID, 4, false},
		{"cgroup", GATE_CGROUP, WORD, false},
	};
	size_t n = 0;

	out[n++] = (struct gate_field){.source = GATE_VCPU, .size = 4};
	for (size_t i = 0; i < sizeof(of_task) / sizeof(of_task[0]); i++) {
		out[n] = of_task[i];
		out[n++].name = event_field_own(&s->class, of_task[i].name)->name;
	}
	for (size_t i = 0; i < s->class.nr_fields; i++) {
		const struct event_field *field = &s->class.fields[i];
		const size_t word = field->at / WORD;

		if (field->at == own_fields[RESULT].at)
			out[n++] = (struct gate_field){field->name, GATE_RESULT, WORD, true};
		if (word <= SYSCALL_ARGS)
			out[n++] =
				(struct gate_field){field->name, GATE_SYSCALL + (unsigned int)word,
						    field->size, field->type == EVENT_INT};
	}
	return n;
}

int hist_syscalls_rest(const struct hist_syscalls *calls, const struct trace_spec *spec,
		       const struct hist_fields *known, struct gate *gate, struct hist_rest **out,
		       struct error *err)
{
	struct gate_field in_guest[4 + NR_OWN + SYSCALL_ARGS];
	const struct hist_condition condition = {.spec = spec,
						 .class = &calls->class,
						 .in_guest = in_guest,
						 .nr_in_guest = list_gate_fields(calls, in_guest),
						 .known = known,
						 .what = "system calls"};
	int ret = hist_rest_create(&condition, gate, out, err);

	if (ret && err && err->column)
		err->column = trace_spec_filter_column(spec, err->column);
	return ret;
}

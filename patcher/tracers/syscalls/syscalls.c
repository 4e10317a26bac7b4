/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The syscalls tracer: every system call that its patterns name, and its return, is an event: of
 * 64-bit programs, or of 32-bit ones. A reader pairs them by the frame. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "guest-symbols/functions/syscalls.h"
#include "patcher/tracers/functions.h"

enum { MAX_SITE_OFFSET = 4 /* of an mcount site: behind an ENDBR */ };

/* In the order of the bits of enum syscall_fields, and what is no field. */
static const char *const words[] = {TRACER_TASK_WORDS, "ia32", "return", NULL};

static const struct trace_read_option readers[] = {
	{"vcpu", "sonde events --vcpu N", FUNCTIONS_OTHER_VCPU},
	{"cpu", "sonde events --vcpu N", FUNCTIONS_OTHER_VCPU},
	{NULL, NULL, NULL}};
/* The numbers of words, and their bits. */
enum { IA32_WORD = EVENT_TASK_FIELDS, RETURN_WORD };
enum { WORD_IA32 = 1 << IA32_WORD, WORD_RETURN = 1 << RETURN_WORD };
_Static_assert((int)SYSCALL_ENTER == TRACER_ENTRY && (int)SYSCALL_EXIT == TRACER_EXIT &&
		       (int)SYSCALL_ENTER_ONLY == TRACER_CALL,
	       "the classes by their numbers");

/* A call as readers see it. No event is one: a condition on it is decided by the guest, or refused.
 */
struct whole_call {
	uint64_t id, args[SYSCALL_ARGS], cgroup, ret, duration;
	uint32_t pid, tgid;
	char name[EVENT_STRING_MAX], comm[EVENT_STRING_MAX];
};

#define FIELD(name_, type_, member)                                                             \
	{                                                                                       \
		.name = name_, .type = type_, .size = sizeof(((struct whole_call *)0)->member), \
		.at = offsetof(struct whole_call, member)                                       \
	}

static const struct event_field call_fields[] = {
	FIELD("pid", EVENT_UINT, pid),     FIELD("tgid", EVENT_UINT, tgid),
	FIELD("comm", EVENT_STRING, comm), FIELD("cgroup", EVENT_UINT, cgroup),
	FIELD("name", EVENT_STRING, name), FIELD("id", EVENT_UINT, id),
	FIELD("arg0", EVENT_HEX, args[0]), FIELD("arg1", EVENT_HEX, args[1]),
	FIELD("arg2", EVENT_HEX, args[2]), FIELD("arg3", EVENT_HEX, args[3]),
	FIELD("arg4", EVENT_HEX, args[4]), FIELD("arg5", EVENT_HEX, args[5]),
	FIELD("ret", EVENT_INT, ret),      FIELD("duration", EVENT_UINT, duration)};

static const struct event_class call_class = {.system = "syscalls",
					      .name = "call",
					      .fields = call_fields,
					      .nr_fields =
						      sizeof(call_fields) / sizeof(call_fields[0]),
					      .size = sizeof(struct whole_call)};

struct syscalls_tracer {
	struct tracer tracer;
	const struct kernel *kernel;
	const struct image_syscalls *calls;
	const struct trace_spec *spec;
	struct function_set *set;
	struct gate gate;
};

extern const struct tracer_ops tracer_syscalls; /* registry.c lists it */

static const struct syscalls_tracer *syscalls_of(const struct tracer *tracer)
{
	return (const struct syscalls_tracer *)tracer;
}

static void syscalls_destroy(struct tracer *tracer)
{
	struct syscalls_tracer *t = (struct syscalls_tracer *)tracer;

	function_set_destroy(t->set);
	free(t);
}

static enum syscall_abi abi_of(const struct trace_spec *spec)
{
	return spec->words & WORD_IA32 ? SYSCALL_IA32 : SYSCALL_64;
}

/* --- which calls ----------------------------------------------------------------------------- */

/* The gate says yes, too, to calls by this function. */
static int add_caller(struct gate *gate, uint64_t begin, uint64_t end, struct error *err)
{
	const unsigned int before = gate->n;
	unsigned int middle;
	int ret = gate_append(gate, gate_term(GATE_CALL_SITE, GATE_GE, begin), err);

	middle = gate->n;
	if (!ret)
		ret = gate_append(gate, gate_term(GATE_CALL_SITE, GATE_LT, end), err);
	if (ret)
		return ret;
	gate_and(gate, before, middle);
	if (before)
		gate_or(gate, 0, before);
	return 0;
}

/*
 * Many functions of system calls tail-call one that others call, too: __x64_sys_read() ends in
 * ksys_read(). Its returns are recorded; the gate lets those to the callers of system calls pass.
 */
static int add_callers(struct syscalls_tracer *t, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < t->calls->nr_callers; i++)
		ret = add_caller(&t->gate, kernel_gva(t->kernel, t->calls->callers[i].address),
				 kernel_gva(t->kernel, t->calls->callers[i].end), err);
	return ret;
}

static bool is_at_returns(const struct trace_spec *spec)
{
	return spec->words & WORD_RETURN;
}

static bool is_wanted(const char *name, struct function_set *set)
{
	return name && function_set_has(set, name, NULL);
}

/* Ascending, with those between two of them that no call has: so there are fewer comparisons.
 * restore_sigcontext() makes -1 of that of rt_sigreturn(). */
static size_t list_numbers(const struct kernel_image *image, const struct image_syscalls *calls,
			   struct function_set *set, uint64_t *out)
{
	const uint64_t all = image_syscall_numbers(image);
	bool sigreturn = false;
	size_t n = 0, end = 0;

	for (uint64_t i = 0; i < all; i++) {
		const char *name = image_syscall_name(image, calls, i);
		const bool wanted = is_wanted(name, set);

		if (name && !wanted)
			n = end;
		else if (wanted || (n && out[n - 1] == i - 1))
			out[n++] = i;
		end = wanted ? n : end;
		sigreturn |= wanted && !strcmp(name, "rt_sigreturn");
	}
	n = end;
	if (sigreturn)
		out[n++] = UINT64_MAX;
	return n;
}

static int refuse_numbers(const struct trace_spec *spec, int code, const char *why,
			  struct error *err)
{
	const unsigned int column = spec->functions.v[0].column;

	return error_set_column(err, code, column,
				"trace spec, character %u: returns of some system calls are told "
				"from those of others by their numbers, %s: count those of all, "
				"and choose by the key 'id'",
				column, why);
}

/*
 * System calls share what they tail-call, and its returns: __x64_sys_open() and __x64_sys_openat()
 * end in the same function. So the gate asks for the numbers of those that are counted.
 */
static int add_numbers(struct gate *gate, const struct trace_spec *spec,
		       const struct kernel_image *image, const struct image_syscalls *calls,
		       struct function_set *set, struct error *err)
{
	struct gate list = {0};
	uint64_t *numbers;
	size_t n;
	int ret = 0;

	if (!spec->functions.n)
		return 0;
	if (!image_syscall_numbers(image))
		return refuse_numbers(spec, ENOTSUP, "which this kernel has no table of", err);
	numbers = calloc(image_syscall_numbers(image) + 1, sizeof(*numbers));
	if (!numbers)
		return error_set(err, ENOMEM, "out of memory");
	n = list_numbers(image, calls, set, numbers);
	if (n)
		ret = gate_append_list(&list, gate_term(GATE_SYSCALL, GATE_EQ, 0), numbers, n, err);
	if (!ret)
		ret = gate_conjoin(gate, &list, err);
	free(numbers);
	return ret == -E2BIG ? refuse_numbers(spec, E2BIG,
					      "and these are more, apart from each other, than "
					      "the guest can compare",
					      err)
			     : ret;
}

/* Why no function of the image has a return slot. */
static int check_slots(const struct trace_spec *spec, const struct kernel_image *image,
		       struct error *err)
{
	const unsigned int column = spec->word_columns[RETURN_WORD];
	const char *freed = kernel_image_freed_returns(image);

	if (image->nr_return_sites && !freed)
		return 0;
	return error_set_column(err, ENOTSUP, column,
				"trace spec, character %u: no returns of this kernel can be "
				"counted: %s",
				column, freed ? freed : "it has no return thunks");
}

static int add_returns(struct gate *gate, const struct trace_spec *spec,
		       const struct kernel_image *image, const struct image_syscalls *calls,
		       struct function_set *set, struct error *err)
{
	int ret = check_slots(spec, image, err);

	return ret ? ret : add_numbers(gate, spec, image, calls, set, err);
}

static int refuse_returns(const struct trace_spec *spec, struct error *err)
{
	const unsigned int column = spec->word_columns[RETURN_WORD];

	return error_set_column(err, EINVAL, column,
				"trace spec, character %u: the word 'return' is for histograms, as "
				"in syscalls:return,hist:keys=id,ret: without one, calls are "
				"recorded with their returns",
				column);
}

/* Those of a histogram are on entries or returns, and its own. */
static int syscalls_check(const struct trace_spec *spec, struct error *err)
{
	if (spec->hist)
		return 0;
	if (is_at_returns(spec))
		return refuse_returns(spec, err);
	return functions_check_calls(spec, &call_class, NULL,
				     "sonde events --syscalls --filter EXPR", err);
}

static int add_conditions(struct gate *gate, const struct kernel *kernel,
			  const struct trace_spec *spec, struct error *err)
{
	return spec->hist ? functions_add_pids(gate, spec, err)
			  : functions_add_calls(gate, kernel, spec, &call_class, err);
}

static int syscalls_create(const struct tracer_context *context,
			   const struct trace_spec *const *specs, size_t nr_specs,
			   struct tracer **out, struct error *err)
{
	struct syscalls_tracer *t = calloc(1, sizeof(*t));
	int ret;

	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_syscalls;
	t->kernel = context->kernel;
	t->spec = specs[0];
	ret = image_syscalls_of(t->kernel->image, abi_of(t->spec), &t->calls, err);
	if (!ret)
		ret = function_set_create(&t->spec->functions, &t->set, err);
	if (!ret)
		ret = add_callers(t, err);
	if (!ret && is_at_returns(t->spec))
		ret = add_returns(&t->gate, t->spec, t->kernel->image, t->calls, t->set, err);
	if (!ret)
		ret = add_conditions(&t->gate, t->kernel, t->spec, err);
	if (!ret)
		ret = tracer_check_task(t->kernel, t->spec->words, &t->gate, err);
	if (ret)
		syscalls_destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

/* --- their functions ------------------------------------------------------------------------- */

/* Those that have a site, by the names of the system calls. Both are in the order of addresses. */
static int list_calls(const struct syscalls_tracer *t, const struct site_table *sites,
		      struct traceable_list *list, struct error *err)
{
	size_t site = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < t->calls->n; i++) {
		const uint64_t gva = kernel_gva(t->kernel, t->calls->v[i].address);

		while (site < sites->n && sites->v[site].gva < gva)
			site++;
		if (site == sites->n || sites->v[site].gva - gva > MAX_SITE_OFFSET)
			continue;
		ret = traceable_list_add(list,
					 &(struct traceable){.name = t->calls->v[i].name,
							     .address = gva,
							     .site = sites->v[site].gva},
					 err);
	}
	return ret;
}

static int syscalls_select(const struct tracer *tracer, const struct site_table *sites, bool again,
			   bool *wanted, struct function_notes *notes, struct error *err)
{
	const struct syscalls_tracer *t = syscalls_of(tracer);
	struct traceable_list list = {0};
	size_t n = 0;
	int ret = list_calls(t, sites, &list, err);

	if (!ret)
		ret = functions_mark(t->set, &list, sites, again, wanted, &n, notes, err);
	if (!ret && !n && !again)
		ret = error_set(err, ENOENT, "'%s' means no system call of this kernel",
				t->spec->text);
	traceable_list_deinit(&list);
	return ret;
}

static int check_returns(const struct trace_spec *spec, const struct kernel_image *image,
			 const struct image_syscalls *calls, struct error *err)
{
	struct function_set *set = NULL;
	struct gate gate = {0};
	int ret = function_set_create(&spec->functions, &set, err);

	if (!ret)
		ret = add_returns(&gate, spec, image, calls, set, err);
	function_set_destroy(set);
	return ret;
}

static int syscalls_check_image(const struct trace_spec *spec, const struct kernel_image *image,
				struct error *err)
{
	struct traceable_list list = {0};
	const struct image_syscalls *calls;
	bool any;
	int ret = image_syscalls_of(image, abi_of(spec), &calls, err);

	for (size_t i = 0; !ret && i < calls->n; i++)
		ret = traceable_list_add(&list,
					 &(struct traceable){.name = calls->v[i].name,
							     .address = calls->v[i].address,
							     .site = calls->v[i].address},
					 err);
	if (!ret)
		ret = functions_resolve(spec, &list, &any, err);
	traceable_list_deinit(&list);
	return ret || !is_at_returns(spec) ? ret : check_returns(spec, image, calls, err);
}

/* --- what is recorded ------------------------------------------------------------------------ */

static uint32_t syscalls_fields(const struct tracer *tracer)
{
	const uint32_t wanted = syscalls_of(tracer)->spec->words;

	return DIRECT_FRAME | DIRECT_PID | DIRECT_SYSCALL |
	       (wanted & WORD_IA32 ? DIRECT_SYSCALL_IA32 : 0u) | (wanted & DIRECT_TASK_FIELDS);
}

static uint32_t syscalls_return_fields(const struct tracer *tracer)
{
	const uint32_t wanted = syscalls_of(tracer)->spec->words;

	return DIRECT_FRAME | DIRECT_PID | DIRECT_RESULT | (wanted & SYSCALL_ALL);
}

static bool syscalls_at_returns(const struct tracer *tracer)
{
	return is_at_returns(syscalls_of(tracer)->spec);
}

static bool syscalls_tails(const struct tracer *tracer)
{
	(void)tracer;
	return true;
}

static const struct event_class *syscalls_tracer_classes(const struct tracer *tracer, size_t *n)
{
	*n = SYSCALL_NR_CLASSES;
	return syscall_classes(syscalls_of(tracer)->spec->words);
}

static const char *syscalls_prototypes(const struct tracer *tracer)
{
	return syscalls_of(tracer)->calls->prototypes;
}

static const struct gate *syscalls_gate(const struct tracer *tracer)
{
	return syscalls_of(tracer)->gate.n ? &syscalls_of(tracer)->gate : NULL;
}

const struct tracer_ops tracer_syscalls = {
	.name = "syscalls",
	.help = "system calls, with their arguments and results",
	.lane = LANE_DIRECT,
	.classes = syscalls_tracer_classes,
	.prototypes = syscalls_prototypes,
	.words = words,
	.takes = TRACE_TAKES_FUNCTIONS | TRACE_TAKES_PIDS | TRACE_TAKES_FILTER | TRACE_TAKES_HIST,
	.readers = readers,
	.check = syscalls_check,
	.check_image = syscalls_check_image,
	.create = syscalls_create,
	.destroy = syscalls_destroy,
	.select = syscalls_select,
	.fields = syscalls_fields,
	.return_fields = syscalls_return_fields,
	.at_returns = syscalls_at_returns,
	.tails = syscalls_tails,
	.no_tail_calls = true,
	.conditions = functions_call_conditions,
	.gate = syscalls_gate,
};

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms: events of another tracer are summed up by keys, as the guest's own hist triggers do:
 * in the guest, without events, or where a key is a call chain by the host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/functions.h"
#include "patcher/tracers/hist/hist.h"

struct hist_tracer {
	struct tracer tracer;
	const struct trace_spec *spec;
	struct tracer *source; /* whose events they are; NULL: `allocs` */
	struct hist_part part; /* the only one; `allocs` has its own */
	struct hist_allocs allocs;
	struct hist_syscalls *calls; /* of the source's, if that is syscalls; or NULL */
	struct hist *hist;
	struct hist_host *host; /* that makes it; NULL: the guest does */
};

extern const struct tracer_ops tracer_hist; /* registry.c has it */

static const struct hist_tracer *hist_of(const struct tracer *tracer)
{
	return (const struct hist_tracer *)tracer;
}

static void destroy(struct tracer *tracer)
{
	struct hist_tracer *t = (struct hist_tracer *)tracer;

	if (t->source)
		t->source->ops->destroy(t->source);
	hist_host_destroy(t->host);
	hist_rest_destroy(t->part.rest);
	hist_syscalls_destroy(t->calls);
	hist_allocs_deinit(&t->allocs);
	hist_put(t->hist);
	free(t);
}

/* Its events are a struct function_event, and what it fetches: as those that the host sums up. */
static bool has_plain_events(const struct tracer_ops *source)
{
	return !source->return_fields;
}

static bool is_of_syscalls(const struct tracer_ops *source)
{
	return source->lane == LANE_DIRECT && !has_plain_events(source);
}

/* The image has the names of arguments. Without one, any name may be that of one, and what a
 * condition says of it be right. */
static int check_syscalls(const struct trace_spec *spec, const struct tracer_ops *source,
			  const struct kernel_image *image, struct error *err)
{
	struct hist_program program;
	struct hist_rest *rest = NULL;
	struct hist_syscalls *calls;
	struct hist_fields fields;
	struct gate gate = {0};
	struct error why = {0};
	int ret = hist_syscalls_create(spec, image, &calls, &why);

	if (!ret) {
		hist_fields_of(spec, source, NULL, calls, &fields);
		fields.open = !image;
		ret = hist_make_program(spec, &fields, &program, NULL, &why);
	}
	if (!ret) {
		ret = hist_syscalls_rest(calls, spec, &fields, &gate, &rest, &why);
		if (!image && (ret == -ENOENT || ret == -EINVAL))
			ret = 0;
	}
	hist_rest_destroy(rest);
	hist_syscalls_destroy(calls);
	if (ret && err)
		*err = why;
	return ret;
}

/* Words say what is recorded of events, or of which; but for that which says what is counted. */
static int check_words(const struct trace_spec *spec, const struct tracer_ops *source,
		       struct error *err)
{
	static const struct {
		const char *word, *why;
	} others[] = {
		{"ia32", "a histogram counts system calls of 64-bit programs: record those of "
			 "32-bit ones, without hist:, and use 'sonde events --syscalls'"},
		{"parent", "a histogram records no events: name parent_ip as a key"},
	};
	const uint32_t wrong = spec->words & ~hist_return_word(source);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		for (unsigned int bit = 0; wrong >> bit; bit++)
			if (wrong >> bit & 1 && !strcmp(source->words[bit], others[i].word))
				return error_set(err, EINVAL, "'%s': %s", spec->text,
						 others[i].why);
	if (!wrong)
		return 0;
	return error_set(err, EINVAL,
			 "'%s': a histogram records no events: the word '%s' is for them",
			 spec->text, source->words[__builtin_ctz(wrong)]);
}

static int check_parts(const struct trace_spec *spec, struct error *err)
{
	const struct tracer_ops *source = tracer_source_of(spec);
	struct hist_program program;
	struct hist_fields fields;
	int ret = source->lane == LANE_ORDERED ? hist_allocs_check(spec, err) : 0;

	if (!ret && source->lane == LANE_DIRECT)
		ret = check_words(spec, source, err);
	if (!ret && source->lane == LANE_DIRECT && source->check)
		ret = source->check(spec, err);
	if (ret)
		return ret;
	if (is_of_syscalls(source))
		return check_syscalls(spec, source, NULL, err);
	hist_fields_of(spec, source, NULL, NULL, &fields);
	return hist_make_program(spec, &fields, &program, NULL, err);
}

static int check_parts_image(const struct trace_spec *spec, const struct kernel_image *image,
			     struct error *err)
{
	const struct tracer_ops *source = tracer_source_of(spec);
	int ret = 0;

	if (source->lane == LANE_ORDERED)
		return hist_allocs_check_image(spec, image, err);
	if (source->check_image)
		ret = source->check_image(spec, image, err);
	return ret || !is_of_syscalls(source) ? ret : check_syscalls(spec, source, image, err);
}

/* A field that a condition asks for, and the events lack. */
static int explain(const struct trace_spec *spec, int ret, struct error *err)
{
	char name[32];
	size_t length;

	if (ret != -ENOENT || !err || !err->column || !spec->filter)
		return ret;
	length = strspn(spec->text + err->column - 1, "abcdefghijklmnopqrstuvwxyz_");
	snprintf(name, sizeof(name), "%.*s", (int)length, spec->text + err->column - 1);
	hist_explain(spec, name, err->column, ENOENT, err);
	return ret;
}

static int check(const struct trace_spec *spec, struct error *err)
{
	int ret = check_parts(spec, err);

	return explain(spec, ret ? ret : functions_check_numbers(spec, err), err);
}

static int check_image(const struct trace_spec *spec, const struct kernel_image *image,
		       struct error *err)
{
	return explain(spec, check_parts_image(spec, image, err), err);
}

/* --- create ---------------------------------------------------------------------------------- */

static bool may_filter(const struct hist_tracer *t)
{
	return hist_is_on_host(t->spec) && has_plain_events(t->source->ops);
}

/* What the guest decides; the host sees no event, unless it sums up. */
static int take_gate(struct hist_tracer *t, struct error *err)
{
	const struct tracer_ops *ops = t->source->ops;
	const struct gate *gate = ops->gate ? ops->gate(t->source) : NULL;
	char rest[200] = "";

	if (ops->filter && ops->filter(t->source) && !may_filter(t)) {
		ops->conditions(t->source, t->spec, DECIDED_BY_HOST, rest, sizeof(rest));
		return error_set(err, ENOTSUP,
				 "the guest cannot decide '%s', and makes this histogram: with the "
				 "key 'stacktrace' the host does, and decides",
				 rest);
	}
	if (gate)
		t->part.gate = *gate;
	return 0;
}

static int check_caller(const struct hist_tracer *t, struct error *err)
{
	const struct tracer_ops *ops = t->source->ops;

	if (!hist_program_uses(&t->part.program, HIST_PARENT) || !ops->inside ||
	    !ops->inside(t->source))
		return 0;
	return error_set(err, ENOTSUP,
			 "'%s': in the middle of a function nothing says where its caller is on "
			 "the stack: use the key 'stacktrace'",
			 t->spec->text);
}

static int create_of_source(struct hist_tracer *t, const struct tracer_context *context,
			    struct hist_config *config, struct error *err)
{
	const struct tracer_ops *ops = tracer_source_of(t->spec);
	struct hist_fields fields;
	int ret = ops->create(context, &t->spec, 1, &t->source, err);

	if (!ret)
		ret = take_gate(t, err);
	if (ret)
		return ret;
	if (is_of_syscalls(ops))
		ret = hist_syscalls_create(t->spec, context->kernel->image, &t->calls, err);
	if (ret)
		return ret;
	hist_fields_of(t->spec, ops, ops->fetch ? ops->fetch(t->source) : NULL, t->calls, &fields);
	ret = hist_make_program(t->spec, &fields, &t->part.program, config, err);
	if (!ret)
		ret = check_caller(t, err);
	if (!ret && t->calls)
		ret = hist_syscalls_rest(t->calls, t->spec, &fields, &t->part.gate, &t->part.rest,
					 err);
	return ret;
}

static struct hist_part *parts_of(const struct hist_tracer *t, size_t *n)
{
	*n = t->source ? 1 : t->allocs.nr_parts;
	return t->source ? (struct hist_part *)&t->part : t->allocs.parts;
}

/* Whether keys, values, or what is left of the condition are taken from there, of any part. */
static bool uses(const struct hist_tracer *t, enum hist_source source)
{
	size_t nr_parts, n;
	const struct hist_part *parts = parts_of(t, &nr_parts);
	bool any = false;

	for (size_t i = 0; i < nr_parts; i++) {
		const struct hist_operand *rest = hist_rest_operands(parts[i].rest, &n);

		any |= hist_program_uses(&parts[i].program, source);
		for (size_t k = 0; k < n; k++)
			any |= rest[k].source == source;
	}
	return any;
}

/* What user mode has called the kernel with lies on the stack of the task that returns; keys,
 * values or the gate may ask for it. */
static bool needs_task(const struct hist_tracer *t)
{
	return t->calls && hist_is_at_returns(t->spec);
}

/* What must be known of the guest's kernel. */
static uint32_t task_fields(const struct hist_tracer *t)
{
	return (uses(t, HIST_PID) ? EVENT_TASK_PID : 0u) |
	       (uses(t, HIST_TGID) ? EVENT_TASK_TGID : 0u) |
	       (uses(t, HIST_COMM) ? EVENT_TASK_COMM : 0u) |
	       (uses(t, HIST_CGROUP) ? EVENT_TASK_CGROUP : 0u) |
	       (needs_task(t) ? EVENT_TASK_PID : 0u);
}

/* What is recorded for the host. */
static uint32_t host_fields(const struct hist_tracer *t)
{
	const struct tracer *source = t->source;
	uint32_t fields = DIRECT_STACK;

	if (source && has_plain_events(source->ops))
		fields |= source->ops->fields(source);
	return fields | (uses(t, HIST_PARENT) ? DIRECT_PARENT : 0u);
}

static uint32_t fields(const struct tracer *tracer)
{
	const struct hist_tracer *t = hist_of(tracer);

	return task_fields(t) | (hist_is_on_host(t->spec) ? host_fields(t) : 0u);
}

static int check_task(const struct hist_tracer *t, const struct kernel *kernel, struct error *err)
{
	const struct gate *gate = t->source ? &t->part.gate : &t->allocs.parts[0].gate;

	return tracer_check_task(kernel, fields(&t->tracer) & DIRECT_TASK_FIELDS, gate, err);
}

static const struct fetch_program *fetch(const struct tracer *tracer)
{
	const struct tracer *source = hist_of(tracer)->source;

	return source && source->ops->fetch ? source->ops->fetch(source) : NULL;
}

static int create_on_host(struct hist_tracer *t, const struct kernel *kernel, struct error *err)
{
	size_t n;
	struct hist_part *parts = parts_of(t, &n);

	return hist_host_create(parts, n, fetch(&t->tracer), kernel, t->hist, &t->host, err);
}

static int create(const struct tracer_context *context, const struct trace_spec *const *specs,
		  size_t nr_specs, struct tracer **out, struct error *err)
{
	struct hist_tracer *t = calloc(1, sizeof(*t));
	struct hist_config config;
	int ret;

	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_hist;
	t->spec = specs[0];
	if (tracer_source_of(t->spec)->lane == LANE_ORDERED)
		ret = hist_allocs_create(t->spec, context->kernel, &t->allocs, &config, err);
	else
		ret = create_of_source(t, context, &config, err);
	if (!ret)
		ret = check_task(t, context->kernel, err);
	if (!ret)
		ret = hist_create(&config, context->kernel->guest->budget, &t->hist, err);
	if (!ret && hist_is_on_host(t->spec))
		ret = create_on_host(t, context->kernel, err);
	if (ret)
		destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

/* --- sites and parts ------------------------------------------------------------------------- */

static const struct hist_alloc_site *find_alloc(const struct hist_allocs *allocs, uint64_t gva)
{
	for (size_t i = 0; i < allocs->nr_sites; i++)
		if (allocs->sites[i].gva == gva)
			return &allocs->sites[i];
	return NULL;
}

static int select_sites(const struct tracer *tracer, const struct site_table *sites, bool again,
			bool *wanted, struct function_notes *notes, struct error *err)
{
	const struct hist_tracer *t = hist_of(tracer);

	if (t->source)
		return t->source->ops->select(t->source, sites, again, wanted, notes, err);
	for (size_t i = 0; i < sites->n; i++)
		wanted[i] = find_alloc(&t->allocs, sites->v[i].gva);
	return 0;
}

static const struct hist_part *get_parts(const struct tracer *tracer, size_t *n)
{
	return parts_of(hist_of(tracer), n);
}

static size_t part_of(const struct tracer *tracer, uint64_t site)
{
	const struct hist_tracer *t = hist_of(tracer);
	const struct hist_alloc_site *alloc = find_alloc(&t->allocs, site);

	return alloc ? alloc->part : 0;
}

static struct hist *get_hist(const struct tracer *tracer)
{
	return hist_of(tracer)->hist;
}

/* --- the rest -------------------------------------------------------------------------------- */

static const struct hist_events *get_events(const struct tracer *tracer)
{
	const struct hist_tracer *t = hist_of(tracer);

	return t->host ? hist_host_events(t->host) : NULL;
}

static const struct gate_rest *filter(const struct tracer *tracer)
{
	const struct hist_tracer *t = hist_of(tracer);
	const struct tracer *source = t->host ? t->source : NULL;

	return source && source->ops->filter ? source->ops->filter(source) : NULL;
}

static bool at_returns(const struct tracer *tracer)
{
	const struct tracer *source = hist_of(tracer)->source;

	return source && source->ops->at_returns && source->ops->at_returns(source);
}

static bool tails(const struct tracer *tracer)
{
	const struct tracer *source = hist_of(tracer)->source;

	return source && source->ops->tails && source->ops->tails(source);
}

static uint64_t inside(const struct tracer *tracer)
{
	const struct tracer *source = hist_of(tracer)->source;

	return source && source->ops->inside ? source->ops->inside(source) : 0;
}

static const struct event_class *no_classes(const struct tracer *tracer, size_t *n)
{
	(void)tracer;
	*n = 0;
	return NULL;
}

/* What the guest decides of the rest, beside pids and vCPUs. */
static void print_gate(const struct trace_spec *spec, const struct hist_rest *rest, char *out,
		       size_t size)
{
	struct trace_spec lists = *spec;
	char text[EVENT_FILTER_MAX];

	lists.filter_text = NULL;
	trace_spec_print_conditions(&lists, out, size);
	hist_rest_print(rest, DECIDED_BY_GUEST, text, sizeof(text));
	if (*text)
		snprintf(out + strlen(out), size - strlen(out), "%s%s", *out ? " && " : "", text);
}

/* Functions with other registers may leave more for the host: those that leave something. */
static const struct hist_rest *rest_of(const struct hist_tracer *t)
{
	size_t n;
	const struct hist_part *parts = parts_of(t, &n);

	for (size_t i = 0; i < n; i++)
		if (parts[i].rest)
			return parts[i].rest;
	return NULL;
}

static void conditions(const struct tracer *tracer, const struct trace_spec *spec,
		       enum tracer_decider decider, char *out, size_t size)
{
	const struct hist_tracer *t = hist_of(tracer);
	const struct hist_rest *rest = rest_of(t);

	*out = '\0';
	if (t->source && has_plain_events(t->source->ops))
		t->source->ops->conditions(t->source, spec, decider, out, size);
	else if (decider == DECIDED_BY_HOST && rest)
		hist_rest_print(rest, decider, out, size);
	else if (decider == DECIDED_BY_GUEST && rest)
		print_gate(spec, rest, out, size);
	else if (decider == DECIDED_BY_GUEST)
		trace_spec_print_conditions(spec, out, size);
}

const struct tracer_ops tracer_hist = {
	.name = "hist",
	.help = "events summed up by keys, as by the guest's own hist triggers",
	.lane = LANE_DIRECT,
	.check = check,
	.classes = no_classes,
	.check_image = check_image,
	.create = create,
	.destroy = destroy,
	.select = select_sites,
	.fields = fields,
	.fetch = fetch,
	.at_returns = at_returns,
	.tails = tails,
	.inside = inside,
	.hist = get_hist,
	.hist_parts = get_parts,
	.hist_part_of = part_of,
	.hist_events = get_events,
	.filter = filter,
	.conditions = conditions,
};

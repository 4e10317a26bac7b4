/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>
#include "formats/base/text.h"
#include "patcher/text/site.h"
#include "patcher/tracers/hist/hist.h"

enum { WORD = 8 };

void hist_fields_add(struct hist_fields *f, const struct hist_field *field)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->v[i].name, field->name))
			return;
	if (f->n < HIST_MAX_FIELDS)
		f->v[f->n++] = *field;
}

static void add_all(struct hist_fields *f, const struct hist_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hist_fields_add(f, &fields[i]);
}

#define ADD_ALL(f, fields) add_all(f, fields, sizeof(fields) / sizeof((fields)[0]))

uint32_t hist_return_word(const struct tracer_ops *source)
{
	for (unsigned int i = 0; source->words && source->words[i]; i++)
		if (!strcmp(source->words[i], "return"))
			return UINT32_C(1) << i;
	return 0;
}

bool hist_is_at_returns(const struct trace_spec *spec)
{
	return (spec->probe && spec->probe->returns) ||
	       spec->words & hist_return_word(tracer_source_of(spec));
}

/* Under ftrace's names, and those that Sonde's events have. */
void hist_fields_add_common(struct hist_fields *f)
{
	static const struct hist_field common[] = {
		{"pid", {.source = HIST_PID, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"common_pid", {.source = HIST_PID, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"tgid", {.source = HIST_TGID, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"common_tgid", {.source = HIST_TGID, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"cgroup", {.source = HIST_CGROUP, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"common_cgroup", {.source = HIST_CGROUP, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"comm", {.source = HIST_COMM, .size = 2 * WORD}, HIST_TEXT, 0, 0},
		{"common_comm", {.source = HIST_COMM, .size = 2 * WORD}, HIST_TEXT, 0, 0},
		{"cpu", {.source = HIST_CPU, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"common_cpu", {.source = HIST_CPU, .size = WORD}, HIST_UNSIGNED, 0, 0},
		{"vcpu", {.source = HIST_CPU, .size = WORD}, HIST_UNSIGNED, 0, 0},
	};

	ADD_ALL(f, common);
}

/* No part of the list of names that are known: they cost more than others. */
static const struct hist_field chains[] = {
	{"stacktrace", {.source = HIST_CHAIN, .size = HIST_FRAMES * WORD}, HIST_STACKTRACE, 0, 0},
	{"common_stacktrace",
	 {.source = HIST_CHAIN, .size = HIST_FRAMES * WORD},
	 HIST_STACKTRACE,
	 0,
	 0},
};

static void add_place(struct hist_fields *f, bool returns)
{
	static const struct hist_field parent[] = {
		{"parent_ip", {.source = HIST_PARENT, .size = WORD}, HIST_SYM_OFFSET, 0, 0},
		{"__probe_ret_ip", {.source = HIST_PARENT, .size = WORD}, HIST_SYM_OFFSET, 0, 0},
	};
	static const struct hist_field ip[] = {
		{"ip", {.source = HIST_IP, .size = WORD}, HIST_SYM_OFFSET, -SITE_SIZE, 0},
		{"__probe_ip", {.source = HIST_IP, .size = WORD}, HIST_SYM_OFFSET, -SITE_SIZE, 0},
	};

	ADD_ALL(f, parent);
	if (!returns)
		ADD_ALL(f, ip);
}

/* --- what a dynamic probe fetches ------------------------------------------------------------- */

static bool is_text(const struct fetch_arg *arg)
{
	return arg->show == FETCH_STRING || arg->show == FETCH_CHARACTER;
}

/* `on_host`: what is recorded of it, also of a register. */
static struct hist_operand operand_of(const struct fetch_arg *arg,
				      const struct fetch_program *program, bool on_host)
{
	const struct fetch_op *op = &arg->ops[0];
	struct hist_operand o = {.source = HIST_REGISTER,
				 .reg = (uint8_t)op->reg,
				 .at = op->at,
				 .size = arg->size,
				 .is_signed = arg->show == FETCH_SIGNED,
				 .bit_offset = arg->bit_offset,
				 .bit_width = arg->bit_width};

	if (fetch_reads_memory(arg) || (on_host && op->kind != FETCH_COMM)) {
		o.source = HIST_FETCHED;
		o.at = program ? fetch_place(program, arg) : 0;
		o.bit_width = 0; /* cut when it was read */
		if (arg->bit_width)
			o.size = WORD;
		if (is_text(arg)) /* a histogram's strings are short */
			o.size = fetch_is_long(arg) ? FETCH_STRING_SIZE : (uint8_t)fetch_room(arg);
	} else if (op->kind == FETCH_COMM) {
		o.source = HIST_COMM;
		o.size = 2 * WORD;
	} else if (op->kind == FETCH_CONSTANT) {
		o.source = HIST_CONSTANT;
	}
	return o;
}

static void add_argument(struct hist_fields *f, const struct fetch_arg *arg,
			 const struct fetch_program *program, bool on_host)
{
	static const enum hist_show shows[] = {
		[FETCH_UNSIGNED] = HIST_UNSIGNED, [FETCH_SIGNED] = HIST_SIGNED,
		[FETCH_HEX] = HIST_HEX,           [FETCH_CHARACTER] = HIST_TEXT,
		[FETCH_CODE] = HIST_SYM_OFFSET,   [FETCH_STRING] = HIST_TEXT};
	struct hist_field field = {arg->name, operand_of(arg, program, on_host), shows[arg->show],
				   0, 0};

	if (program && fetch_reads_memory(arg))
		field.faults = (uint32_t)fetch_field_bits(arg);
	/* of an array there is no one value; hist_make_program() says so */
	if (!is_text(arg) && arg->count > 1)
		field.operand.size = 0;
	hist_fields_add(f, &field);
}

static void add_arguments(struct hist_fields *f, const struct trace_spec *spec,
			  const struct fetch_program *program)
{
	const struct fetch_arg *args = program ? program->args : spec->probe->args;
	const size_t n = program ? program->nr_args : spec->probe->nr_args;

	for (size_t i = 0; i < n; i++) {
		if (args[i].ops[0].kind == FETCH_LITERAL)
			continue; /* the same in each event */
		add_argument(f, &args[i], program, hist_is_on_host(spec));
		f->open |= !program && !strcmp(args[i].symbol, "*");
	}
}

void hist_fields_of(const struct trace_spec *spec, const struct tracer_ops *source,
		    const struct fetch_program *program, const struct hist_syscalls *calls,
		    struct hist_fields *out)
{
	*out = (struct hist_fields){0};
	if (spec->probe)
		add_arguments(out, spec, program);
	else if (!strcmp(source->name, "syscalls"))
		hist_syscalls_fields(calls, hist_is_at_returns(spec), out);
	else if (source->lane == LANE_ORDERED)
		hist_allocs_fields(spec, out);
	if (source->lane == LANE_DIRECT)
		add_place(out, hist_is_at_returns(spec));
	hist_fields_add_common(out);
}

/* --- programs -------------------------------------------------------------------------------- */

#define FAIL(term, ...) error_set_column(err, EINVAL, (term)->column, __VA_ARGS__)

/* What the kernel's triggers have as keys, and a call in the guest cannot cheaply have. */
static const struct {
	const char *name, *why;
} no_keys[] = {
	{"common_timestamp", "histograms have no times: record the events"},
};

/* What is known when a call returns, and what counts that. */
static const struct {
	const char *name;
	bool is_time;
} of_returns[] = {
	{"ret", false},    {"retval", false},  {"$retval", false},
	{"result", false}, {"duration", true}, {"latency", true},
};

static const char *find_counter(const struct trace_spec *spec, const char *name)
{
	const struct tracer_ops *source = tracer_source_of(spec);
	const bool is_syscall = source->return_fields;

	if (spec->probe || source->lane != LANE_DIRECT)
		return NULL;
	for (size_t i = 0; i < sizeof(of_returns) / sizeof(of_returns[0]); i++) {
		if (strcmp(name, of_returns[i].name) != 0)
			continue;
		if (of_returns[i].is_time)
			return is_syscall ? "times are counted by 'profile:__x64_sys_NAME,hist'"
					  : "times are counted by 'profile:PATTERN,hist'";
		if (hist_is_at_returns(spec))
			return NULL;
		return is_syscall ? "use the word 'return', as in "
				    "syscalls:return,hist:keys=id,ret"
				  : "results are counted by 'probe:r:x FUNCTION $retval:s64,"
				    "hist:keys=arg1'";
	}
	return NULL;
}

int hist_explain(const struct trace_spec *spec, const char *name, unsigned int column, int code,
		 struct error *err)
{
	const char *counter = find_counter(spec, name);

	if (!counter)
		return 0;
	if (hist_is_at_returns(spec))
		return error_set_column(
			err, code, column,
			"'%s' is known where both the beginning and the return of a call are, and "
			"these are counted by returns alone: %s",
			name, counter);
	return error_set_column(
		err, code, column,
		"'%s' is known when a call returns, and these are counted when they "
		"begin: %s",
		name, counter);
}

static int no_field(const struct trace_spec *spec, const struct hist_term *term,
		    const struct hist_fields *f, struct error *err)
{
	const char *names[HIST_MAX_FIELDS + 1] = {0}, *nearest;
	char list[320] = "";

	for (size_t i = 0; i < sizeof(no_keys) / sizeof(no_keys[0]); i++)
		if (!strcmp(term->name, no_keys[i].name))
			return FAIL(term, "'%s' is no field: %s", term->name, no_keys[i].why);
	if (hist_explain(spec, term->name, term->column, EINVAL, err))
		return -EINVAL;
	for (size_t i = 0; i < f->n; i++) {
		const size_t used = strlen(list);

		names[i] = f->v[i].name;
		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", names[i]);
	}
	nearest = text_nearest(term->name, names);
	if (nearest)
		return FAIL(term, "unknown field '%s': did you mean '%s'?", term->name, nearest);
	return FAIL(term, "unknown field '%s'; known: %s", term->name, list);
}

const struct hist_field *hist_chain_field(const struct trace_spec *spec, const char *name)
{
	for (size_t i = 0; spec->probe && i < spec->probe->nr_args; i++)
		if (!strcmp(spec->probe->args[i].name, name))
			return NULL;
	for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
		if (!strcmp(chains[i].name, name))
			return &chains[i];
	return NULL;
}

static const struct hist_field *find(const struct trace_spec *spec, const struct hist_fields *f,
				     const char *name)
{
	const struct hist_field *chain = hist_chain_field(spec, name);

	if (chain)
		return chain;
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->v[i].name, name))
			return &f->v[i];
	return NULL;
}

static bool is_number(const struct hist_field *field)
{
	return field->show != HIST_TEXT && field->show != HIST_STACKTRACE;
}

static const char *what_is(const struct hist_field *field)
{
	return field->show == HIST_TEXT ? "text" : "a call chain";
}

static bool is_pid(const struct hist_field *field)
{
	return field->operand.source == HIST_PID;
}

/* How a key is shown, and what its operand becomes. */
static int modify(const struct hist_term *term, const struct hist_field *field,
		  struct hist_operand *operand, struct hist_column *column, struct error *err)
{
	static const enum hist_show shows[HIST_MODIFIERS] = {[HIST_MOD_HEX] = HIST_HEX,
							     [HIST_MOD_SYM] = HIST_SYMBOL,
							     [HIST_MOD_SYM_OFFSET] =
								     HIST_SYM_OFFSET,
							     [HIST_MOD_EXECNAME] = HIST_EXECNAME,
							     [HIST_MOD_SYSCALL] = HIST_SYSCALL,
							     [HIST_MOD_LOG2] = HIST_POWER,
							     [HIST_MOD_BUCKETS] = HIST_RANGE};

	*operand = field->operand;
	column->show = field->show;
	if (!term->modifier)
		return 0;
	if (!is_number(field))
		return FAIL(term, "'%s' is %s, which takes no .%s", term->name, what_is(field),
			    hist_modifier_name(term->modifier));
	if (term->modifier == HIST_MOD_EXECNAME && !is_pid(field))
		return FAIL(term, "'%s' is no pid, which .execname is for", term->name);
	column->show = shows[term->modifier];
	if (term->modifier == HIST_MOD_LOG2)
		operand->step = HIST_LOG2;
	if (term->modifier == HIST_MOD_BUCKETS) {
		operand->step = HIST_BUCKETS;
		operand->bucket = column->bucket = term->bucket;
	}
	return 0;
}

static int look_up(const struct trace_spec *spec, const struct hist_term *term,
		   const struct hist_fields *f, const struct hist_field **out, struct error *err)
{
	static const struct hist_field any = {.operand = {.source = HIST_CONSTANT, .size = WORD},
					      .show = HIST_HEX};

	*out = find(spec, f, term->name);
	if (!*out && f->open)
		*out = &any;
	if (!*out)
		return no_field(spec, term, f, err);
	if (!(*out)->operand.size)
		return FAIL(term, "'%s' is an array: name one element as an argument", term->name);
	return 0;
}

/* A document has room for so many. */
static int check_chain(const struct hist_term *term, const struct hist_program *p,
		       const struct hist_config *c, struct error *err)
{
	if (hist_program_uses(p, HIST_CHAIN))
		return FAIL(term, "'%s': the call chain is a key already", term->name);
	if (c->size > HIST_MAX_CHAINS)
		return FAIL(term, "with '%s', a histogram has a size of %d or less", term->name,
			    HIST_MAX_CHAINS);
	return 0;
}

static int add_key(const struct trace_spec *spec, const struct hist_term *term,
		   const struct hist_fields *f, struct hist_program *p, struct hist_config *c,
		   struct error *err)
{
	const struct hist_operand name = {.source = HIST_COMM, .size = 2 * WORD};
	struct hist_operand *operand = &p->keys[p->nr_keys];
	struct hist_column *column = &c->keys[c->nr_keys];
	const struct hist_field *field;
	int ret = look_up(spec, term, f, &field, err);

	if (!ret)
		ret = field->operand.source == HIST_CHAIN ? check_chain(term, p, c, err) : 0;
	if (!ret)
		ret = modify(term, field, operand, column, err);
	if (ret)
		return ret;
	if (hist_operand_words(operand) > HIST_OPERAND_WORDS && operand->source != HIST_CHAIN)
		return FAIL(term, "'%s' is longer than %d bytes, which a key has room for",
			    term->name, HIST_OPERAND_WORDS * WORD);
	memcpy(column->name, term->name, sizeof(column->name));
	c->words[c->nr_keys] = (uint8_t)hist_operand_words(operand);
	c->bias[c->nr_keys] = operand->step ? 0 : field->bias;
	c->faults[c->nr_keys] = field->faults;
	p->faults |= field->faults;
	p->nr_keys++;
	if (column->show == HIST_EXECNAME) {
		p->keys[p->nr_keys++] = name;
		c->words[c->nr_keys] = 1 + HIST_OPERAND_WORDS;
	}
	c->nr_keys++;
	return 0;
}

/* A field is summed up once, in however many ways its sum is shown. */
static uint8_t sum_of(const struct hist_term *terms, size_t term, const struct hist_config *c)
{
	for (size_t i = 0; i < term; i++)
		if (!strcmp(terms[i].name, terms[term].name))
			return c->sum_of[i];
	return (uint8_t)c->nr_sums;
}

static int add_sum(const struct trace_spec *spec, const struct hist_term *term,
		   const struct hist_fields *f, struct hist_program *p, struct hist_column *column,
		   struct error *err)
{
	const struct hist_field *field;
	int ret = look_up(spec, term, f, &field, err);

	if (ret)
		return ret;
	if (!is_number(field))
		return FAIL(term, "'%s' is %s, which cannot be summed up", term->name,
			    what_is(field));
	column->show = field->show == HIST_SIGNED ? HIST_SIGNED : HIST_UNSIGNED;
	p->values[p->nr_values++] = field->operand;
	return 0;
}

static int add_value(const struct trace_spec *spec, size_t i, const struct hist_fields *f,
		     struct hist_program *p, struct hist_config *c, struct error *err)
{
	static const enum hist_show shows[HIST_MODIFIERS] = {[HIST_MOD_HEX] = HIST_HEX,
							     [HIST_MOD_PERCENT] = HIST_PERCENT,
							     [HIST_MOD_GRAPH] = HIST_BAR};
	const struct hist_action *h = spec->hist;
	const struct hist_term *term = &h->values[i];
	struct hist_column *column = &c->values[i];
	int ret = 0;

	c->sum_of[i] = HIST_HITS;
	if (strcmp(term->name, "hitcount") != 0) {
		c->sum_of[i] = sum_of(h->values, i, c);
		ret = c->sum_of[i] == c->nr_sums ? add_sum(spec, term, f, p, column, err) : 0;
	}
	c->nr_sums = p->nr_values;
	memcpy(column->name, term->name, sizeof(column->name));
	if (term->modifier)
		column->show = shows[term->modifier];
	c->nr_values++;
	return ret;
}

int hist_make_program(const struct trace_spec *spec, const struct hist_fields *fields,
		      struct hist_program *program, struct hist_config *config, struct error *err)
{
	const struct hist_action *h = spec->hist;
	struct hist_config unused, *c = config ? config : &unused;
	int ret = 0;

	*program = (struct hist_program){0};
	*c = (struct hist_config){.size = h->size, .order = h->order, .nohitcount = h->nohitcount};
	for (size_t i = 0; !ret && i < h->nr_keys; i++)
		ret = add_key(spec, &h->keys[i], fields, program, c, err);
	for (size_t i = 0; !ret && i < h->nr_values; i++)
		ret = add_value(spec, i, fields, program, c, err);
	c->has_faults = program->faults;
	if (ret && err && err->column)
		error_prefix(err, "trace spec, character %u: ", err->column);
	return ret;
}

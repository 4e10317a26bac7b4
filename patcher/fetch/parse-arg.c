/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An argument of a probe: what is fetched. */
#include "patcher/fetch/parse-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Those of the kernel's struct pt_regs, under the names that its probes have for them. */
static const char *const registers[] = {[FETCH_AX] = "ax",           [FETCH_CX] = "cx",
					[FETCH_DX] = "dx",           [FETCH_BX] = "bx",
					[FETCH_SP] = "sp",           [FETCH_BP] = "bp",
					[FETCH_SI] = "si",           [FETCH_DI] = "di",
					[FETCH_R8] = "r8",           [FETCH_R9] = "r9",
					[FETCH_R10] = "r10",         [FETCH_R11] = "r11",
					[FETCH_R12] = "r12",         [FETCH_R13] = "r13",
					[FETCH_R14] = "r14",         [FETCH_R15] = "r15",
					[FETCH_FLAGS] = "flags",     [FETCH_IP] = "ip",
					[FETCH_CS] = "cs",           [FETCH_SS] = "ss",
					[FETCH_ORIG_AX] = "orig_ax", NULL};

static const enum fetch_register arguments[] = {FETCH_DI, FETCH_SI, FETCH_DX,
						FETCH_CX, FETCH_R8, FETCH_R9};

enum {
	NR_ARGUMENTS = sizeof(arguments) / sizeof(arguments[0]),
	MAX_ARGUMENT = 32,
	MAX_STACK = 2047, /* words of a kernel stack of 16 KiB, less one */
	BIT = 1,
	/* What the calling convention (System V ABI, AMD64) leaves undefined. RDX is the upper half
	 * of results of up to 16 bytes. */
	RETURN_UNDEFINED = BIT << FETCH_CX | BIT << FETCH_SI | BIT << FETCH_DI | BIT << FETCH_R8 |
			   BIT << FETCH_R9 | BIT << FETCH_R10 | BIT << FETCH_R11,
};

static int add_op(struct fetch_parser *p, const char *place, struct fetch_op op)
{
	struct fetch_arg *arg = p->arg;

	if (arg->nr_ops == FETCH_MAX_OPS)
		return FETCH_FAIL(p, place, "more than %d steps for one argument", FETCH_MAX_OPS);
	arg->ops[arg->nr_ops++] = op;
	return 0;
}

static int add_register(struct fetch_parser *p, const char *place, enum fetch_register reg)
{
	return add_op(p, place, (struct fetch_op){.kind = FETCH_REGISTER, .reg = reg});
}

static int take_register(struct fetch_parser *p)
{
	const char *place = p->at;
	size_t length = fetch_name_length(++p->at);

	for (unsigned int i = 0; registers[i]; i++) {
		if (strlen(registers[i]) != length || memcmp(p->at, registers[i], length) != 0)
			continue;
		if (p->probe->returns && RETURN_UNDEFINED & 1u << i)
			return FETCH_FAIL(p, place,
					  "%%%s holds nothing at a return: what it held at the "
					  "call is recorded by a probe of the call (p)",
					  registers[i]);
		p->at += length;
		return add_register(p, place, (enum fetch_register)i);
	}
	return fetch_unknown(p, "register", p->at, length, registers);
}

/* "$arg*": as if each had been written, by its name. */
static int take_all_parameters(struct fetch_parser *p, const char *place)
{
	if (p->arg->nr_ops || (p->at[1] && !strchr(" \t", p->at[1])))
		return FETCH_FAIL(p, place, "$arg* is no value: it stands for all parameters");
	snprintf(p->arg->symbol, sizeof(p->arg->symbol), "*");
	p->at++;
	return add_op(p, place, (struct fetch_op){.kind = FETCH_PARAMETER});
}

/* The length of a name, and of the members behind it. */
static int measure_chain(struct fetch_parser *p, size_t *out)
{
	size_t n = fetch_name_length(p->at), step = 0;

	do {
		size_t length = fetch_name_length(p->at + n + step);

		if (step && !length)
			return FETCH_FAIL(p, p->at + n + step, "the name of a member is missing");
		n += step ? step + length : 0;
		step = p->at[n] == '.' ? 1 : !strncmp(p->at + n, "->", 2) ? 2 : 0;
	} while (step);
	*out = n;
	return 0;
}

/* What begins at `place`, and goes on with members at p->at. */
static int take_chain(struct fetch_parser *p, const char *place)
{
	size_t n = 0;
	int ret = measure_chain(p, &n);

	if (ret)
		return ret;
	n += (size_t)(p->at - place);
	if (n >= sizeof(p->arg->symbol))
		return FETCH_FAIL(p, place, "longer than %d characters", FETCH_SYMBOL_SIZE - 1);
	memcpy(p->arg->symbol, place, n);
	p->arg->symbol_column = (unsigned int)(place - p->text) + 1;
	p->at = place + n;
	return add_op(p, place, (struct fetch_op){.kind = FETCH_PARAMETER});
}

/* Nothing of a call is kept in the guest until it returns. */
static int refuse_at_return(struct fetch_parser *p, const char *place, const char *what)
{
	return FETCH_FAIL(p, place,
			  "%s are gone at a return, whose registers hold other values: record "
			  "them by a probe of the call (p), and compare by task",
			  what);
}

/* "skb->dev->name", "path.mnt" */
static int take_parameter(struct fetch_parser *p)
{
	if (p->probe->returns)
		return refuse_at_return(p, p->at, "parameters");
	p->arg->entry_only = true;
	return take_chain(p, p->at);
}

static bool at_members(const struct fetch_parser *p)
{
	return *p->at == '.' || !strncmp(p->at, "->", 2);
}

/* The seventh argument and those behind it lie above the return address. */
static int take_argument(struct fetch_parser *p, const char *place)
{
	uint64_t number;
	int ret;

	if (p->probe->returns)
		return refuse_at_return(p, place, "arguments");
	p->arg->entry_only = true;
	if (*p->at == '*')
		return take_all_parameters(p, place);
	ret = fetch_take_number(p, "the number of an argument", &number);
	if (ret)
		return ret;
	if (!number || number > MAX_ARGUMENT)
		return FETCH_FAIL(p, place, "arguments are $arg1 to $arg%d", MAX_ARGUMENT);
	if (at_members(p))
		return take_chain(p, place);
	p->variable = place;
	if (number <= NR_ARGUMENTS)
		return add_register(p, place, arguments[number - 1]);
	ret = add_register(p, place, FETCH_SP);
	return ret ? ret
		   : add_op(p, place,
			    (struct fetch_op){.kind = FETCH_DEREF,
					      .at = 8 * (int64_t)(number - NR_ARGUMENTS)});
}

static int take_stack(struct fetch_parser *p, const char *place)
{
	uint64_t number;
	int ret = add_register(p, place, FETCH_SP);

	if (ret || !isdigit((unsigned char)*p->at))
		return ret;
	ret = fetch_take_number(p, "the number of a word", &number);
	if (!ret && number > MAX_STACK)
		return FETCH_FAIL(p, place, "the stack has %d words at most", MAX_STACK + 1);
	return ret ? ret
		   : add_op(p, place,
			    (struct fetch_op){.kind = FETCH_DEREF, .at = 8 * (int64_t)number});
}

static int take_result(struct fetch_parser *p, const char *place)
{
	if (!p->probe->returns)
		return FETCH_FAIL(p, place, "$retval is for probes of returns, which begin with r");
	if (at_members(p))
		return take_chain(p, place);
	p->variable = place;
	return add_register(p, place, FETCH_AX);
}

static int take_comm(struct fetch_parser *p, const char *place)
{
	if (p->arg->nr_ops || (p->at[0] && !strchr(" \t:", p->at[0])))
		return FETCH_FAIL(p, place, "$comm is no address");
	return add_op(p, place, (struct fetch_op){.kind = FETCH_COMM});
}

static int take_variable(struct fetch_parser *p)
{
	static const char *const known[] = {"retval", "comm", "COMM", "stack", "arg", NULL};
	static int (*const take[])(struct fetch_parser *, const char *) = {
		take_result, take_comm, take_comm, take_stack, take_argument};
	enum { WITHOUT_NUMBER = 3 };
	const char *place = p->at;
	size_t length = 0, all = fetch_name_length(++p->at);

	while (isalpha((unsigned char)p->at[length]))
		length++;
	for (size_t i = 0; known[i]; i++) {
		const bool has_number = all > length;

		if (strlen(known[i]) != length || memcmp(p->at, known[i], length) != 0 ||
		    (has_number && i < WITHOUT_NUMBER))
			continue;
		p->at += length;
		return take[i](p, place);
	}
	return fetch_unknown(p, "variable", p->at, all, known);
}

/* "\"word"": a constant. As in the kernel's file, where they end an argument, it has no blanks. */
static int take_literal(struct fetch_parser *p, const char *place, unsigned int depth)
{
	const size_t length = strcspn(++p->at, "\" \t");

	if (p->at[length] != '"')
		return FETCH_FAIL(p, p->at + length, "'\"' is missing, as in \\\"word\"");
	if (depth)
		return FETCH_FAIL(p, place, "a text is no address");
	if (length >= FETCH_STRING_SIZE)
		return FETCH_FAIL(p, p->at + FETCH_STRING_SIZE - 1,
				  "a text has at most %d characters", FETCH_STRING_SIZE - 1);
	memcpy(p->arg->symbol, p->at, length);
	p->at += length + 1;
	return add_op(p, place, (struct fetch_op){.kind = FETCH_LITERAL});
}

/* "\12": a constant. */
static int take_constant(struct fetch_parser *p, unsigned int depth)
{
	const char *place = p->at++;
	const bool negative = *p->at == '-';
	uint64_t number;
	int ret;

	if (*p->at == '"')
		return take_literal(p, place, depth);
	p->at += negative;
	ret = fetch_take_number(p, "a constant", &number);
	number = negative ? -number : number;
	return ret ? ret
		   : add_op(p, place,
			    (struct fetch_op){.kind = FETCH_CONSTANT, .at = (int64_t)number});
}

/* "@ADDR", "@SYM+8": what lies there. */
static int take_address(struct fetch_parser *p)
{
	const char *place = p->at++;
	struct fetch_op op = {.kind = FETCH_SYMBOL};
	uint64_t address;
	int ret;

	if (isdigit((unsigned char)*p->at)) {
		ret = fetch_take_number(p, "an address", &address);
		op = (struct fetch_op){.kind = FETCH_CONSTANT, .at = (int64_t)address};
	} else {
		p->arg->symbol_column = (unsigned int)(p->at - p->text) + 1;
		ret = fetch_take_symbol(p, p->arg->symbol);
		if (!ret && (*p->at == '+' || *p->at == '-'))
			ret = fetch_take_offset(p, &op.at);
	}
	if (!ret)
		ret = add_op(p, place, op);
	if (!ret)
		ret = add_op(p, place, (struct fetch_op){.kind = FETCH_DEREF});
	p->has_place = true;
	return ret;
}

static int take_fetch(struct fetch_parser *p, unsigned int depth);

/* "+8(FETCH)", "-u4(FETCH)" */
static int take_dereference(struct fetch_parser *p, unsigned int depth)
{
	struct fetch_op op = {.kind = FETCH_DEREF};
	const char *place = p->at;
	const bool negative = *p->at++ == '-';
	uint64_t offset;
	int ret;

	op.user = *p->at == 'u';
	p->at += op.user;
	ret = fetch_take_number(p, "an offset", &offset);
	if (!ret && offset > INT32_MAX)
		ret = FETCH_FAIL(p, place, "the offset is too large");
	if (!ret && *p->at != '(')
		ret = FETCH_FAIL(p, p->at, "'(' is missing, as in +8(%%di)");
	if (ret)
		return ret;
	op.at = negative ? -(int64_t)offset : (int64_t)offset;
	p->at++;
	ret = take_fetch(p, depth + 1);
	if (!ret && *p->at != ')')
		ret = FETCH_FAIL(p, p->at, "')' is missing");
	if (ret)
		return ret;
	p->at++;
	p->has_place = true;
	return add_op(p, place, op);
}

static int take_fetch(struct fetch_parser *p, unsigned int depth)
{
	const char *place = p->at;

	if (depth == FETCH_MAX_OPS)
		return FETCH_FAIL(p, place, "more than %d steps for one argument", FETCH_MAX_OPS);
	switch (*p->at) {
	case '%':
		return take_register(p);
	case '$':
		return depth && (!strncmp(p->at, "$comm", 5) || !strncmp(p->at, "$COMM", 5))
			       ? FETCH_FAIL(p, place, "$comm is no address")
			       : take_variable(p);
	case '@':
		return take_address(p);
	case '\\':
		return take_constant(p, depth);
	case '+':
	case '-':
		return take_dereference(p, depth);
	default:
		if (isalpha((unsigned char)*p->at) || *p->at == '_')
			return take_parameter(p);
		return FETCH_FAIL(p, place,
				  "an argument is PARAMETER, %%REGISTER, $VARIABLE, "
				  "@SYMBOL, \\CONSTANT, \\\"TEXT\" or +OFFSET(ARGUMENT)");
	}
}

/* What the kernel's probes do not take for a name either: reserved_field_names in trace_probe.c. */
static const char *const reserved_names[] = {
	"common_type", "common_flags", "common_preempt_count", "common_pid",
	"common_tgid", "__probe_ip",   "__probe_ret_ip",       "__probe_func"};

static bool is_reserved(const char *name)
{
	for (size_t i = 0; i < sizeof(reserved_names) / sizeof(reserved_names[0]); i++)
		if (!strcmp(name, reserved_names[i]))
			return true;
	return false;
}

bool fetch_name_is_taken(const struct fetch_probe *probe, const char *name)
{
	for (size_t i = 0; i < probe->nr_args; i++)
		if (!strcmp(probe->args[i].name, name))
			return true;
	return is_reserved(name);
}

static int refuse_reserved(const struct fetch_parser *p, const char *place)
{
	const char *name = p->arg->name;
	const size_t length = strlen(name);

	if (!strncmp(place, name, length) && place[length] == '=')
		return FETCH_FAIL(p, place, "an argument cannot have the name '%s'", name);
	return FETCH_FAIL(p, place,
			  "an argument cannot have the name '%s': give it one, as in NAME=%s", name,
			  name);
}

int fetch_check_name(const struct fetch_parser *p, const char *place)
{
	const char *name = p->arg->name;

	if (is_reserved(name))
		return refuse_reserved(p, place);
	for (const struct fetch_arg *other = p->probe->args; other != p->arg; other++)
		if (!strcmp(other->name, name))
			return FETCH_FAIL(p, place, "two arguments have the name '%s'", name);
	return 0;
}

/* As the kernel names them: a parameter, or the last member of a chain; else by its number. */
static void default_name(struct fetch_parser *p)
{
	const char *name = p->arg->symbol, *next;
	char text[FETCH_SYMBOL_SIZE];

	while ((next = strpbrk(name, "->.")))
		name = next + 1;
	if (p->arg->ops[0].kind == FETCH_PARAMETER && p->arg->nr_ops == 1 && !strchr("*$", *name))
		snprintf(text, sizeof(text), "%s", name);
	else
		snprintf(text, sizeof(text), "arg%zu", p->probe->nr_args);
	snprintf(p->arg->name, sizeof(p->arg->name), "%.*s", FETCH_ARG_NAME_SIZE - 1, text);
}

static int take_all_of_it(struct fetch_parser *p)
{
	int ret = take_fetch(p, 0);

	if (ret)
		return ret;
	p->arg->has_type = *p->at == ':';
	if (p->arg->has_type)
		return fetch_take_type(p);
	fetch_default_type(p);
	return 0;
}

/* "pid=1": an option of another tracer, or a constant of assemblers. */
static int refuse_number(struct fetch_parser *p, const char *place)
{
	return FETCH_FAIL(
		p, place,
		"%s=%.*s is no argument: a constant is \\%.*s, and a condition stands behind "
		"the probe, as in 'if %s == %.*s'",
		p->arg->name, (int)fetch_name_length(p->at), p->at, (int)fetch_name_length(p->at),
		p->at, p->arg->name, (int)fetch_name_length(p->at), p->at);
}

int fetch_take_arg(struct fetch_parser *p)
{
	const char *place = p->at;
	size_t length = fetch_name_length(p->at);
	const bool is_named = p->at[length] == '=';
	int ret = 0;

	p->has_place = false;
	p->variable = NULL;
	if (is_named) {
		ret = fetch_take_name(p, "the name of an argument", length, FETCH_ARG_NAME_SIZE,
				      p->arg->name);
		p->at++;
	}
	if (!ret && is_named && isdigit((unsigned char)*p->at))
		ret = refuse_number(p, place);
	if (!ret)
		ret = take_all_of_it(p);
	if (!ret && !is_named)
		default_name(p);
	return ret ? ret : fetch_check_name(p, place);
}

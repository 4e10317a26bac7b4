/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/probe/probe.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

enum { WORD = 8, NR_REGISTERS = 6 };

struct resolver {
	const struct kernel *kernel;
	const struct btf_types *btf; /* that have the function; NULL: the kernel has none */
	const char *function;
	struct btf_prototype prototype; /* once it is needed */
	bool has_prototype;
	struct error *err;
};

static int fail(const struct resolver *r, const struct fetch_arg *arg, const char *why)
{
	return error_set_column(r->err, EINVAL, arg->column, "argument '%s': %s", arg->name, why);
}

/* The column of a place in its symbol, which the user may not have written: $arg*. */
static unsigned int column_at(const struct fetch_arg *arg, const char *place)
{
	return arg->symbol_column ? arg->symbol_column + (unsigned int)(place - arg->symbol)
				  : arg->column;
}

/* --- symbols --------------------------------------------------------------------------------- */

static int resolve_symbol(const struct resolver *r, struct fetch_arg *arg)
{
	const uint64_t gva = kernel_symbol(r->kernel, arg->symbol);
	const char *near = gva ? NULL : probe_nearest(r->kernel->image, arg->symbol, false);

	if (!gva)
		return error_set_column(r->err, ENOENT, arg->symbol_column,
					"argument '%s': the kernel has no symbol '%s'%s%s%s",
					arg->name, arg->symbol, near ? ": did you mean '" : "",
					near ? near : "", near ? "'?" : "");
	arg->ops[0].kind = FETCH_CONSTANT;
	arg->ops[0].at += (int64_t)gva;
	return 0;
}

/* --- parameters ------------------------------------------------------------------------------ */

static int need_prototype(struct resolver *r, const struct fetch_arg *arg)
{
	int ret;

	if (r->has_prototype)
		return 0;
	ret = r->btf ? btf_prototype(r->btf, r->function, &r->prototype, r->err)
		     : kernel_image_check_btf(r->kernel->image, r->err);
	r->has_prototype = !ret;
	if (ret && r->err)
		r->err->column = arg->column;
	return ret;
}

/* "$arg1", with members behind it. */
static int find_numbered(const struct resolver *r, const struct fetch_arg *arg, unsigned int *out)
{
	const unsigned long number = strtoul(arg->symbol + strlen("$arg"), NULL, 0);

	if (!number || number > r->prototype.nr_params)
		return error_set_column(r->err, ENOENT, column_at(arg, arg->symbol),
					"argument '%s': %s has %zu parameters only", arg->name,
					r->function, (size_t)r->prototype.nr_params);
	*out = (unsigned int)number - 1;
	return 0;
}

static int find_named(const struct resolver *r, const struct fetch_arg *arg, size_t length,
		      unsigned int *out)
{
	const char *names[BTF_MAX_PARAMS + 1] = {NULL}, *nearest;
	char name[FETCH_SYMBOL_SIZE];

	snprintf(name, sizeof(name), "%.*s", (int)length, arg->symbol);
	for (*out = 0; *out < r->prototype.nr_params; (*out)++) {
		names[*out] = r->prototype.params[*out].name;
		if (!strcmp(names[*out], name))
			return 0;
	}
	nearest = text_nearest(name, names);
	return error_set_column(r->err, ENOENT, column_at(arg, arg->symbol),
				"argument '%s': %s has no parameter '%s'%s%s%s", arg->name,
				r->function, name, nearest ? ": did you mean '" : "",
				nearest ? nearest : "", nearest ? "'?" : "");
}

/* Of a parameter that has not the size of one, and of those behind it, nothing says where they are.
 */
static int no_register(const struct resolver *r, const struct fetch_arg *arg, unsigned int number)
{
	const uint32_t size = r->prototype.params[number].size;

	if (!size)
		return error_set_column(
			r->err, EINVAL, arg->column,
			"argument '%s': the size of parameter %u is not known: name "
			"the registers that are to be recorded, as in %%di",
			arg->name, number + 1);
	return error_set_column(r->err, EINVAL, arg->column,
				"argument '%s': parameter %u has %u bytes, and no register of its "
				"own: name the registers that are to be recorded, as in %%di",
				arg->name, number + 1, size);
}

/* Each takes a register, or a word on the stack, if it and those before are not larger. */
static int add_parameter(const struct resolver *r, struct fetch_arg *arg, unsigned int number)
{
	static const enum fetch_register regs[NR_REGISTERS] = {FETCH_DI, FETCH_SI, FETCH_DX,
							       FETCH_CX, FETCH_R8, FETCH_R9};
	struct fetch_op op = {.kind = FETCH_REGISTER};
	int ret;

	for (unsigned int i = 0; i <= number; i++)
		if (r->prototype.params[i].size > WORD || !r->prototype.params[i].size ||
		    !btf_is_aligned(r->btf, r->prototype.params[i].type_id))
			return no_register(r, arg, i);
	op.reg = number < NR_REGISTERS ? regs[number] : FETCH_SP;
	ret = fetch_add_op(arg, op, r->err);
	if (ret || number < NR_REGISTERS)
		return ret;
	op = (struct fetch_op){.kind = FETCH_DEREF, .at = WORD * (number - NR_REGISTERS + 1)};
	return fetch_add_op(arg, op, r->err);
}

/* "$retval", with members behind it: what the function returns is a pointer. */
static bool is_result(const struct fetch_arg *arg)
{
	return !strncmp(arg->symbol, "$retval", strlen("$retval"));
}

/* What the chain begins with. */
static int add_begin(const struct resolver *r, struct fetch_arg *arg, size_t length, uint32_t *type)
{
	unsigned int number = 0;
	int ret;

	if (is_result(arg)) {
		arg->nr_ops = 0;
		*type = r->prototype.return_type_id;
		return fetch_add_op(arg, (struct fetch_op){.kind = FETCH_REGISTER, .reg = FETCH_AX},
				    r->err);
	}
	ret = arg->symbol[0] == '$' ? find_numbered(r, arg, &number)
				    : find_named(r, arg, length, &number);
	if (ret)
		return ret;
	arg->nr_ops = 0;
	*type = r->prototype.params[number].type_id;
	return add_parameter(r, arg, number);
}

/* --- types ----------------------------------------------------------------------------------- */

static bool is_size(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == WORD;
}

static int take_type(const struct resolver *r, struct fetch_arg *arg, struct btf_value value)
{
	static const enum fetch_show shows[] = {[BTF_VALUE_UNSIGNED] = FETCH_UNSIGNED,
						[BTF_VALUE_SIGNED] = FETCH_SIGNED,
						[BTF_VALUE_POINTER] = FETCH_HEX,
						[BTF_VALUE_TEXT] = FETCH_STRING};

	if (value.kind == BTF_VALUE_OTHER || (value.kind != BTF_VALUE_TEXT && !is_size(value.size)))
		return fail(r, arg,
			    "it is a struct or an array: name a member, or give a type, such as "
			    "x8[16]");
	arg->show = shows[value.kind];
	arg->size = value.kind == BTF_VALUE_TEXT ? FETCH_LENGTH_SIZE : (uint8_t)value.size;
	arg->count = 1;
	return 0;
}

/* The same of what is passed in a register: a struct, or an array in one, is hexadecimal. */
static int take_passed_type(const struct resolver *r, struct fetch_arg *arg, struct btf_value value)
{
	if (value.kind != BTF_VALUE_OTHER && value.kind != BTF_VALUE_TEXT)
		return take_type(r, arg, value);
	if (!value.size || value.size > WORD)
		return fail(r, arg,
			    "its size is not known, or it has no register of its own: give a "
			    "type, such as x64");
	arg->show = FETCH_HEX;
	arg->size = is_size(value.size) ? (uint8_t)value.size : WORD;
	arg->count = 1;
	/* what lies above it in the register is undefined */
	if (!is_size(value.size))
		arg->bit_width = (uint8_t)(8 * value.size);
	return 0;
}

static void take_bits(struct fetch_arg *arg, const struct btf_field *field)
{
	if (arg->has_type || !field->bit_size)
		return;
	arg->bit_offset = field->bit_offset;
	arg->bit_width = field->bit_size;
}

/* The last member's, in memory. What a pointer to characters points to is a string, too. */
static int end_chain(const struct resolver *r, struct fetch_arg *arg, const struct btf_field *field,
		     struct btf_value value)
{
	struct fetch_op *last = &arg->ops[arg->nr_ops - 1];
	int ret = arg->has_type ? 0 : take_type(r, arg, value);

	if (ret)
		return ret;
	take_bits(arg, field);
	last->kind = FETCH_MEMORY;
	if (arg->show != FETCH_STRING)
		return 0;
	last->kind = FETCH_TEXT;
	if (value.kind != BTF_VALUE_POINTER)
		return 0;
	last->kind = FETCH_DEREF;
	return fetch_add_op(arg, (struct fetch_op){.kind = FETCH_TEXT}, r->err);
}

/* What is passed: a parameter, a result, or a member of one that is a struct. */
static int end_passed(const struct resolver *r, struct fetch_arg *arg,
		      const struct btf_field *field, struct btf_value value)
{
	struct fetch_op *last = &arg->ops[arg->nr_ops - 1];
	int ret = arg->has_type ? 0 : take_passed_type(r, arg, value);

	if (ret)
		return ret;
	if (arg->show == FETCH_STRING) {
		if (value.kind != BTF_VALUE_POINTER)
			return fail(r, arg, "a string lies in memory, and this is no pointer");
		return fetch_add_op(arg, (struct fetch_op){.kind = FETCH_TEXT}, r->err);
	}
	take_bits(arg, field);
	if (last->kind == FETCH_DEREF)
		last->kind = FETCH_MEMORY;
	else if (arg->count > 1)
		return fail(r, arg, "an array lies in memory, and this is in a register");
	return 0;
}

/* --- chains ---------------------------------------------------------------------------------- */

/* Of a struct that is passed: it lies in a register, or on the stack; a result may fill two. */
static int take_part(const struct resolver *r, struct fetch_arg *arg, uint32_t type,
		     const struct btf_field *field)
{
	struct fetch_op *last = &arg->ops[arg->nr_ops - 1];
	const uint32_t most = is_result(arg) ? 2 * WORD : WORD;

	if (btf_value(r->btf, type).size > most || field->offset >= most ||
	    !btf_is_aligned(r->btf, type))
		return fail(r, arg, "the struct is not passed in registers: it lies in memory");
	if (field->offset >= WORD)
		last->reg = FETCH_DX;
	last->at +=
		last->kind == FETCH_REGISTER ? 8 * (int64_t)(field->offset % WORD) : field->offset;
	return 0;
}

static int add_member(const struct resolver *r, struct fetch_arg *arg,
		      const struct btf_field *field)
{
	if (field->offset > INT32_MAX)
		return fail(r, arg, "the member is too far from the struct's beginning");
	return fetch_add_op(arg, (struct fetch_op){.kind = FETCH_DEREF, .at = field->offset},
			    r->err);
}

/* "." where "->" belongs, and the reverse. */
static int check_sign(const struct resolver *r, const struct fetch_arg *arg, const char *sign,
		      uint32_t type)
{
	if (*sign == '.' && btf_points_to_struct(r->btf, type))
		return error_set_column(r->err, EINVAL, column_at(arg, sign),
					"argument '%s': '.' follows a pointer: write '->'",
					arg->name);
	if (*sign == '-' && btf_is_struct(r->btf, type))
		return error_set_column(r->err, EINVAL, column_at(arg, sign),
					"argument '%s': '->' follows a struct: write '.'",
					arg->name);
	return 0;
}

/* One "->", or the "." behind a struct that is passed, and the members behind it, up to the next
 * "->". */
static int follow(const struct resolver *r, struct fetch_arg *arg, const char **at, uint32_t *type,
		  struct btf_field *field)
{
	const bool is_passed = **at == '.';
	const char *begin = *at + (is_passed ? strlen(".") : strlen("->"));
	const char *end = strstr(begin, "->");
	const uint32_t outer = *type;
	char path[FETCH_SYMBOL_SIZE];
	int ret = check_sign(r, arg, *at, *type);

	if (ret)
		return ret;
	*at = end ? end : begin + strlen(begin);
	snprintf(path, sizeof(path), "%.*s", (int)(*at - begin), begin);
	ret = is_passed ? btf_member(r->btf, *type, path, field, type, r->err)
			: btf_follow(r->btf, *type, path, field, type, r->err);
	if (ret) {
		error_prefix(r->err, "argument '%s': ", arg->name);
		if (r->err)
			r->err->column =
				column_at(arg, begin + (r->err->column ? r->err->column - 1 : 0));
		return ret;
	}
	return is_passed ? take_part(r, arg, outer, field) : add_member(r, arg, field);
}

/* Steps that the user wrote around it take its value, which must be whole. */
static int add_rest(const struct resolver *r, struct fetch_arg *arg, const struct fetch_arg *given,
		    struct btf_value value)
{
	int ret = 0;

	if (value.kind == BTF_VALUE_OTHER || value.kind == BTF_VALUE_TEXT || value.size != WORD)
		return fail(r, arg, "only a pointer can be followed");
	for (size_t i = 1; !ret && i < given->nr_ops; i++)
		ret = fetch_add_op(arg, given->ops[i], r->err);
	return ret;
}

static int resolve_parameter(struct resolver *r, struct fetch_arg *arg)
{
	const struct fetch_arg given = *arg;
	const char *at = arg->symbol + strcspn(arg->symbol, "-.");
	struct btf_field field = {0};
	struct btf_value value;
	uint32_t type = 0;
	int ret = add_begin(r, arg, (size_t)(at - arg->symbol), &type);

	while (!ret && *at)
		ret = follow(r, arg, &at, &type, &field);
	if (ret)
		return ret;
	value = btf_value(r->btf, type);
	if (given.nr_ops > 1)
		return add_rest(r, arg, &given, value);
	return strstr(arg->symbol, "->") ? end_chain(r, arg, &field, value)
					 : end_passed(r, arg, &field, value);
}

/* --- members that types name --------------------------------------------------------------------
 */

static int resolve_member(const struct resolver *r, const struct fetch_arg *arg,
			  struct fetch_op *op)
{
	static const struct {
		const char *structure, *member;
	} members[] = {[FETCH_FILE_DENTRY] = {"file", "f_path.dentry"},
		       [FETCH_DENTRY_NAME] = {"dentry", "d_name.name"}};
	struct btf_field field;
	int ret = kernel_image_check_btf(r->kernel->image, r->err);

	if (!ret)
		ret = btf_field(r->kernel->image->btf, members[op->member].structure,
				members[op->member].member, &field, r->err);
	if (ret && r->err)
		r->err->column = arg->column;
	if (ret)
		return ret;
	if (field.offset > INT32_MAX)
		return fail(r, arg, "the member is too far from the struct's beginning");
	op->at = field.offset;
	op->member = FETCH_NO_MEMBER;
	return 0;
}

static int resolve_members(const struct resolver *r, struct fetch_arg *arg)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < arg->nr_ops; i++)
		if (arg->ops[i].member != FETCH_NO_MEMBER)
			ret = resolve_member(r, arg, &arg->ops[i]);
	return ret;
}

/* --- all arguments --------------------------------------------------------------------------- */

static bool is_all(const struct fetch_arg *arg)
{
	return arg->ops[0].kind == FETCH_PARAMETER && !strcmp(arg->symbol, "*");
}

static int too_many(const struct resolver *r, const struct fetch_arg *arg)
{
	return error_set_column(r->err, EINVAL, arg->column, "more than %d arguments",
				FETCH_MAX_ARGS);
}

/* It becomes a field's; a guest may give a parameter any name, or none. */
static bool is_name(const char *text)
{
	const char *p = text;

	while (isalnum((unsigned char)*p) || *p == '_')
		p++;
	return p != text && !*p && !isdigit((unsigned char)*text);
}

/* As if the user had written the parameter's name, or its number; one of another field's gets a _
 * behind it. */
static int add_named(const struct resolver *r, const struct fetch_arg *all, unsigned int i,
		     struct fetch_probe *out)
{
	const char *given = r->prototype.params[i].name;
	struct fetch_arg *arg = &out->args[out->nr_args];
	char name[FETCH_ARG_NAME_SIZE];

	if (out->nr_args == FETCH_MAX_ARGS)
		return too_many(r, all);
	*arg = *all;
	if (is_name(given)) {
		snprintf(name, sizeof(name), "%s", given);
		snprintf(arg->symbol, sizeof(arg->symbol), "%s", name);
	} else {
		snprintf(name, sizeof(name), "arg%u", i + 1);
		snprintf(arg->symbol, sizeof(arg->symbol), "$%s", name);
	}
	snprintf(arg->name, sizeof(arg->name), "%s%s", name,
		 fetch_name_is_taken(out, name) ? "_" : "");
	out->nr_args++;
	return 0;
}

static int expand(struct resolver *r, struct fetch_probe *probe, struct fetch_probe *out)
{
	int ret = 0;

	out->nr_args = 0;
	for (size_t i = 0; !ret && i < probe->nr_args; i++) {
		const struct fetch_arg *arg = &probe->args[i];

		if (arg->ops[0].kind == FETCH_PARAMETER)
			ret = need_prototype(r, arg);
		for (unsigned int k = 0; !ret && is_all(arg) && k < r->prototype.nr_params; k++)
			ret = add_named(r, arg, k, out);
		if (ret || is_all(arg))
			continue;
		if (out->nr_args == FETCH_MAX_ARGS)
			return too_many(r, arg);
		out->args[out->nr_args++] = *arg;
	}
	return ret;
}

static int resolve_all(struct resolver *r, struct fetch_probe *probe)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < probe->nr_args; i++) {
		struct fetch_arg *arg = &probe->args[i];

		if (arg->ops[0].kind == FETCH_SYMBOL)
			ret = resolve_symbol(r, arg);
		else if (arg->ops[0].kind == FETCH_PARAMETER)
			ret = resolve_parameter(r, arg);
		if (!ret)
			ret = resolve_members(r, arg);
	}
	return ret ? ret : fetch_add_rooms(probe, r->err);
}

int probe_resolve(struct fetch_probe *probe, const char *function, const struct btf_types *types,
		  const struct kernel *kernel, struct error *err)
{
	struct resolver r = {.kernel = kernel, .btf = types, .function = function, .err = err};
	struct fetch_probe *out = malloc(sizeof(*out));
	int ret;

	if (!out)
		return error_set(err, ENOMEM, "out of memory");
	*out = *probe;
	ret = expand(&r, probe, out);
	if (!ret)
		ret = resolve_all(&r, out);
	if (!ret)
		*probe = *out;
	free(out);
	return ret;
}

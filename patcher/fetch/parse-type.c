/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An argument's type. */
#include "patcher/fetch/parse-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ELEMENTS = 64 /* as in the kernel, MAX_ARRAY_LEN */ };

static const struct type {
	const char *name;
	enum fetch_show show;
	uint8_t size;
} types[] = {
	{"u8", FETCH_UNSIGNED, 1},
	{"u16", FETCH_UNSIGNED, 2},
	{"u32", FETCH_UNSIGNED, 4},
	{"u64", FETCH_UNSIGNED, 8},
	{"s8", FETCH_SIGNED, 1},
	{"s16", FETCH_SIGNED, 2},
	{"s32", FETCH_SIGNED, 4},
	{"s64", FETCH_SIGNED, 8},
	{"x8", FETCH_HEX, 1},
	{"x16", FETCH_HEX, 2},
	{"x32", FETCH_HEX, 4},
	{"x64", FETCH_HEX, 8},
	{"char", FETCH_CHARACTER, 1},
	{"symbol", FETCH_CODE, 8},
	{"symstr", FETCH_CODE, 8},
	{"string", FETCH_STRING, FETCH_LENGTH_SIZE},
	{"ustring", FETCH_STRING, FETCH_LENGTH_SIZE},
};

enum { NR_TYPES = sizeof(types) / sizeof(types[0]) };

/* The last operation gives the bytes as they lie there, not a value. */
static void end_in_memory(struct fetch_arg *arg, enum fetch_op_kind kind)
{
	struct fetch_op *last = &arg->ops[arg->nr_ops - 1];

	if (last->kind == FETCH_DEREF)
		last->kind = kind;
}

static void set_type(struct fetch_parser *p, const struct type *type)
{
	p->arg->show = type->show;
	p->arg->size = type->size;
	p->arg->count = 1;
}

/* What it is, if it is a string that lies in no memory; else NULL. */
static const char *whole_string(const struct fetch_parser *p)
{
	const enum fetch_op_kind kind = p->arg->ops[0].kind;

	return kind == FETCH_COMM ? "$comm" : kind == FETCH_LITERAL ? "a text" : NULL;
}

static int refuse_whole_string(struct fetch_parser *p, const char *place)
{
	const char *what = whole_string(p);

	return what ? FETCH_FAIL(p, place, "%s is a string", what) : 0;
}

/* Where it lies is not known yet. */
static bool is_parameter(const struct fetch_parser *p)
{
	return p->arg->ops[0].kind == FETCH_PARAMETER && p->arg->nr_ops == 1;
}

/* Likewise, but it lies in memory. */
static bool is_member(const struct fetch_parser *p)
{
	return is_parameter(p) && strpbrk(p->arg->symbol, "-.");
}

static int take_count(struct fetch_parser *p)
{
	const char *place = p->at++;
	uint64_t count;
	int ret = fetch_take_number(p, "the number of elements", &count);

	if (!ret && *p->at != ']')
		ret = FETCH_FAIL(p, p->at, "']' is missing");
	if (ret)
		return ret;
	p->at++;
	if (!count || count > MAX_ELEMENTS)
		return FETCH_FAIL(p, place, "an array has 1 to %d elements", MAX_ELEMENTS);
	if (p->arg->show == FETCH_STRING && count > FETCH_MAX_LONG_STRINGS)
		return FETCH_FAIL(p, place, "a probe has at most %d strings",
				  FETCH_MAX_LONG_STRINGS);
	if (!p->has_place && !is_member(p))
		return FETCH_FAIL(p, place, "an array lies in memory, as in +0(%%di):u8[4]");
	p->arg->count = (uint8_t)count;
	return 0;
}

/* Between the numbers of a bit-field. */
static int take_sign(struct fetch_parser *p, char sign)
{
	if (*p->at != sign)
		return FETCH_FAIL(p, p->at, "'%c' is missing, as in b4@12/32", sign);
	p->at++;
	return 0;
}

/* "b4@12/32" */
static int take_bits(struct fetch_parser *p)
{
	uint64_t width, offset, container;
	const char *place = p->at++;
	int ret = fetch_take_number(p, "the width of the bit-field", &width);

	if (!ret)
		ret = take_sign(p, '@');
	if (!ret)
		ret = fetch_take_number(p, "the offset of the bit-field", &offset);
	if (!ret)
		ret = take_sign(p, '/');
	if (!ret)
		ret = fetch_take_number(p, "the container's bits", &container);
	if (ret)
		return ret;
	if (container != 8 && container != 16 && container != 32 && container != 64)
		return FETCH_FAIL(p, place, "a container has 8, 16, 32 or 64 bits");
	if (!width || width > container || offset > container - width)
		return FETCH_FAIL(p, place, "the bit-field does not fit into its container");
	set_type(p, &(struct type){"", FETCH_UNSIGNED, (uint8_t)(container / 8)});
	p->arg->bit_offset = (uint8_t)offset;
	p->arg->bit_width = (uint8_t)width;
	return 0;
}

/* In front of "[": pointers lie there. */
static int begin_strings(struct fetch_parser *p, const char *place, bool user)
{
	if (!p->has_place)
		return FETCH_FAIL(p, place,
				  "pointers to strings lie in memory, as in +0(%%di):string[4]");
	return fetch_add_op(p->arg, (struct fetch_op){.kind = FETCH_TEXT, .user = user}, p->err);
}

/* "$arg2", "$retval": their types tell whether they are pointers. */
static void be_parameter(struct fetch_parser *p)
{
	struct fetch_arg *arg = p->arg;

	snprintf(arg->symbol, sizeof(arg->symbol), "$%.*s", (int)fetch_name_length(p->variable + 1),
		 p->variable + 1);
	arg->symbol_column = (unsigned int)(p->variable - p->text) + 1;
	arg->nr_ops = 1;
	arg->ops[0] = (struct fetch_op){.kind = FETCH_PARAMETER};
}

/* p->at is behind the type. */
static int check_string(struct fetch_parser *p, const char *place, bool user)
{
	if (*p->at == '[')
		return begin_strings(p, place, user);
	if (whole_string(p))
		p->arg->size = FETCH_STRING_SIZE;
	if (p->variable && !p->has_place)
		be_parameter(p);
	if (whole_string(p) || is_parameter(p))
		return 0;
	if (!p->has_place)
		return FETCH_FAIL(p, place, "a string lies in memory, as in +0(%%di):string");
	end_in_memory(p->arg, FETCH_TEXT);
	p->arg->ops[p->arg->nr_ops - 1].user |= user;
	return 0;
}

/* "%pd", "%pD": as the kernel's probes expand them (traceprobe_expand_dentry_args()). */
static int take_file_name(struct fetch_parser *p)
{
	static const char *const known[] = {"%pd", "%pD", NULL};
	const char *place = p->at;
	const bool of_file = place[1] == 'p' && place[2] == 'D';
	struct fetch_op op = {.kind = FETCH_DEREF, .member = FETCH_FILE_DENTRY};
	size_t length = 1 + fetch_name_length(place + 1);
	int ret = refuse_whole_string(p, place);

	if (ret)
		return ret;
	if (length != strlen(known[0]) ||
	    (memcmp(place, known[0], length) != 0 && memcmp(place, known[1], length) != 0))
		return fetch_unknown(p, "type", place, length, known);
	set_type(p, &(struct type){"", FETCH_STRING, FETCH_LENGTH_SIZE});
	p->at += length;
	if (*p->at == '[')
		return FETCH_FAIL(p, p->at, "an array of names cannot be recorded");
	if (of_file)
		ret = fetch_add_op(p->arg, op, p->err);
	op.member = FETCH_DENTRY_NAME;
	if (!ret)
		ret = fetch_add_op(p->arg, op, p->err);
	return ret ? ret : fetch_add_op(p->arg, (struct fetch_op){.kind = FETCH_TEXT}, p->err);
}

static int take_named(struct fetch_parser *p)
{
	const char *place = p->at, *known[NR_TYPES + 1] = {0};
	size_t length = fetch_name_length(p->at);

	for (size_t i = 0; i < NR_TYPES; i++) {
		known[i] = types[i].name;
		if (strlen(known[i]) != length || memcmp(place, known[i], length) != 0)
			continue;
		set_type(p, &types[i]);
		p->at += length;
		if (types[i].show == FETCH_STRING)
			return check_string(p, place, *place == 'u');
		return refuse_whole_string(p, place);
	}
	if (!length)
		return FETCH_FAIL(p, place, "a type is missing behind ':'");
	return fetch_unknown(p, "type", place, length, known);
}

int fetch_take_type(struct fetch_parser *p)
{
	const char *place = ++p->at;
	const bool bits = *p->at == 'b' && isdigit((unsigned char)p->at[1]);
	int ret = *place == '%' ? take_file_name(p) : bits ? take_bits(p) : take_named(p);

	if (!ret && bits)
		ret = refuse_whole_string(p, place);
	if (!ret && *p->at == '[')
		ret = take_count(p);
	if (!ret)
		end_in_memory(p->arg, FETCH_MEMORY);
	return ret;
}

void fetch_default_type(struct fetch_parser *p)
{
	static const struct type word = {"x64", FETCH_HEX, 8},
				 text = {"string", FETCH_STRING, FETCH_STRING_SIZE};

	set_type(p, whole_string(p) ? &text : &word);
	end_in_memory(p->arg, FETCH_MEMORY);
}

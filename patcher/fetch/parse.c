/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A probe's definition: kind, name, place. */
#include "patcher/fetch/parse-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

/* --- words and numbers ----------------------------------------------------------------------- */

int fetch_unknown(const struct fetch_parser *p, const char *what, const char *word, size_t length,
		  const char *const *known)
{
	char copy[64], list[240] = "";
	const char *nearest = NULL;
	size_t used = 0;

	snprintf(copy, sizeof(copy), "%.*s", (int)length, word);
	if (length < sizeof(copy))
		nearest = text_nearest(copy, known);
	if (nearest)
		return FETCH_FAIL(p, word, "unknown %s '%s': did you mean '%s'?", what, copy,
				  nearest);
	for (; *known && used < sizeof(list); known++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
					 *known);
	return FETCH_FAIL(p, word, "unknown %s '%s'; known: %s", what, copy, list);
}

size_t fetch_name_length(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	return n;
}

int fetch_take_name(struct fetch_parser *p, const char *what, size_t length, size_t size, char *out)
{
	if (!length)
		return FETCH_FAIL(p, p->at, "%s is missing", what);
	if (isdigit((unsigned char)*p->at))
		return FETCH_FAIL(p, p->at, "%s begins with a digit", what);
	if (length >= size)
		return FETCH_FAIL(p, p->at, "%s is longer than %zu characters", what, size - 1);
	memcpy(out, p->at, length);
	out[length] = '\0';
	p->at += length;
	return 0;
}

int fetch_take_number(struct fetch_parser *p, const char *what, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*p->at))
		return FETCH_FAIL(p, p->at, "%s is missing", what);
	errno = 0;
	*out = strtoull(p->at, &end, 0);
	if (errno || isalnum((unsigned char)*end) || *end == '_')
		return FETCH_FAIL(p, p->at, "%s is no number of 64 bits", what);
	p->at = end;
	return 0;
}

int fetch_take_offset(struct fetch_parser *p, int64_t *out)
{
	const bool negative = *p->at == '-';
	const char *begin = p->at++;
	uint64_t number;
	int ret = fetch_take_number(p, "an offset", &number);

	if (!ret && number > INT32_MAX)
		return FETCH_FAIL(p, begin, "the offset is too large");
	if (!ret)
		*out = negative ? -(int64_t)number : (int64_t)number;
	return ret;
}

static bool is_symbol_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

int fetch_take_symbol(struct fetch_parser *p, char out[FETCH_SYMBOL_SIZE])
{
	size_t n = 0;

	while (is_symbol_character(p->at[n]))
		n++;
	if (!n)
		return FETCH_FAIL(p, p->at, "the name of a symbol is missing");
	if (n >= FETCH_SYMBOL_SIZE)
		return FETCH_FAIL(p, p->at, "the symbol's name is longer than %d characters",
				  FETCH_SYMBOL_SIZE - 1);
	memcpy(out, p->at, n);
	out[n] = '\0';
	p->at += n;
	return 0;
}

static void skip_blanks(struct fetch_parser *p)
{
	p->at += strspn(p->at, " \t");
}

static bool at_end(const struct fetch_parser *p)
{
	return !*p->at || strchr(" \t", *p->at);
}

/* --- kind and name --------------------------------------------------------------------------- */

/* How many calls the kernel follows at a time. Any number can be open here. */
static int skip_maxactive(struct fetch_parser *p)
{
	uint64_t number;

	if (!isdigit((unsigned char)*p->at))
		return 0;
	return fetch_take_number(p, "MAXACTIVE", &number);
}

/* Other kinds of the kernel's events, and what there is in their place. */
static const struct {
	char kind;
	const char *instead;
} other_kinds[] = {
	{'f', "'f' is a function's probe by fprobe: write p, or for its returns r"},
	{'t',
	 "'t' is a tracepoint's probe, which Sonde does not have: probe a function that is called "
	 "there, or trace with kmem or syscalls"},
	{'e', "'e' is another event's probe, which Sonde does not have: probe what the event is "
	      "of, with "
	      "all that is to be recorded"},
	{'u', "'u' is a program's probe, which Sonde does not have: it traces the kernel"},
	{'-',
	 "'-' removes an event: instances are removed by 'sonde ctl SOCKET trace remove NAME'"},
};

static int refuse_kind(struct fetch_parser *p)
{
	for (size_t i = 0; i < sizeof(other_kinds) / sizeof(other_kinds[0]); i++)
		if (*p->at == other_kinds[i].kind && strchr(": \t0123456789", p->at[1]))
			return FETCH_FAIL(p, p->at, "%s", other_kinds[i].instead);
	return 0;
}

static int take_kind(struct fetch_parser *p)
{
	int ret = refuse_kind(p);

	if (ret)
		return ret;
	if (*p->at != 'p' && *p->at != 'r')
		return FETCH_FAIL(p, p->at,
				  "a probe begins with 'p', of a call, or 'r', of a "
				  "return");
	p->probe->returns = *p->at++ == 'r';
	return p->probe->returns ? skip_maxactive(p) : 0;
}

/* "[GRP/][EVENT]", behind the colon. */
static int take_names(struct fetch_parser *p)
{
	size_t length = fetch_name_length(p->at);
	int ret = 0;

	p->probe->name_column = (unsigned int)(p->at - p->text) + 1;
	if (p->at[length] == '/' || p->at[length] == '.') {
		ret = fetch_take_name(p, "the name of a group", length, FETCH_NAME_SIZE,
				      p->probe->group);
		p->at++;
		length = fetch_name_length(p->at);
		if (ret || at_end(p))
			return ret;
	}
	ret = fetch_take_name(p, "the name of an event", length, FETCH_NAME_SIZE, p->probe->name);
	if (!ret && !at_end(p))
		ret = FETCH_FAIL(p, p->at, "a name has letters, digits and _");
	return ret;
}

/* As the kernel names them: "p_vfs_read_0". Offsets tell probes of one function apart: they are not
 * cut. */
static void add_names(struct fetch_probe *probe)
{
	const char kind = probe->returns ? 'r' : 'p';
	char offset[32];

	if (!probe->group[0])
		snprintf(probe->group, sizeof(probe->group), "kprobes");
	if (probe->name[0])
		return;
	snprintf(offset, sizeof(offset), "_%llu", (unsigned long long)probe->offset);
	if (probe->symbol[0])
		snprintf(probe->name, sizeof(probe->name), "%c_%.*s%s", kind,
			 FETCH_NAME_SIZE - 1 - (int)strlen("p_") - (int)strlen(offset),
			 probe->symbol, offset);
	else
		snprintf(probe->name, sizeof(probe->name), "%c_0x%llx", kind,
			 (unsigned long long)probe->address);
	for (char *c = probe->name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
}

/* --- place ----------------------------------------------------------------------------------- */

static int take_module(struct fetch_parser *p)
{
	const char *colon = strchr(p->at, ':'), *blank = strpbrk(p->at, " \t");
	size_t length = colon ? (size_t)(colon - p->at) : 0;

	if (!colon || (blank && blank < colon))
		return 0;
	if (!length || length >= sizeof(p->probe->module))
		return FETCH_FAIL(p, p->at, "this is no name of a module");
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)p->at[i]) && p->at[i] != '_' && p->at[i] != '-')
			return FETCH_FAIL(p, p->at + i, "this is no name of a module");
	memcpy(p->probe->module, p->at, length);
	p->at = colon + 1;
	return 0;
}

static int take_offset(struct fetch_parser *p)
{
	const char *begin = p->at;
	int64_t offset = 0;
	int ret = fetch_take_offset(p, &offset);

	if (!ret && offset < 0)
		ret = FETCH_FAIL(p, begin, "the offset leads out of the function");
	if (!ret && offset && p->probe->module[0])
		ret = FETCH_FAIL(p, begin,
				 "in modules only the beginning of a function can be probed");
	p->probe->offset = (uint64_t)offset;
	return ret;
}

static int take_place(struct fetch_parser *p)
{
	static const char suffix[] = "%return";
	int ret;

	p->probe->place_column = (unsigned int)(p->at - p->text) + 1;
	if (!p->probe->name_column)
		p->probe->name_column = p->probe->place_column;
	if (isdigit((unsigned char)*p->at))
		return fetch_take_number(p, "an address", &p->probe->address);
	ret = take_module(p);
	if (!ret)
		ret = fetch_take_symbol(p, p->probe->symbol);
	if (!ret && (*p->at == '+' || *p->at == '-'))
		ret = take_offset(p);
	if (!ret && !strncmp(p->at, suffix, strlen(suffix))) {
		p->at += strlen(suffix);
		p->probe->returns = true;
	}
	return ret;
}

/* --- all ------------------------------------------------------------------------------------- */

int fetch_add_room(struct fetch_probe *probe, struct fetch_arg *arg, struct error *err)
{
	arg->at = probe->bytes;
	arg->field = probe->nr_fields;
	probe->bytes = (uint16_t)(probe->bytes + fetch_room(arg));
	probe->nr_fields = (uint8_t)(probe->nr_fields + fetch_nr_fields(arg));
	probe->nr_long_strings += fetch_is_long(arg);
	probe->nr_long_texts += fetch_is_long_text(arg);
	if (probe->nr_long_strings + probe->nr_long_texts > FETCH_MAX_LONG_STRINGS)
		return error_set_column(err, EINVAL, arg->column,
					"more than %d strings, and arrays of more than %d "
					"characters",
					FETCH_MAX_LONG_STRINGS, FETCH_STRING_SIZE);
	if (probe->bytes > FETCH_MAX_BYTES)
		return error_set_column(err, EINVAL, arg->column,
					"the arguments take more than %d bytes", FETCH_MAX_BYTES);
	if (probe->bytes + probe->nr_long_strings * FETCH_LONG_STRING > FETCH_MAX_KEPT)
		return error_set_column(err, EINVAL, arg->column,
					"arguments and strings take more than %d bytes, of which a "
					"string takes %d",
					FETCH_MAX_KEPT, FETCH_LONG_STRING);
	if (probe->nr_fields > FETCH_MAX_FIELDS)
		return error_set_column(err, EINVAL, arg->column,
					"more than %d fields: an array has one for each element",
					FETCH_MAX_FIELDS);
	return 0;
}

int fetch_add_rooms(struct fetch_probe *probe, struct error *err)
{
	int ret = 0;

	probe->bytes = 0;
	probe->nr_fields = probe->nr_long_strings = probe->nr_long_texts = 0;
	for (size_t i = 0; !ret && i < probe->nr_args; i++)
		ret = fetch_add_room(probe, &probe->args[i], err);
	return ret;
}

int fetch_shorten(struct fetch_probe *probe, struct error *err)
{
	for (size_t i = 0; i < probe->nr_args; i++)
		if (fetch_is_long(&probe->args[i]))
			probe->args[i].size = FETCH_STRING_SIZE;
	return fetch_add_rooms(probe, err);
}

int fetch_add_op(struct fetch_arg *arg, struct fetch_op op, struct error *err)
{
	if (arg->nr_ops == FETCH_MAX_OPS)
		return error_set_column(err, EINVAL, arg->column,
					"more than %d steps for one argument", FETCH_MAX_OPS);
	arg->ops[arg->nr_ops++] = op;
	return 0;
}

/* Each element of an array of strings is an argument: its pointer lies behind that of the one
 * before. */
static int split_strings(struct fetch_parser *p, const char *place)
{
	struct fetch_probe *probe = p->probe;
	const struct fetch_arg all = *p->arg;
	int ret = 0;

	probe->nr_args--;
	for (unsigned int i = 0; !ret && i < all.count; i++) {
		if (probe->nr_args == FETCH_MAX_ARGS)
			return FETCH_FAIL(p, place, "more than %d arguments", FETCH_MAX_ARGS);
		p->arg = &probe->args[probe->nr_args++];
		*p->arg = all;
		p->arg->count = 1;
		p->arg->ops[all.nr_ops - 2].at += (int64_t)(i * sizeof(uint64_t));
		if (p->arg->ops[all.nr_ops - 2].at > INT32_MAX)
			return FETCH_FAIL(p, place, "the offset is too large");
		if (all.count > 1)
			snprintf(p->arg->name, sizeof(p->arg->name), "%.*s_%u",
				 FETCH_ARG_NAME_SIZE - 1, all.name, i);
		ret = fetch_check_name(p, place);
		if (!ret)
			ret = fetch_add_room(probe, p->arg, p->err);
	}
	return ret;
}

/* An argument has ended here, and no blank follows. */
static int refuse_rest(const struct fetch_parser *p)
{
	if (p->at[0] == '-' && p->at[1] == '>')
		return FETCH_FAIL(
			p, p->at,
			"this has no members by name; a parameter's name, $argN and $retval "
			"have");
	return FETCH_FAIL(p, p->at, "a blank is missing in front of this");
}

static int take_args(struct fetch_parser *p)
{
	struct fetch_probe *probe = p->probe;
	int ret = 0;

	for (skip_blanks(p); !ret && *p->at; skip_blanks(p)) {
		const char *place = p->at;

		if (probe->nr_args == FETCH_MAX_ARGS)
			return FETCH_FAIL(p, p->at, "more than %d arguments", FETCH_MAX_ARGS);
		p->arg = &probe->args[probe->nr_args++];
		p->arg->column = (unsigned int)(p->at - p->text) + 1;
		ret = fetch_take_arg(p);
		if (!ret && !at_end(p))
			ret = refuse_rest(p);
		if (!ret)
			ret = p->arg->show == FETCH_STRING && p->arg->count > 1
				      ? split_strings(p, place)
				      : fetch_add_room(probe, p->arg, p->err);
	}
	return ret;
}

static int take_all(struct fetch_parser *p)
{
	int ret;

	skip_blanks(p);
	ret = take_kind(p);
	if (!ret && *p->at == ':') {
		p->at++;
		ret = take_names(p);
	}
	if (!ret && !at_end(p))
		ret = FETCH_FAIL(p, p->at, "':' or a blank must follow 'p' or 'r'");
	if (ret)
		return ret;
	skip_blanks(p);
	if (!*p->at)
		return FETCH_FAIL(p, p->at, "the function is missing, as in p vfs_read");
	ret = take_place(p);
	if (!ret && !at_end(p))
		ret = FETCH_FAIL(p, p->at, "this cannot be part of a function's name");
	if (ret)
		return ret;
	add_names(p->probe);
	return take_args(p);
}

int fetch_parse(const char *definition, struct fetch_probe *out, struct error *err)
{
	struct error local = {0};
	struct fetch_parser p = {.text = definition, .at = definition, .probe = out, .err = &local};
	int ret;

	*out = (struct fetch_probe){0};
	ret = take_all(&p);
	if (ret && err)
		*err = local;
	return ret;
}

int fetch_check_place(const struct fetch_probe *probe, struct error *err)
{
	for (size_t i = 0; i < probe->nr_args; i++) {
		const struct fetch_arg *arg = &probe->args[i];

		if (probe->inside && arg->entry_only)
			return error_set_column(
				err, EINVAL, arg->column,
				"argument '%s': parameters are known only where a function "
				"begins; name a register",
				arg->name);
	}
	return 0;
}

bool fetch_reads_memory(const struct fetch_arg *arg)
{
	for (size_t i = 0; i < arg->nr_ops; i++)
		if (arg->ops[i].kind >= FETCH_DEREF)
			return true;
	return false;
}
